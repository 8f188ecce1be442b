package projections_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testdb"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// bench is a database with a log, and what is needed to project it.
type bench struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
	log  *eventlog.Log
	wake *eventlog.Wake
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, url: testdb.New(t)}
	pool, err := pg.Open(t.Context(), b.url, pg.Options{MaxConns: 8, Settings: projections.PoolSettings()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b.pool = pool
	b.wake = eventlog.NewWake(pool, discard())
	b.log, err = eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now, Wake: b.wake})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func discard() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// append appends drafts in batches.
func (b *bench) append(drafts []domain.Draft) {
	b.t.Helper()
	for part := range slices.Chunk(drafts, 1000) {
		if _, err := b.log.Append(b.t.Context(), part...); err != nil {
			b.t.Fatal(err)
		}
	}
}

// project runs a Runner until everything appended is projected.
func (b *bench) project(entries int) {
	b.t.Helper()
	runner, err := projections.NewRunner(projections.RunnerConfig{
		Pool: b.pool, Wake: b.wake, Clock: time.Now, Logger: discard(), Entries: entries,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	b.awaitProjected()
	stop()
	if err := <-ended; err != nil {
		b.t.Fatal(err)
	}
}

// awaitProjected waits until every workspace's read models stand at its head.
func (b *bench) awaitProjected() {
	b.t.Helper()
	waiter, done := b.wake.Wait(eventlog.TopicProjected)
	defer done()
	late := time.After(time.Minute)
	for {
		status, err := projections.ReadStatus(b.t.Context(), b.pool, b.log, time.Now(), "")
		if err != nil {
			b.t.Fatal(err)
		}
		if status.LagEntries == 0 {
			return
		}
		select {
		case <-waiter.C:
			waiter.Take()
		case <-late:
			b.t.Fatalf("not projected within a minute: %+v", status)
		}
	}
}

// fold folds a workspace's log in memory.
func (b *bench) fold(workspaceID string) *domain.State {
	b.t.Helper()
	s := domain.NewState()
	err := b.log.Walk(b.t.Context(), workspaceID, 0, func(e *domain.Entry) error {
		s.Apply(e)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// equalsFold fails the test for each difference between the read tables and a
// fold of the log.
func (b *bench) equalsFold() {
	b.t.Helper()
	workspaces, err := b.log.Workspaces(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, w := range workspaces {
		want := describe(b.fold(w))
		got := b.stored(w)
		diff(b.t, w, got, want)
	}
}

func diff(t *testing.T, workspaceID string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	shown := 0
	for i, j := 0, 0; (i < len(got) || j < len(want)) && shown < 10; {
		switch {
		case j == len(want) || i < len(got) && got[i] < want[j]:
			t.Errorf("workspace %s: stored, but not folded:\n%s", workspaceID, got[i])
			i, shown = i+1, shown+1
		case i == len(got) || want[j] < got[i]:
			t.Errorf("workspace %s: folded, but not stored:\n%s", workspaceID, want[j])
			j, shown = j+1, shown+1
		default:
			i, j = i+1, j+1
		}
	}
}

// describe lists every row of a state, one a line, as stored does.
func describe(s *domain.State) []string {
	var list []string
	add := func(table string, r *domain.Row, f domain.Fragments, columns ...any) {
		line := []string{table, r.ID, fmt.Sprint(r.Position)}
		for _, c := range columns {
			line = append(line, fmt.Sprint(c))
		}
		list = append(list, strings.Join(append(line, f.Base, f.Pay, f.Margin), "|"))
	}
	s.Invoices.All(func(r *domain.Invoice) {
		add("invoice", &r.Row, r.Fragments(), r.Shown, r.Client.ID, r.Contractor.ID, r.Period, r.ClientBillingStatus, r.Type)
	})
	s.Charges.All(func(r *domain.Charge) {
		add("charge", &r.Row, r.Fragments(), r.BilledToClient, r.Client.ID, r.Contractor.ID, r.InvoiceID, r.Period)
	})
	s.TimeEntries.All(func(r *domain.TimeEntry) {
		add("time_entry", &r.Row, r.Fragments(), r.Client.ID, r.Contractor.ID, r.InvoiceID, r.Period, r.Status)
	})
	s.Payments.All(func(r *domain.Payment) {
		add("payment", &r.Row, r.Fragments(), r.Direction, r.Client.ID, r.Contractor.ID)
	})
	s.Clients.All(func(r *domain.Client) { add("client", &r.Row, r.Fragments()) })
	s.Contractors.All(func(r *domain.Contractor) { add("contractor", &r.Row, r.Fragments()) })
	s.Credits.All(func(r *domain.Credit) { add("client_credit", &r.Row, r.Fragments()) })
	s.CreditMoves.All(func(r *domain.CreditMove) { add("credit_move", &r.Row, r.Fragments()) })
	s.Closures.All(func(r *domain.ClosedPeriod) { add("closed_period", &r.Row, domain.Fragments{}) })
	for _, a := range s.Anomalies {
		list = append(list, fmt.Sprintf("anomaly|%d|%s|%s", a.Position, a.EventID, a.Reason))
	}
	return list
}

// stored lists every row of a workspace's read tables, one a line.
func (b *bench) stored(workspaceID string) []string {
	b.t.Helper()
	var list []string
	for _, sql := range []string{
		`SELECT concat_ws('|', 'invoice', id, position, shown::text, client_id, coalesce(contractor_id, ''), period, status, type, base, pay, margin) FROM invoice`,
		`SELECT concat_ws('|', 'charge', id, position, billed::text, client_id, coalesce(contractor_id, ''), coalesce(invoice_id, ''), period, base, pay, '') FROM charge`,
		`SELECT concat_ws('|', 'time_entry', id, position, client_id, contractor_id, coalesce(invoice_id, ''), period, status, base, pay, '') FROM time_entry`,
		`SELECT concat_ws('|', 'payment', id, position, direction, coalesce(client_id, ''), coalesce(contractor_id, ''), base, '', '') FROM payment`,
		`SELECT concat_ws('|', 'client', id, position, base, '', '') FROM client`,
		`SELECT concat_ws('|', 'contractor', id, position, base, '', '') FROM contractor`,
		`SELECT concat_ws('|', 'client_credit', id, position, base, '', '') FROM client_credit`,
		`SELECT concat_ws('|', 'credit_move', client_id || '/' || id, position, base, '', '') FROM credit_move`,
		`SELECT concat_ws('|', 'closed_period', period || '/' || client_id, position, '', '', '') FROM closed_period`,
		`SELECT concat_ws('|', 'anomaly', position, event_id, reason) FROM anomaly`,
	} {
		rows, err := b.pool.Query(b.t.Context(), sql+` WHERE workspace_id = $1`, workspaceID)
		if err != nil {
			b.t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			b.t.Fatal(err)
		}
		list = append(list, lines...)
	}
	return list
}

// readDrafts reads NDJSON.
func readDrafts(t *testing.T, name string) []domain.Draft {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var drafts []domain.Draft
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		d, err := domain.DecodeDraft(lines.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		drafts = append(drafts, d)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return drafts
}
