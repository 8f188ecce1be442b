// Package syncbench measures a reader's copy: how fast the first one is made, and how soon a change
// is in it.
package syncbench

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/copying"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

const (
	entries = 200_000 // of one workspace, for the first copy
	changes = 100     // whose time to the copy is measured
	// firstCopy is how many rows a second the first copy makes, at least.
	firstCopy = 40_000
	// changed is how long a change takes to the copy, at most, in milliseconds.
	changed = 300
)

// table is the list with the most rows and columns.
const table = "time_entries"

// Benchmark is ledgerfeed-bench sync.
func Benchmark(o *measure.Options) measure.Benchmark {
	b := &bench{}
	return measure.Benchmark{
		Name: "sync", Short: "A reader's copy in SQLite and PostgreSQL", Parts: []measure.Part{
			{Name: "postgres", Measure: func(ctx context.Context) error { return b.measure(ctx, b.postgres) }},
			{Name: "sqlite", Measure: func(ctx context.Context) error { return b.measure(ctx, b.sqlite) }},
		},
		SetUp: func(ctx context.Context, work func(context.Context) error) error {
			return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
				b.Database = db
				if err := b.prepare(ctx, o.Size(entries, 5_000)); err != nil {
					return err
				}
				return work(ctx)
			})
		},
	}
}

type bench struct {
	*measure.Database

	api *client.Client
}

// prepare fills a workspace, and serves it while the projector runs.
func (b *bench) prepare(ctx context.Context, n int) error {
	if err := workload.Fill(ctx, b.Database, 1, n); err != nil {
		return err
	}
	if _, err := workload.StartProjector(ctx, b.Database); err != nil {
		return err
	}
	if err := workload.AwaitProjected(ctx, b.Database); err != nil {
		return err
	}
	server, err := api.Serve(ctx, b.Database, api.Options{CacheBytes: api.NoCache})
	if err != nil {
		return err
	}
	key, err := server.NewKey(ctx, workload.WorkspaceID(0))
	if err != nil {
		return err
	}
	b.api, err = client.New(client.Config{URL: "http://" + server.Address, Key: key})
	return err
}

// target is a database that is copied to.
type target struct {
	name, to string
	db       *sql.DB
	limit    func(ctx context.Context) (rows int, took time.Duration, err error)
	limitIs  string
}

// measure copies to a target, and follows changes to it.
func (b *bench) measure(ctx context.Context, open func(context.Context) (*target, error)) error {
	t, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = t.db.Close() }()
	copyTo, err := copying.Open(ctx, t.to, "")
	if err != nil {
		return err
	}
	defer func() { _ = copyTo.Close() }()
	copier := func(once bool) *copying.Copier {
		return copying.New(copying.Config{API: b.api, Database: copyTo, Once: once, Clock: time.Now, Pause: flow.Sleep, Logger: measure.NoLogger()})
	}
	began := time.Now()
	if err := copier(true).Run(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	rows := 0
	for _, list := range []string{"invoices", "charges", "payments", table, "contractors", "clients", "credits", "credit_history"} {
		n := 0
		if err := t.db.QueryRowContext(ctx, "SELECT count(*) FROM "+list).Scan(&n); err != nil {
			return fmt.Errorf("count the copy: %w", err)
		}
		rows += n
	}
	limitRows, limitTook, err := t.limit(ctx)
	if err != nil {
		return err
	}
	b.Report.Add(measure.Figure{
		Name: fmt.Sprintf("first copy of %s rows into %s", measure.Number(float64(rows)), t.name), Value: measure.PerSecond(rows, took), Unit: "rows/s",
		Limit: measure.PerSecond(limitRows, limitTook), LimitIs: t.limitIs,
	}.AtLeast(firstCopy))
	return b.follow(ctx, t, copier(false))
}

// follow measures how soon after its append a change is in the copy.
func (b *bench) follow(ctx context.Context, t *target, copier *copying.Copier) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- copier.Run(ctx) }()
	var times []time.Duration
	for i := range changes {
		id := fmt.Sprintf("pm_%s_%d", t.name, i)
		d, err := domain.DecodeDraft(fmt.Appendf(nil, `{"workspace_id":%q,"type":"payment.confirmed","data":{"payment_id":%q,"client_id":"cl_1","amount":"1.00","currency":"EUR","source":"bench"}}`, workload.WorkspaceID(0), id))
		if err != nil {
			return fmt.Errorf("make a change: %w", err)
		}
		if _, err := b.Log.Append(ctx, d); err != nil {
			return err
		}
		began := time.Now()
		for n := 0; n == 0; {
			if !flow.Sleep(ctx, time.Millisecond) {
				return context.Cause(ctx)
			}
			if err := t.db.QueryRowContext(ctx, "SELECT count(*) FROM payments WHERE id = '"+id+"'").Scan(&n); err != nil {
				return fmt.Errorf("read the copy: %w", err)
			}
		}
		if i > 0 { // the first one waits until the copier follows
			times = append(times, time.Since(began))
		}
	}
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	b.Report.Add(measure.Figure{Name: "    append → in the copy, p50", Value: measure.Quantile(times, 0.5), Unit: "ms"})
	b.Report.Add(measure.Figure{Name: "    p99", Value: measure.Quantile(times, 0.99), Unit: "ms"}.Below(changed))
	return nil
}

// postgres copies into the same server. Its limit is COPY of the largest table's rows from memory.
func (b *bench) postgres(ctx context.Context) (*target, error) {
	u, err := url.Parse(b.URL)
	if err != nil {
		return nil, fmt.Errorf("the address of the database: %w", err)
	}
	query := u.Query()
	query.Del("requirepeer") // of libpq and of our own pools
	u.RawQuery = query.Encode()
	db, err := sql.Open("pgx", u.String())
	if err != nil {
		return nil, fmt.Errorf("open the copy: %w", err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "SET search_path = "+copying.DefaultSchema); err != nil {
		return nil, fmt.Errorf("open the copy: %w", err)
	}
	return &target{name: "PostgreSQL", to: u.String(), db: db, limitIs: "COPY of the same " + table + " from memory, one transaction", limit: func(ctx context.Context) (rows int, took time.Duration, err error) {
		conn, err := b.Pool.Acquire(ctx)
		if err != nil {
			return 0, 0, err
		}
		defer conn.Release()
		pg := conn.Conn().PgConn()
		var memory bytes.Buffer
		from := copying.DefaultSchema + "." + table
		if _, err := pg.CopyTo(ctx, &memory, "COPY "+from+" TO STDOUT"); err != nil {
			return 0, 0, fmt.Errorf("read the copy: %w", err)
		}
		if _, err := conn.Exec(ctx, "CREATE TABLE copy_limit (LIKE "+from+" INCLUDING INDEXES)"); err != nil {
			return 0, 0, fmt.Errorf("make a table: %w", err)
		}
		began := time.Now()
		tag, err := pg.CopyFrom(ctx, &memory, "COPY copy_limit FROM STDIN")
		return int(tag.RowsAffected()), time.Since(began), err
	}}, nil
}

// sqlite copies into a file. Its limit is a loop of INSERT with the largest table's rows from memory.
func (b *bench) sqlite(ctx context.Context) (*target, error) {
	folder, err := os.MkdirTemp("", "ledgerfeed-bench")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = os.RemoveAll(folder) })
	file := filepath.Join(folder, "copy.db")
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, fmt.Errorf("open the copy: %w", err)
	}
	return &target{name: "SQLite", to: "sqlite:" + file, db: db, limitIs: "a loop of INSERT of the same " + table + ", one transaction, the same driver", limit: func(ctx context.Context) (int, time.Duration, error) {
		return insertLoop(ctx, db, file+".limit")
	}}, nil
}

// insertLoop inserts the rows of the table into another file.
func insertLoop(ctx context.Context, from *sql.DB, file string) (rows int, took time.Duration, err error) {
	result, err := from.QueryContext(ctx, "SELECT * FROM "+table)
	if err != nil {
		return 0, 0, fmt.Errorf("read the copy: %w", err)
	}
	defer result.Close()
	columns, err := result.Columns()
	if err != nil {
		return 0, 0, fmt.Errorf("read the copy: %w", err)
	}
	var memory [][]any
	for result.Next() {
		values, targets := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := result.Scan(targets...); err != nil {
			return 0, 0, fmt.Errorf("read the copy: %w", err)
		}
		memory = append(memory, values)
	}
	if err := result.Err(); err != nil {
		return 0, 0, fmt.Errorf("read the copy: %w", err)
	}
	to, err := sql.Open("sqlite", file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return 0, 0, fmt.Errorf("open a file: %w", err)
	}
	defer func() { _ = to.Close() }()
	if _, err := to.ExecContext(ctx, "CREATE TABLE t ("+strings.Join(columns, ", ")+", PRIMARY KEY (id))"); err != nil {
		return 0, 0, fmt.Errorf("make a table: %w", err)
	}
	began := time.Now()
	tx, err := to.BeginTx(ctx, nil)
	if err != nil {
		return 0, 0, fmt.Errorf("begin: %w", err)
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO t VALUES (?"+strings.Repeat(", ?", len(columns)-1)+")") //nolint:gosec // placeholders alone
	if err != nil {
		return 0, 0, fmt.Errorf("insert: %w", err)
	}
	defer insert.Close()
	for _, values := range memory {
		if _, err := insert.ExecContext(ctx, values...); err != nil {
			return 0, 0, fmt.Errorf("insert: %w", err)
		}
	}
	err = tx.Commit()
	return len(memory), time.Since(began), err
}
