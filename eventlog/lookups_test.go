package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// The workspace whose log is read. Its name makes indexes tall that have it and an id.
var busy = strings.Repeat("w", 64)

// idForm makes the ids of entries.
type idForm func(i int) string

func longID(i int) string { return fmt.Sprintf("%064d", i) }

// shortID makes the index of ids smaller than that of positions.
func shortID(i int) string { return strconv.FormatInt(int64(i), 36) }

// TestLogIsReadByItsKeys: whatever the statistics say of a workspace, an append reads the
// entries whose ids it brings, a look-up the entries that it names, and few others. While
// statistics do not know a workspace, PostgreSQL expects one row there, and every index that
// begins with the workspace looks as good to it as the right one: it takes the lowest.
func TestLogIsReadByItsKeys(t *testing.T) {
	t.Parallel()
	rows := testkit.Scale(5_000, 100_000)
	analyze := func(b *bundle, _ idForm) { testkit.AsOwner(t, b.pool, "ANALYZE") }
	small := func(b *bundle, id idForm) {
		var drafts []domain.Draft
		for i := range 500 {
			drafts = append(drafts, sent(t, fmt.Sprint("small", i), id(i), "i"))
		}
		b.append(t, drafts...)
	}
	fill := func(b *bundle, id idForm) { b.fill(t, busy, rows, id) }
	for name, prepare := range map[string][]func(*bundle, idForm){
		"empty": {small, fill},
		"stale": {small, analyze, fill},
		"right": {small, fill, analyze},
	} {
		for form, id := range map[string]idForm{"long ids": longID, "short ids": shortID} {
			t.Run(name+", "+form, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				testkit.AsOwner(t, b.pool, "ALTER TABLE event_log SET (autovacuum_enabled = off)")
				for _, do := range prepare {
					do(b, id)
				}
				for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
					l := &lookups{t: t, b: b, mode: mode, rows: rows, id: id}
					l.connect(nil)
					l.appends()
					l.finds()
					// As the connections of the API (readapi.PoolSettings).
					l.connect(map[string]string{"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_sort": "off"})
					l.feed()
				}
			})
		}
	}
}

// fill gives a workspace public entries.
func (b *bundle) fill(t *testing.T, w string, n int, id idForm) {
	t.Helper()
	for from := 0; from < n; from += 1000 {
		var drafts []domain.Draft
		for i := from; i < min(n, from+1000); i++ {
			drafts = append(drafts, sent(t, w, id(i), "i"))
		}
		b.append(t, drafts...)
	}
}

type lookups struct {
	t    *testing.T
	b    *bundle
	mode string
	rows int
	id   idForm

	pool testkit.DB // of one connection, whose statistics are read
}

// connect makes the pool.
func (l *lookups) connect(settings map[string]string) {
	l.t.Helper()
	cfg := testkit.Must(pgxpool.ParseConfig(testkit.Direct(l.b.pool.Config().ConnString())))(l.t)
	cfg.MaxConns = 1
	maps.Copy(cfg.ConnConfig.RuntimeParams, settings)
	cfg.ConnConfig.RuntimeParams["plan_cache_mode"] = l.mode
	l.pool = testkit.Must(pgxpool.NewWithConfig(l.t.Context(), cfg))(l.t)
	l.t.Cleanup(l.pool.Close)
}

// reads fails the test if a call reads more than most rows of the log.
func (l *lookups) reads(name string, most int64, do func(ctx context.Context) error) {
	l.t.Helper()
	before := l.count()
	if err := do(l.t.Context()); err != nil {
		l.t.Fatalf("%s, %s: %v", name, l.mode, err)
	}
	if n := l.count() - before; n > most {
		l.t.Errorf("%s, %s: it reads %d rows of the log, want at most %d", name, l.mode, n, most)
	}
}

// count is how many rows of the log the connection has read.
func (l *lookups) count() (n int64) {
	l.t.Helper()
	testkit.Must(l.pool.Exec(l.t.Context(), `SELECT pg_stat_force_next_flush()`))(l.t)
	if err := l.pool.QueryRow(l.t.Context(), `
		SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'event_log')
		     + (SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'event_log')`).Scan(&n); err != nil {
		l.t.Fatal(err)
	}
	return n
}

func (l *lookups) appends() {
	l.t.Helper()
	for _, n := range []int{1, 3, 9, 100} {
		for _, whole := range []bool{false, true} {
			run := fmt.Sprintf("%s%d%v", l.mode[6:9], n, whole)
			for name, id := range map[string]func(i int) string{
				"new":   func(i int) string { return fmt.Sprintf("n%s%d", run, i) },
				"known": func(i int) string { return l.id(i * l.rows / n) },
				"mixed": func(i int) string {
					if i == n/2 {
						return l.id(l.rows / 2)
					}
					return fmt.Sprintf("m%s%d", run, i)
				},
			} {
				ids := make([]string, n)
				for i := range ids {
					ids[i] = id(i)
				}
				l.reads(fmt.Sprintf("%d entries, %s, whole %v", n, name, whole), int64(2*n+2), func(ctx context.Context) error {
					_, err := l.pool.Exec(ctx, `
						SELECT log_append($1, $2, NULL, $3, $4::text[], array_fill('invoice.sent'::text, ARRAY[$5::integer]), array_fill(NULL::timestamptz, ARRAY[$5::integer]),
						       array_fill('{"invoice_id":"i","client_id":"c"}'::text, ARRAY[$5::integer]), array_fill('{}'::text, ARRAY[$5::integer]), NULL, NULL)`,
						busy, l.b.clock.Now(), whole, ids, n)
					return err
				})
			}
		}
	}
	trace := "00-" + strings.Repeat("1", 32) + "-" + strings.Repeat("2", 16) + "-01"
	l.reads("traces", 2, func(ctx context.Context) error {
		_, err := l.pool.Exec(ctx, `SELECT log_trace($1, ARRAY[$2, $3], ARRAY[$4, $4], ARRAY['appended', 'appended'])`, busy, l.id(1), l.id(l.rows-1), trace)
		return err
	})
}

func (l *lookups) finds() {
	l.t.Helper()
	log := newLog(l.t, eventlog.Config{Pool: l.pool, Clock: l.b.clock.Now, Notify: func(eventlog.Topic, ...string) {}})
	middle := int64(l.rows / 2)
	l.reads("PositionOf", 1, func(ctx context.Context) error {
		_, err := log.PositionOf(ctx, busy, l.id(l.rows/2))
		return err
	})
	l.reads("EntryAt", 1, func(ctx context.Context) error {
		_, err := log.EntryAt(ctx, busy, middle)
		return err
	})
	l.reads("AppendedSince", 20, func(ctx context.Context) error {
		_, err := log.AppendedSince(ctx, busy, noon)
		return err
	})
	l.reads("Read", 10, func(ctx context.Context) error {
		_, err := log.Read(ctx, busy, middle, 10)
		return err
	})
	l.reads("ChainsAt", 2, func(ctx context.Context) error {
		_, err := eventlog.ChainsAt(ctx, log, map[string]int64{busy: middle, "small7": 1})
		return err
	})
}

func (l *lookups) feed() {
	l.t.Helper()
	l.b.exec(l.t, `UPDATE log_checkpoint SET position = (SELECT h.position FROM log_head h WHERE h.workspace_id = log_checkpoint.workspace_id), moved_at = $1`, l.b.clock.Now())
	feed := eventlog.NewFeed(l.pool)
	middle := int64(l.rows / 2)
	oldest := noon.AddDate(0, 0, -30)
	e := testkit.Must(l.b.log.EntryAt(l.t.Context(), busy, middle))(l.t)
	after := eventlog.NewMark(middle, e.Chain[:8])
	for name, q := range map[string]eventlog.FeedQuery{
		"first page":            {},
		"first page of a type":  {Type: "invoice.sent"},
		"page":                  {After: after, Resumed: true},
		"page of a type":        {After: after, Resumed: true, Type: "invoice.sent"},
		"page since":            {After: after, Resumed: true, Since: noon.AddDate(0, 0, -1)},
		"page with all payouts": {After: after, Resumed: true, Pay: true},
	} {
		q.WorkspaceID, q.Oldest, q.Limit = busy, oldest, 10
		l.reads(name, 80, func(ctx context.Context) error {
			_, err := feed.Page(ctx, q)
			return err
		})
	}
	l.reads("a mark", 2, func(ctx context.Context) error {
		var held bool
		err := l.pool.QueryRow(ctx, `SELECT `+eventlog.HoldsMark("$1", "$2", "$3"), busy, middle, e.Chain[:8]).Scan(&held)
		if err == nil && !held {
			err = errors.New("the log does not hold its own mark")
		}
		return err
	})
	l.searches()
	l.connect(nil) // as those of a console
	l.searches()
}

func (l *lookups) searches() {
	l.t.Helper()
	feed := eventlog.NewFeed(l.pool)
	l.reads("Event", 1, func(ctx context.Context) error {
		_, _, _, err := feed.Event(ctx, busy, l.id(l.rows/2), time.Time{}, false)
		return err
	})
	l.reads("Search", 2, func(ctx context.Context) error {
		_, err := feed.Search(ctx, eventlog.Search{WorkspaceID: busy, Text: l.id(l.rows / 2)})
		return err
	})
	l.reads("a window of a search", 1100, func(ctx context.Context) error {
		_, err := feed.Search(ctx, eventlog.Search{WorkspaceID: busy, Text: "nothing", Window: 1000})
		return err
	})
}
