package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// statements is a tracer that keeps what is asked while it is on.
type statements struct {
	mu   sync.Mutex
	on   bool
	list []asked
}

// asked is a statement with its arguments.
type asked struct {
	sql  string
	args []any
}

func (s *statements) add(sql string, args []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on {
		s.list = append(s.list, asked{sql, args})
	}
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.add(data.SQL, data.Args)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		s.add(q.SQL, q.Arguments)
	}
	return ctx
}

func (s *statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// during returns what is asked while a function runs.
func (s *statements) during(run func()) []asked {
	s.mu.Lock()
	s.on, s.list = true, nil
	s.mu.Unlock()
	run()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = false
	return s.list
}

// cost is what PostgreSQL reads for a page.
type cost struct{ rows, buffers float64 }

// plan is what a cost is made of.
type plan struct {
	Table   string  `json:"Relation Name"`
	Rows    float64 `json:"Actual Rows"`
	Removed float64 `json:"Rows Removed by Filter"`
	Recheck float64 `json:"Rows Removed by Index Recheck"`
	Loops   float64 `json:"Actual Loops"`
	Hit     float64 `json:"Shared Hit Blocks"`
	Read    float64 `json:"Shared Read Blocks"`
	Plans   []plan  `json:"Plans"`
}

// rows counts those that the scans of tables read, also for nothing.
func (p *plan) rows() (n float64) {
	if p.Table != "" {
		n = (p.Rows + p.Removed + p.Recheck) * p.Loops
	}
	for i := range p.Plans {
		n += p.Plans[i].rows()
	}
	return n
}

// costOf executes statements again, with what they read. Changes are rolled back.
func costOf(t *testing.T, pool testkit.DB, list []asked) (c cost) {
	t.Helper()
	tx := testkit.Must(pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	for _, a := range list {
		verb, _, _ := strings.Cut(strings.TrimLeft(a.sql, "( \n\t"), " ")
		switch strings.ToUpper(strings.TrimSpace(verb)) {
		case "SELECT", "WITH", "INSERT", "UPDATE", "DELETE":
		default:
			continue // begins or ends a transaction
		}
		var text string
		if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+a.sql, a.args...).Scan(&text); err != nil {
			t.Fatalf("%v in %s", err, a.sql)
		}
		var plans []struct{ Plan plan }
		if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 1 {
			t.Fatalf("%v in %s", err, text)
		}
		root := &plans[0].Plan
		c.rows += root.rows()
		c.buffers += root.Hit + root.Read
	}
	return c
}

// searches tells whether a page looks for what no index finds, among a bounded number of
// the newest rows (eventlog.SearchWindow is one such bound), which is more than there are at a
// landing. The address is a sample.Workspace's Brief.
func searches(address string) bool {
	switch address {
	case "/webhooks/{webhook}", "/events/{event}", "/events?about=nothing", "/requests?status=204", "/requests?range=month&find=/v1/events":
		return true
	}
	if strings.HasPrefix(address, "/requests?to=") || strings.HasPrefix(address, "/search?q=") || strings.HasPrefix(address, "/data/") && strings.Count(address, "/") == 3 {
		return true
	}
	return strings.HasPrefix(address, "/webhooks/{webhook}?type=") || strings.HasPrefix(address, "/webhooks/{webhook}?about=")
}

// TestPagesDoNotGrow visits every page of a workspace, and of one with ten times the deliveries
// and requests. No page reads more than twice the rows or blocks for that, apart from a few
// that lie elsewhere; one that searches reads no more than its bound, which is five times what the
// smaller workspace has in full, with some rows around it. The times are those of ledgerfeed-bench console.
func TestPagesDoNotGrow(t *testing.T) {
	t.Parallel()
	rows := testkit.Scale(1000, 10_000)
	const elsewhere = 300 // rows or blocks
	tracer := &statements{}
	s := setupWith(t, pg.Options{Settings: PoolSettings(), Tracer: tracer})
	few, many := s.fill("few", rows), s.fill("many", 10*rows)
	small, large := s.signIn(few.ID, session.Admin), s.signIn(many.ID, session.Admin)
	visit := func(p *person, path string) cost {
		return costOf(t, s.pool, tracer.during(func() {
			if a := p.get(path); path != "/sign-in/none" {
				a.status(http.StatusOK)
			}
		}))
	}
	table, read := &strings.Builder{}, 0.0
	fmt.Fprintf(table, "%-60s %9s %9s %9s %9s\n", "page", "rows", "of fewer", "blocks", "of fewer")
	paths := few.Addresses()
	for i, path := range many.Addresses() {
		most, least, name := visit(large, path), visit(small, paths[i]), many.Brief(path)
		read += most.rows
		fmt.Fprintf(table, "%-60s %9.0f %9.0f %9.0f %9.0f\n", name, most.rows, least.rows, most.buffers, least.buffers)
		growth, counted := 2.0, 0.0
		switch {
		case searches(name) && !testkit.Full():
			continue
		case searches(name):
			growth = 8
		case strings.Contains(path, "state="):
			// It counts the deliveries of a state, up to a bound that only the large one reaches.
			if growth = 3; testkit.Full() {
				counted = 10_000
			}
		case strings.HasSuffix(path, "/missed"):
			growth = 12 // it counts what an outage had, of which there is ten times as much
		}
		if most.rows > growth*least.rows+counted+elsewhere || most.buffers > growth*least.buffers+elsewhere {
			t.Errorf("%s reads %.0f rows and %.0f blocks, and %.0f and %.0f with a tenth of the rows", name, most.rows, most.buffers, least.rows, least.buffers)
		}
	}
	t.Log("\n" + table.String())
	if read < 1000 {
		t.Errorf("all pages read %.0f rows: the statements are not seen", read)
	}
}
