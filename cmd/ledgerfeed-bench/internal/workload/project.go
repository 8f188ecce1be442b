package workload

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// StartProjector runs a projector until ctx ends; then the channel gets its
// error.
func StartProjector(ctx context.Context, db *measure.Database) (<-chan error, error) {
	pool, err := pg.Open(ctx, db.URL, pg.Options{MaxConns: projections.Connections, Settings: projections.PoolSettings()})
	if err != nil {
		return nil, err
	}
	runner, err := projections.NewRunner(projections.RunnerConfig{Pool: pool, Notifier: db.Notifier, Clock: time.Now, Logger: measure.NoLogger()})
	if err != nil {
		pool.Close()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		defer pool.Close()
		ended <- runner.Run(ctx)
	}()
	return ended, nil
}

// AwaitProjected waits until the read models have the whole log.
func AwaitProjected(ctx context.Context, db *measure.Database) error {
	return awaitNoneBehind(ctx, db, `
		SELECT EXISTS (SELECT FROM log_checkpoint c JOIN log_head h USING (workspace_id) WHERE h.position > c.position)`)
}

// awaitNoneBehind waits until a query says that nothing is behind.
func awaitNoneBehind(ctx context.Context, db *measure.Database, query string, args ...any) error {
	poll := time.NewTicker(10 * time.Millisecond) // a small backlog is handled within a second
	defer poll.Stop()
	for {
		var behind bool
		if err := db.Pool.QueryRow(ctx, query, args...).Scan(&behind); err != nil {
			return fmt.Errorf("cannot read what is behind: %w", err)
		}
		if !behind {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		}
	}
}

// SkipProjection moves every checkpoint to the head of its log without projecting
// anything, where the projector is not what is measured.
func SkipProjection(ctx context.Context, db *measure.Database) error {
	_, err := db.Pool.Exec(ctx, `
		UPDATE log_checkpoint c SET position = h.position FROM log_head h
		 WHERE h.workspace_id = c.workspace_id AND c.consumer = $1 AND c.position < h.position`, eventlog.ReadModels)
	if err != nil {
		return fmt.Errorf("cannot move the checkpoints: %w", err)
	}
	return nil
}

// CopyRateIs describes the limit that CopyRate takes.
const CopyRateIs = "COPY of the log out and of the finished rows in"

// CopyRate is the entries a second of the least that any projector has to do: to
// read the log once, and to write the rows that it ends in once, with their
// indexes.
func CopyRate(ctx context.Context, db *measure.Database, entries int) (float64, error) {
	db.Say("copying the log out and the rows in")
	conn, err := db.Pool.Acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("cannot get a connection to copy: %w", err)
	}
	defer conn.Release()
	tables := []string{"invoice", "charge", "time_entry", "payment", "client", "contractor", "client_credit", "credit_move", "closed_period", "anomaly",
		"removed_time_entry", "removed_charge", "removed_billed_charge"}
	for _, t := range tables {
		if _, err := conn.Exec(ctx, "CREATE TABLE bare_"+t+" (LIKE "+t+" INCLUDING ALL)"); err != nil {
			return 0, fmt.Errorf("cannot make a bare table: %w", err)
		}
	}
	began := time.Now()
	if _, err := conn.Conn().PgConn().CopyTo(ctx, io.Discard, "COPY event_log TO STDOUT"); err != nil {
		return 0, fmt.Errorf("cannot copy the log out: %w", err)
	}
	took := time.Since(began)
	for _, t := range tables {
		spent, err := copyTable(ctx, db, conn.Conn(), t)
		if err != nil {
			return 0, err
		}
		took += spent
	}
	return measure.PerSecond(entries, took), nil
}

// copyTable copies a table's rows into a bare one and returns how long writing
// them took. They are read through a pipe at the same time.
func copyTable(ctx context.Context, db *measure.Database, in *pgx.Conn, table string) (time.Duration, error) {
	out, err := db.Pool.Acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("cannot get a connection to copy: %w", err)
	}
	defer out.Release()
	reader, writer := io.Pipe()
	read := make(chan error, 1)
	go func() {
		_, err := out.Conn().PgConn().CopyTo(ctx, writer, "COPY "+table+" TO STDOUT (FORMAT binary)")
		_ = writer.CloseWithError(err)
		read <- err
	}()
	began := time.Now()
	_, err = in.PgConn().CopyFrom(ctx, reader, "COPY bare_"+table+" FROM STDIN (FORMAT binary)")
	took := time.Since(began)
	_ = reader.CloseWithError(err)
	if rerr := <-read; err == nil {
		err = rerr
	}
	if err != nil {
		return 0, fmt.Errorf("cannot copy %s: %w", table, err)
	}
	return took, nil
}
