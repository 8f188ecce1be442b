package projections_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// TestRowsAreFoundByTheirKey: whatever the statistics say of a workspace, the statements of
// the projector read the rows that they load, change and delete, and few others. It projects
// every type of entry that changes many rows, and the others by their kinds, and looks at the
// plan of every statement.
func TestRowsAreFoundByTheirKey(t *testing.T) {
	t.Parallel()
	rows := testkit.Scale(400, 12_000)
	for name, prepare := range map[string]func(b *planBench){
		"empty": func(b *planBench) { b.fill("w", rows) },
		"stale": func(b *planBench) {
			b.fill("old", rows/3)
			testkit.AsOwner(b.t, b.Pool, "ANALYZE")
			b.fill("w", rows)
		},
		"right": func(b *planBench) {
			b.fill("old", rows/3)
			b.fill("w", rows)
			testkit.AsOwner(b.t, b.Pool, "ANALYZE")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &planBench{t: t, Bench: projectionstest.New(t)}
			for _, of := range table.NewSet().All() {
				testkit.AsOwner(t, b.Pool, "ALTER TABLE "+of.Name+" SET (autovacuum_enabled = off)")
			}
			b.log = &statementLog{}
			b.traced = testkit.Must(pg.Open(t.Context(), b.URL, pg.Options{MaxConns: 2, Settings: projections.PoolSettings(), Tracer: b.log}))(t)
			t.Cleanup(b.traced.Close)
			prepare(b)
			b.vacuum()
			b.examine(rows)
		})
	}
}

type planBench struct {
	t *testing.T
	*projectionstest.Bench
	traced testkit.DB
	log    *statementLog

	versions bool // rows have versions of transactions that were undone
}

// fill gives a workspace so many rows of each resource that mass changes reach, all of one
// client, one contractor, one invoice and one period, and as many of others.
func (b *planBench) fill(w string, rows int) {
	b.t.Helper()
	var drafts []domain.Draft
	for i := range 2 * rows {
		of, id := object{"client_id": "c", "contractor_id": "k", "invoice_id": "i", "period": "2026-10", "currency": "EUR"}, fmt.Sprintf("%06d", i)
		if i >= rows {
			of = object{"client_id": "d", "contractor_id": "l", "invoice_id": "j", "period": "2026-09", "currency": "EUR"}
		}
		with := func(more object) object {
			maps.Copy(more, of)
			return more
		}
		drafts = append(drafts,
			draft(b.t, w, "time_entry.recorded", with(object{"time_entry_id": "t" + id, "work_date": "2026-10-01", "service": "Care", "hours": 1, "pay_amount": "1.00"})),
			draft(b.t, w, "charge.recorded", with(object{"charge_id": "h" + id, "date": "2026-10-01", "category": "x", "kind": "y", "amount": "1.00", "status": "approved"})),
			draft(b.t, w, "payment.confirmed", object{"payment_id": "p" + id, "client_id": of["client_id"], "amount": "1.00", "currency": "EUR", "source": "bank"}))
		of["invoice_id"] = "i" + id
		drafts = append(drafts, draft(b.t, w, "invoice.recorded", with(object{"number": "n", "gross_amount": "1.00"})))
	}
	drafts = append(drafts, draft(b.t, w, "invoice.recorded", object{"invoice_id": "i", "client_id": "c", "contractor_id": "k", "period": "2026-10", "number": "n",
		"gross_amount": "1.00", "currency": "EUR"}))
	b.Append(drafts)
	b.Project(1000)
}

// examine projects entries, and checks the plans of each.
func (b *planBench) examine(rows int) {
	mass := []domain.Draft{
		draft(b.t, "w", "client.recorded", object{"client_id": "c", "name": "Another"}),
		draft(b.t, "w", "contractor.recorded", object{"contractor_id": "k", "name": "Another"}),
		draft(b.t, "w", "period.closed", object{"period": "2026-10"}),
		draft(b.t, "w", "invoice.issued", object{"invoice_id": "i", "invoice_number": "n", "amount": "1.00"}),
		draft(b.t, "w", "invoice.sent", object{"invoice_id": "i"}),
		draft(b.t, "w", "invoice.paid", object{"invoice_id": "i"}),
		draft(b.t, "w", "payout.paid", object{"payment_id": "o", "invoice_id": "i", "contractor_id": "k", "amount": "1.00", "currency": "EUR", "source": "bank"}),
		draft(b.t, "w", "invoice.voided", object{"invoice_id": "i", "invoice_number": "n"}),
	}
	for i := range mass {
		changed := b.project(mass[i:i+1], rows, true)
		if changed < rows {
			b.t.Errorf("%s changed %d rows in the database, want %d or more", mass[i].Type, changed, rows)
		}
	}
	var named []domain.Draft
	for i := range 40 {
		id := fmt.Sprintf("%06d", i*rows/40)
		named = append(named,
			draft(b.t, "w", "time_entry.approved", object{"time_entry_id": "t" + id}),
			draft(b.t, "w", "time_entry.deleted", object{"time_entry_id": "t" + id}),
			draft(b.t, "w", "charge.deleted", object{"charge_id": "h" + id}),
			draft(b.t, "w", "invoice.sent", object{"invoice_id": "i" + id}),
			draft(b.t, "w", "payment.confirmed", object{"payment_id": "p" + id, "client_id": "c", "amount": "2.00", "currency": "EUR", "source": "bank"}),
		)
	}
	b.project(named, rows, false)
	for i := range named {
		if i%2 == 0 { // a claim of two workspaces
			d := draft(b.t, "another", "client.recorded", object{"client_id": fmt.Sprint("c", i), "name": "x"})
			named = append(named, d)
		}
	}
	b.project(named, rows, false)
}

// project appends entries, lets the projector give them their effect once, and examines the
// statements that this took, with the arguments that they had and before the effect. mass
// says that they are to be done in the database; it returns how many rows that has changed. No
// entry reaches more than rows of a resource.
func (b *planBench) project(drafts []domain.Draft, rows int, mass bool) (changed int) {
	b.t.Helper()
	heads := map[string]int64{}
	for i := range drafts {
		heads[drafts[i].WorkspaceID] = 0
	}
	status := testkit.Must(projections.ReadStatus(b.t.Context(), b.Pool, ""))(b.t)
	for _, w := range status.Workspaces {
		heads[w.WorkspaceID] = w.Head
	}
	b.Append(drafts)
	var segments []eventlog.Segment
	for w := range heads {
		entries := testkit.Must(b.Log.Read(b.t.Context(), w, heads[w], 10_000))(b.t)
		if len(entries) > 0 {
			segments = append(segments, eventlog.Segment{WorkspaceID: w, Entries: entries})
		}
	}
	do := projections.Projection{
		Tables: table.NewSet(), Rules: projections.LiveRules(), MassRows: 100,
		Sliced: func(_ context.Context, rows int, _ time.Duration) error {
			changed += rows
			return nil
		},
	}
	errUndone := errors.New("undone")
	b.log.take()
	err := pg.InTx(b.t.Context(), b.traced, func(tx pgx.Tx) error {
		stops, err := do.Project(b.t.Context(), tx, segments)
		if err != nil {
			return err
		}
		if _, stopped := stops["w"]; stopped != mass {
			return fmt.Errorf("stopped before a mass change: %v, want %v", stopped, mass)
		}
		if mass {
			if err := do.ProjectMass(b.t.Context(), tx, "w", &segments[0].Entries[0]); err != nil {
				return err
			}
		}
		return errUndone
	})
	if !errors.Is(err, errUndone) {
		b.t.Fatalf("%s: %v", drafts[0].Type, err)
	}
	b.versions = true
	statements := b.log.take()
	if len(statements) == 0 {
		b.t.Fatalf("%s: no statement was seen", drafts[0].Type)
	}
	for _, s := range statements {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			b.examineStatement(drafts[0].Type, mode, s, rows)
		}
	}
	b.Project(1000)
	b.vacuum()
	return changed
}

// vacuum removes the versions of rows that the test has left, and keeps what statistics say.
// With them, the blocks that a row takes would depend on when PostgreSQL prunes its pages.
func (b *planBench) vacuum() {
	b.t.Helper()
	b.versions = false
	conn := testkit.OwnerConn(b.t, b.Pool)
	do := []string{`CREATE TEMPORARY TABLE kept AS SELECT oid, relpages, reltuples, relallvisible FROM pg_class WHERE relkind IN ('r', 'i')`}
	for _, of := range table.NewSet().All() {
		do = append(do, "VACUUM "+of.Name)
	}
	do = append(do, `
		UPDATE pg_class c SET relpages = kept.relpages, reltuples = kept.reltuples, relallvisible = kept.relallvisible
		  FROM kept WHERE kept.oid = c.oid`)
	for _, sql := range do {
		if _, err := conn.Exec(b.t.Context(), sql); err != nil {
			b.t.Fatalf("%s: %v", sql, err)
		}
	}
	if err := conn.Close(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// Blocks that finding one row takes: the pages of an index from the root, and those of the
// row and of the versions that examining its statement has left.
const blocksForARow = 8

func (b *planBench) examineStatement(of, mode string, s statement, rows int) {
	// The statements that were examined before have left versions of each row, which a read goes past.
	reads := strings.HasPrefix(strings.TrimSpace(s.sql), "SELECT")
	if reads && b.versions {
		b.vacuum()
	}
	b.versions = b.versions || !reads
	b.t.Helper()
	_, sql, finds := strings.Cut(s.sql, " CURSOR FOR ")
	if !finds {
		sql = s.sql
	}
	tx := testkit.Must(b.Pool.Begin(b.t.Context()))(b.t)
	defer pg.Rollback(b.t.Context(), tx)
	simple := pgx.QueryExecModeSimpleProtocol
	var arguments []string
	for _, a := range s.args {
		arguments = append(arguments, literal(b.t, a))
	}
	for _, do := range []string{"SET LOCAL plan_cache_mode = " + mode, "PREPARE the_statement AS " + sql} {
		if _, err := tx.Exec(b.t.Context(), do, simple); err != nil {
			b.t.Fatalf("%v in %s", err, do)
		}
	}
	var raw string
	err := tx.QueryRow(b.t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE the_statement ("+strings.Join(arguments, ", ")+")", simple).Scan(&raw)
	if err != nil {
		b.t.Fatalf("%v in %s", err, sql)
	}
	if _, err := tx.Exec(b.t.Context(), "DEALLOCATE the_statement"); err != nil {
		b.t.Fatal(err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal([]byte(raw), &plans); err != nil || len(plans) != 1 {
		b.t.Fatalf("%v in %s", err, raw)
	}
	plans[0].Plan.walk(func(n *planNode) {
		found := n.Loops * (1 + n.Rows)
		if finds { // of the rows that refer to an object, those in some states
			found = float64(rows) + 1
		}
		blocks := n.Hit + n.Read // beside those of the nodes under it
		for i := range n.Plans {
			blocks -= n.Plans[i].Hit + n.Plans[i].Read
		}
		if n.Table != "" && n.Type != "ModifyTable" && blocks > 20+blocksForARow*found || n.Loops*(n.RemovedByFilter+n.RemovedByJoin) > 20+found {
			b.t.Errorf("%s, %s: a %s of %s by %s gives %.0f rows in %.0f rounds, reads %.0f blocks, and throws %.0f rows away:\n%s", of, mode,
				n.Type, n.Table, n.Index, n.Rows, n.Loops, blocks, n.Loops*(n.RemovedByFilter+n.RemovedByJoin), sql)
		}
	})
}

// planNode is what is looked at in a plan.
type planNode struct {
	Type            string     `json:"Node Type"`
	Table           string     `json:"Relation Name"`
	Index           string     `json:"Index Name"`
	Rows            float64    `json:"Actual Rows"`
	Loops           float64    `json:"Actual Loops"`
	RemovedByFilter float64    `json:"Rows Removed by Filter"`
	RemovedByJoin   float64    `json:"Rows Removed by Join Filter"`
	Hit             float64    `json:"Shared Hit Blocks"`
	Read            float64    `json:"Shared Read Blocks"`
	Plans           []planNode `json:"Plans"`
}

func (n *planNode) walk(each func(*planNode)) {
	each(n)
	for i := range n.Plans {
		n.Plans[i].walk(each)
	}
}

// literal writes an argument in SQL.
func literal(t *testing.T, argument any) string {
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	switch v := argument.(type) {
	case string:
		return quoted(v)
	case int64:
		return fmt.Sprint(v)
	case []string, []int64:
		text := testkit.Must(json.Marshal(v))(t)
		return quoted("{" + strings.Trim(string(text), "[]") + "}")
	}
	t.Fatalf("a statement has an argument of the type %T", argument)
	return ""
}

// statement is one that the projector has sent.
type statement struct {
	sql  string
	args []any
}

// statementLog keeps the statements that look rows up in read tables.
type statementLog struct {
	mu   sync.Mutex
	list []statement
}

func (l *statementLog) take() []statement {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

func (l *statementLog) note(sql string, args []any) {
	if len(args) == 0 || strings.HasPrefix(sql, "INSERT") || !strings.Contains(sql, "workspace_id") && !strings.Contains(sql, "ctid") {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := make([]any, len(args))
	copy(kept, args) // the caller uses the slice for its next statement
	l.list = append(l.list, statement{sql, kept})
}

func (l *statementLog) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	l.note(d.SQL, d.Args)
	return ctx
}

func (l *statementLog) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (l *statementLog) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (l *statementLog) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	l.note(d.SQL, d.Args)
}

func (l *statementLog) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
