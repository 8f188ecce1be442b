package eventlog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// whileRead changes the log after the visible position was read, and before the events are, and
// returns the page.
func (f *feed) whileRead(feed *eventlog.Feed, q eventlog.FeedQuery, changes ...string) *eventlog.FeedPage {
	f.t.Helper()
	owner := testkit.OwnerConn(f.t, f.pool)
	tx := testkit.Must(owner.Begin(f.t.Context()))(f.t)
	exec := func(sql string) {
		f.t.Helper()
		if _, err := tx.Exec(f.t.Context(), sql); err != nil {
			f.t.Fatalf("%s: %v", sql, err)
		}
	}
	exec(`LOCK TABLE event_log IN ACCESS EXCLUSIVE MODE`)
	pages := make(chan *eventlog.FeedPage, 1)
	go func() {
		defer close(pages)
		page, err := feed.Page(f.t.Context(), q)
		if err != nil {
			f.t.Error(err)
			return
		}
		pages <- page
	}()
	testkit.Eventually(f.t, func() error { return testkit.LockAwaited(f.t, f.pool, 1) })
	for _, sql := range changes {
		exec(sql)
	}
	if err := tx.Commit(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	page, ok := <-pages
	if !ok {
		f.t.FailNow()
	}
	return page
}

// TestAPageOfALogThatChangesMeanwhile: what becomes visible while a page is read is left for the
// next one, and of a log that is removed meanwhile nothing is stepped over.
func TestAPageOfALogThatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	for _, id := range []string{"a", "b", "c"} {
		f.publish(id, "invoice.paid", 1)
	}
	f.show(2)
	feed := f.through(func(c *pgxpool.Config) { c.MaxConns = 1 })
	q := eventlog.FeedQuery{WorkspaceID: "acme", Oldest: f.now.AddDate(0, 0, -30), Pay: true, Limit: 100}
	if p := testkit.Must(feed.Page(t.Context(), q))(t); ids(p) != "a b" { // its statements are prepared now, which waits for locks, too
		t.Fatalf("at first: %+v", p)
	}
	p := f.whileRead(feed, q, `UPDATE log_checkpoint SET position = 3 WHERE workspace_id = 'acme'`)
	if ids(p) != "a b" || p.Visible != 2 || p.Next != f.mark(2) || p.More {
		t.Errorf("with an event that becomes visible meanwhile: %q, %+v", ids(p), p)
	}
	p = f.whileRead(feed, q,
		`UPDATE log_checkpoint SET position = 0 WHERE workspace_id = 'acme'`, `UPDATE log_head SET position = 0 WHERE workspace_id = 'acme'`,
		`ALTER TABLE event_log DISABLE TRIGGER USER`, `DELETE FROM event_log WHERE workspace_id = 'acme' AND position < 3`, `ALTER TABLE event_log ENABLE TRIGGER USER`)
	if ids(p) != "" || p.Visible != 0 || p.Next != (eventlog.Mark{}) || p.More || p.Missed || p.Diverged {
		t.Errorf("with a log that is removed meanwhile: %q, %+v", ids(p), p)
	}
}

// recorder keeps the statements of batches, and does something before each.
type recorder struct {
	sent   []pgx.TraceBatchQueryData
	before func()
}

// through is a feed that is read through connections of its own.
func (f *feed) through(change func(*pgxpool.Config)) *eventlog.Feed {
	f.t.Helper()
	cfg := f.pool.Config()
	change(cfg)
	pool := testkit.Must(pgxpool.NewWithConfig(f.t.Context(), cfg))(f.t)
	f.t.Cleanup(pool.Close)
	return eventlog.NewFeed(pool)
}

func (r *recorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	if r.before != nil {
		r.before()
	}
	return ctx
}
func (r *recorder) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	r.sent = append(r.sent, data)
}
func (r *recorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (r *recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestAPageBetweenWhoseStatementsTheLogGrows: before each round trip of a page an event becomes
// visible, or an entry is appended that is older than what is kept. The reader steps over what
// its page has looked at, and over nothing else.
func TestAPageBetweenWhoseStatementsTheLogGrows(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	r := &recorder{}
	feed := f.through(func(c *pgxpool.Config) { c.ConnConfig.Tracer = r })
	f.publish("old", "invoice.sent", 40)
	f.show(1)
	n, old := 0, 1
	more := func(daysOld int) func() {
		return func() {
			n++
			if daysOld > 30 {
				old++
			}
			f.publish(fmt.Sprintf("e%d", n), "invoice.paid", daysOld)
			f.show(int64(n + 1))
		}
	}
	q := eventlog.FeedQuery{WorkspaceID: "acme", Oldest: f.now.AddDate(0, 0, -30), Pay: true, Type: "invoice.sent", Limit: 100}
	for _, daysOld := range []int{39, 1} {
		for range 3 {
			r.before = more(daysOld)
			p := testkit.Must(feed.Page(t.Context(), q))(t)
			r.before = nil
			if len(p.Events) > 0 || p.More || p.Missed || p.Diverged || p.Next != f.mark(p.Visible) || p.Visible < 2 {
				t.Errorf("%d days old: %+v", daysOld, p)
			}
			next := q
			next.After, next.Resumed = p.Next, true
			if p := testkit.Must(feed.Page(t.Context(), next))(t); p.Missed || p.Diverged || len(p.Events) > 0 || p.Next != f.mark(int64(n+1)) {
				t.Errorf("%d days old, the page after: %+v", daysOld, p)
			}
		}
	}
	if p := testkit.Must(feed.Page(t.Context(), q))(t); p.Kept != int64(old+1) || n < old {
		t.Errorf("the feed begins at %d of %d, with %d older", p.Kept, n+1, old)
	}
}

// TestAPageOfALogThatIsGone: of a workspace that is being removed, and whose entries are older
// than what is kept, a page is empty.
func TestAPageOfALogThatIsGone(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish("a", "invoice.paid", 50)
	f.publish("b", "invoice.paid", 40)
	f.show(2)
	feed := f.feed()
	q := eventlog.FeedQuery{WorkspaceID: "acme", Oldest: f.now.AddDate(0, 0, -30), Limit: 100}
	if p := testkit.Must(feed.Page(t.Context(), q))(t); p.Kept != 3 || p.Next != f.mark(2) || len(p.Events) > 0 {
		t.Errorf("before: %+v", p)
	}
	testkit.AsOwner(t, f.pool, `UPDATE log_head SET position = 0 WHERE workspace_id = 'acme'`)
	f.show(0)
	for _, feed := range []*eventlog.Feed{feed, f.feed()} {
		if p := testkit.Must(feed.Page(t.Context(), q))(t); p.Visible != 0 || len(p.Events) > 0 || p.More || p.Missed || p.Diverged {
			t.Errorf("being removed: %+v", p)
		}
	}
}

// TestWhereAFeedBeginsToTheMicrosecond: the database has times in microseconds, and the clock in
// nanoseconds.
func TestWhereAFeedBeginsToTheMicrosecond(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish("a", "invoice.paid", 30)
	f.show(1)
	feed := f.feed()
	for range 2 {
		oldest := f.now.AddDate(0, 0, -30).Add(500 * time.Nanosecond)
		p := testkit.Must(feed.Page(t.Context(), eventlog.FeedQuery{WorkspaceID: "acme", Oldest: oldest, Limit: 100}))(t)
		if kept := testkit.Must(feed.KeptFrom(t.Context(), "acme", oldest))(t); p.Kept != 1 || kept != 1 || ids(p) != "a" {
			t.Errorf("kept from %d and %d, with %q", p.Kept, kept, ids(p))
		}
	}
}

// TestACursorWithoutAMarkGetsOne: a reader whose cursor says a position only, as those of the
// first version do, has a Mark from its next page on, whether there are events or not.
func TestACursorWithoutAMarkGetsOne(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish("a", "invoice.paid", 1)
	f.publish("b", "invoice.paid", 1)
	f.show(2)
	for position := range int64(3) {
		p := f.read(func(q *eventlog.FeedQuery) { q.After, q.Resumed = eventlog.Mark{Position: position}, true })
		if p.Next != f.mark(2) || p.Missed || p.Diverged {
			t.Errorf("after position %d: %+v", position, p)
		}
	}
}

// literal is an argument as SQL.
func literal(t *testing.T, v any) string {
	t.Helper()
	switch v := v.(type) {
	case string:
		return "'" + v + "'"
	case time.Time:
		return "'" + v.Format(time.RFC3339Nano) + "'"
	case []int64:
		return "'{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]") + "}'"
	case int, int64:
		return fmt.Sprint(v)
	}
	t.Fatalf("no literal for %T", v)
	return ""
}

// node is what the test looks at in a plan.
type node struct {
	Type    string  `json:"Node Type"`
	Rows    float64 `json:"Actual Rows"`
	Removed float64 `json:"Rows Removed by Filter"`
	Loops   float64 `json:"Actual Loops"`
	Plans   []node  `json:"Plans"`
}

func (n *node) read(t *testing.T, sql string) (rows float64) {
	t.Helper()
	if strings.Contains(n.Type, "Sort") || n.Type == "Seq Scan" || strings.HasPrefix(n.Type, "Bitmap") {
		t.Errorf("%s in %s", n.Type, sql)
	}
	if len(n.Plans) == 0 {
		rows = (n.Rows + n.Removed) * n.Loops
	}
	for i := range n.Plans {
		rows += n.Plans[i].read(t, sql)
	}
	return rows
}

// TestPagesReadFewEntries: no statement of a page sorts or reads the log through, and all of
// them read about as many entries as the page has, whatever it filters by and however large the
// log is. Their plans are those that are made without the values.
func TestPagesReadFewEntries(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	const entries = 20_000
	drafts := make([]domain.Draft, 0, entries)
	for i := range entries {
		typ := []string{"invoice.paid", "invoice.sent", "invoice.reversed"}[i%3]
		d := testkit.Must(domain.NewDraft("acme", typ, []byte(`{"invoice_id":"in_1"}`)))(t)
		d.CreatedAt = f.now.Add(time.Duration(i-entries) * time.Minute)
		drafts = append(drafts, d)
	}
	for some := range slices.Chunk(drafts, 10_000) {
		testkit.Must(f.log.Append(t.Context(), some...))(t)
	}
	f.show(entries)
	testkit.AsOwner(t, f.pool, `ANALYZE event_log, log_checkpoint`)
	tx := testkit.Must(f.pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	for _, sql := range []string{`SET LOCAL plan_cache_mode = force_generic_plan`, `SET LOCAL enable_seqscan = off`} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	r := &recorder{}
	feed := f.through(func(c *pgxpool.Config) { c.ConnConfig.Tracer = r })
	for _, typ := range []string{"", "invoice.sent"} {
		for _, payouts := range []bool{true, false} {
			for _, since := range []time.Time{{}, f.now.Add(-time.Hour)} {
				q := eventlog.FeedQuery{
					WorkspaceID: "acme", Oldest: f.now.AddDate(0, 0, -30), Pay: payouts, Type: typ, Since: since,
					After: f.mark(entries / 2), Resumed: true, Limit: 10,
				}
				r.sent = nil
				if p := testkit.Must(feed.Page(t.Context(), q))(t); len(p.Events) != 10 {
					t.Fatalf("%+v: %d events", q, len(p.Events))
				}
				read := 0.0
				for _, s := range r.sent {
					var arguments []string
					for _, a := range s.Args {
						arguments = append(arguments, literal(t, a))
					}
					var raw string
					simply := pgx.QueryExecModeSimpleProtocol
					if _, err := tx.Exec(t.Context(), "PREPARE it AS "+s.SQL, simply); err != nil {
						t.Fatalf("%s: %v", s.SQL, err)
					}
					if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE it ("+strings.Join(arguments, ", ")+")", simply).Scan(&raw); err != nil {
						t.Fatalf("%s: %v", s.SQL, err)
					}
					if _, err := tx.Exec(t.Context(), "DEALLOCATE it"); err != nil {
						t.Fatal(err)
					}
					var plans []struct{ Plan node }
					if err := json.Unmarshal([]byte(raw), &plans); err != nil || len(plans) != 1 {
						t.Fatalf("%v in %s", err, raw)
					}
					read += plans[0].Plan.read(t, s.SQL)
				}
				if read < 11 || read > 25 {
					t.Errorf("%+v: the statements read %g rows", q, read)
				}
			}
		}
	}
}
