package projections_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rowcheck"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// object is the data of an entry.
type object = map[string]any

// draft makes an entry.
func draft(t testing.TB, workspaceID, typ string, data object) domain.Draft {
	t.Helper()
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Must(domain.NewDraft(workspaceID, typ, text))(t)
}

// timeEntries are drafts of time entries of client c, contractor k and invoice i.
func timeEntries(t testing.TB, workspaceID string, n int) (list []domain.Draft) {
	t.Helper()
	for i := range n {
		list = append(list, draft(t, workspaceID, "time_entry.recorded", object{
			"time_entry_id": fmt.Sprintf("t%06d", i), "work_date": "2026-10-01", "client_id": "c", "contractor_id": "k", "service": "Care",
			"hours": 1, "invoice_id": "i", "period": "2026-10", "currency": "EUR", "pay_amount": "1.00",
		}))
	}
	return list
}

// massTypes have the entries that reach rows without naming them, and those that
// make and change such rows. The texts look like pieces of an answer.
var massTypes = func() map[string]func(*rapid.T) object {
	pick := func(values ...any) *rapid.Generator[any] { return rapid.SampledFrom(values) }
	var (
		client, contractor, invoice = pick("c1", "c2"), pick("k1", "k2"), pick("i1", "i2")
		period, number              = pick("2026-10", "2026-W42"), pick("n1", "n2", `n","status":"sent`)
		text                        = pick("x,", `","client":{"id":"c1","name":"no"},"contractor":`, `,"updated_at":"`, "\\", "李\n\"", `"`)
		of                          = func(names string, more ...any) func(*rapid.T) object {
			return func(t *rapid.T) object {
				d := object{}
				for _, name := range strings.Fields(names) {
					g := map[string]*rapid.Generator[any]{
						"client_id": client, "contractor_id": contractor, "invoice_id": invoice, "period": period, "invoice_number": number,
					}[strings.TrimSuffix(name, "?")]
					if name, optional := strings.CutSuffix(name, "?"); !optional || rapid.Bool().Draw(t, "has "+name) {
						d[name] = g.Draw(t, name)
					}
				}
				for i := 0; i < len(more); i += 2 {
					v := more[i+1]
					if g, drawn := v.(*rapid.Generator[any]); drawn {
						v = g.Draw(t, more[i].(string))
					}
					d[more[i].(string)] = v
				}
				return d
			}
		}
		entry = pick("t1", "t2", "t3", "t4", "t5")
	)
	return map[string]func(*rapid.T) object{
		"client.recorded":     of("client_id", "name", text),
		"contractor.recorded": of("contractor_id", "name", text),
		"invoice.recorded":    of("invoice_id client_id contractor_id? period", "number", text, "gross_amount", "1.00", "currency", "EUR", "margin_note", text),
		"invoice.issued":      of("invoice_id invoice_number", "amount", "1.00"),
		"invoice.sent":        of("invoice_id invoice_number?"),
		"invoice.paid":        of("invoice_id invoice_number?"),
		"invoice.voided":      of("invoice_id invoice_number"),
		"period.closed":       of("period client_id?"),
		"payment.confirmed":   of("invoice_id? client_id", "payment_id", pick("p1", "p2"), "amount", "1.00", "currency", "EUR", "source", text),
		"payout.paid":         of("invoice_id? client_id? contractor_id", "payment_id", pick("p3", "p4"), "amount", "1.00", "currency", "EUR", "source", text),
		"time_entry.recorded": of("client_id contractor_id invoice_id? period", "time_entry_id", entry, "work_date", "2026-10-01",
			"service", text, "description", text, "hours", 1, "currency", "EUR", "pay_status", text),
		"time_entry.approved": of("invoice_id?", "time_entry_id", entry),
		"time_entry.deleted":  of("", "time_entry_id", entry),
		"charge.recorded": of("client_id contractor_id? invoice_id? period", "charge_id", pick("h1", "h2", "h3"), "date", "2026-10-01", "category", text,
			"kind", text, "amount", "1.00", "currency", "EUR", "status", pick("approved", "sent", "paid")),
	}
}()

// TestMassChangesEqualTheFold projects random streams in segments of every size,
// where entries that reach more than a row or two do so in the database, and where
// they do so in memory. Both must leave the rows of a fold, byte for byte.
func TestMassChangesEqualTheFold(t *testing.T) {
	t.Parallel()
	b := projectionstest.New(t)
	var names []string
	for name := range massTypes {
		names = append(names, name, name)
	}
	names = append(names, "time_entry.recorded", "time_entry.recorded", "charge.recorded", "invoice.recorded")
	workspaces, sliced := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		workspaces++
		massRows := rapid.SampledFrom([]int{1, 2, 1000}).Draw(rt, "mass rows")
		w := fmt.Sprintf("w%d", workspaces)
		var drafts []domain.Draft
		for range rapid.IntRange(20, 60).Draw(rt, "entries") {
			typ := rapid.SampledFrom(names).Draw(rt, "type")
			drafts = append(drafts, draft(t, w, typ, massTypes[typ](rt)))
		}
		b.Append(drafts)
		entries, err := b.Log.Read(t.Context(), w, 0, len(drafts))
		if err != nil {
			rt.Fatal(err)
		}
		do := projections.Projection{
			Tables: table.NewSet(), Rules: projections.LiveRules(), MassRows: massRows,
			Sliced: func(_ context.Context, rows int, _ time.Duration) error {
				sliced += rows
				return nil
			},
		}
		s := domain.NewState()
		for i := range entries {
			s.Apply(&entries[i])
		}
		for len(entries) > 0 {
			n := min(len(entries), rapid.SampledFrom([]int{1, 3, 10, 100}).Draw(rt, "segment"))
			projectAll(t, b, &do, w, entries[:n])
			entries = entries[n:]
		}
		stored, err := rowcheck.Stored(t.Context(), b.Pool, w)
		if err != nil {
			rt.Fatal(err)
		}
		for _, line := range rowcheck.Diff(stored, rowcheck.Folded(s), 10) {
			rt.Error(line)
		}
	})
	if sliced == 0 {
		t.Error("no row was changed in the database")
	}
}

// projectAll projects a segment, as the projector does in several claims.
func projectAll(t *testing.T, b *projectionstest.Bench, do *projections.Projection, w string, entries []domain.Entry) {
	t.Helper()
	for len(entries) > 0 {
		err := pg.InTx(t.Context(), b.Pool, func(tx pgx.Tx) error {
			stops, err := do.Project(t.Context(), tx, []eventlog.Segment{{WorkspaceID: w, Entries: entries}})
			if err != nil {
				return err
			}
			stop, stopped := stops[w]
			if !stopped {
				entries = nil
				return nil
			}
			for entries[0].Position < stop {
				entries = entries[1:]
			}
			err = do.ProjectMass(t.Context(), tx, w, &entries[0])
			entries = entries[1:]
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestNamesOfAnyLength: rows that are large because names are do not have to be in
// memory together, neither to be renamed nor otherwise.
func TestNamesOfAnyLength(t *testing.T) {
	t.Parallel()
	b := projectionstest.New(t)
	name := func(r string) string { return strings.Repeat(r, 4096) }
	drafts := append(timeEntries(t, "w", 700), draft(t, "w", "client.recorded", object{"client_id": "c", "name": name("😀")}))
	drafts = append(drafts, draft(t, "w", "contractor.recorded", object{"contractor_id": "k", "name": name("😁")}))
	for i := range 700 {
		drafts = append(drafts, draft(t, "w", "time_entry.approved", object{"time_entry_id": fmt.Sprintf("t%06d", i)}))
	}
	drafts = append(drafts, draft(t, "w", "client.recorded", object{"client_id": "c", "name": name("😂")}))
	b.Append(drafts)
	b.Project(1000)
	b.EqualsFold()
}

// massRunner is a Runner for which three rows are many.
func massRunner(t *testing.T, b *projectionstest.Bench) (ended <-chan error, stop func()) {
	t.Helper()
	runner := testkit.Must(projections.NewRunner(projections.RunnerConfig{
		Pool: b.Pool, Notifier: b.Notifier, Clock: time.Now, Logger: projectionstest.NoLog(), MassRows: 3, LongRows: 20, Sweep: 10 * time.Millisecond,
	}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	return done, cancel
}

// renames holds a row lock that the renames of a party in n workspaces wait for.
func renames(t *testing.T, b *projectionstest.Bench, n, rows int) (release func()) {
	t.Helper()
	for i := range n {
		b.Append(timeEntries(t, fmt.Sprintf("mass-%d", i), rows))
	}
	b.Project(1000)
	tx := testkit.Must(b.Pool.Begin(t.Context()))(t)
	for i := range n {
		if _, err := tx.Exec(t.Context(), `SELECT FROM time_entry WHERE workspace_id = $1 AND id = 't000001' FOR UPDATE`, fmt.Sprintf("mass-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		b.Append([]domain.Draft{draft(t, fmt.Sprintf("mass-%d", i), "client.recorded", object{"client_id": "c", "name": "Another"})})
	}
	return func() { pg.Rollback(t.Context(), tx) }
}

// awaitMass waits until a rename has come to the row that is locked.
func awaitMass(t *testing.T, b *projectionstest.Bench) {
	t.Helper()
	testkit.Eventually(t, func() error {
		waiting, err := testkit.LocksAwaited(t, b.Pool, `query LIKE 'UPDATE%time_entry%'`)
		if err == nil && waiting == 0 {
			return fmt.Errorf("no rename waits for the row")
		}
		return err
	})
}

// TestOthersDoNotWaitForMassEffects: while the renames of more workspaces than
// there are workers cannot go on, entries of others are projected, also those that
// come with them.
func TestOthersDoNotWaitForMassEffects(t *testing.T) {
	t.Parallel()
	b := projectionstest.New(t)
	const held = projections.DefaultWorkers + projections.DefaultMassWorkers + 1
	release := renames(t, b, held, 10)
	defer release()
	b.Append(timeEntries(t, "other", 5))
	ended, stop := massRunner(t, b)
	awaitMass(t, b)
	for round := range 5 {
		b.Append([]domain.Draft{draft(t, "other", "time_entry.approved", object{"time_entry_id": fmt.Sprintf("t%06d", round)})})
		testkit.Eventually(t, func() error {
			status, err := projections.ReadStatus(t.Context(), b.Pool, "other")
			if err == nil && status.LagEntries > 0 {
				return fmt.Errorf("%d entries of another workspace wait", status.LagEntries)
			}
			return err
		})
	}
	release()
	b.AwaitProjected()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	b.EqualsFold()
}

// TestALongMassEffectHoldsUpNoOther: while the rename of a party with very many rows is
// under way, those of other workspaces are carried out, be they shorter or as long.
func TestALongMassEffectHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := projectionstest.New(t)
	b.Append(timeEntries(t, "long", 300))
	b.Append(timeEntries(t, "short", 10))
	b.Append(timeEntries(t, "other", 300))
	b.Project(1000)
	rename := func(workspaceID, name string) {
		b.Append([]domain.Draft{draft(t, workspaceID, "client.recorded", object{"client_id": "c", "name": name})})
	}
	tx := testkit.Must(b.Pool.Begin(t.Context()))(t)
	defer pg.Rollback(t.Context(), tx)
	if _, err := tx.Exec(t.Context(), `SELECT FROM time_entry WHERE workspace_id = 'long' AND id = 't000250' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	underWay := func() (since time.Time, err error) {
		err = b.Pool.QueryRow(t.Context(), `
			SELECT xact_start FROM pg_stat_activity
			 WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'UPDATE time_entry%'`).Scan(&since)
		return since, err
	}
	rename("long", "Another")
	ended, stop := massRunner(t, b)
	awaitMass(t, b)
	for round := range 20 {
		before, err := underWay()
		if errors.Is(err, pgx.ErrNoRows) { // it waits for a bounded time, and comes again
			awaitMass(t, b)
			continue
		}
		for _, w := range []string{"short", "other"} {
			rename(w, fmt.Sprintf("Another %d", round))
			testkit.Eventually(t, func() error {
				status, err := projections.ReadStatus(t.Context(), b.Pool, w)
				if err == nil && status.LagEntries > 0 {
					return fmt.Errorf("%d entries of the workspace %s wait", status.LagEntries, w)
				}
				return err
			})
		}
		if after, err := underWay(); err == nil && after.Equal(before) {
			break
		}
		if round == 19 {
			t.Error("the renames of the other workspaces were never carried out beside the long one")
		}
	}
	pg.Rollback(t.Context(), tx)
	b.AwaitProjected()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	b.EqualsFold()
}

// TestAPlaceIsKeptForShortMassEffects: however many renames with very many rows there are,
// they leave a worker to those with fewer rows, and each has its turn.
func TestAPlaceIsKeptForShortMassEffects(t *testing.T) {
	t.Parallel()
	b := projectionstest.New(t)
	const longs = projections.DefaultMassWorkers + 1
	tx := testkit.Must(b.Pool.Begin(t.Context()))(t)
	defer pg.Rollback(t.Context(), tx)
	for i := range longs {
		b.Append(timeEntries(t, fmt.Sprint("long", i), 300))
	}
	b.Append(timeEntries(t, "short", 10))
	b.Project(1000)
	for i := range longs {
		if _, err := tx.Exec(t.Context(), `SELECT FROM time_entry WHERE workspace_id = $1 AND id = 't000250' FOR UPDATE`, fmt.Sprint("long", i)); err != nil {
			t.Fatal(err)
		}
		b.Append([]domain.Draft{draft(t, fmt.Sprint("long", i), "client.recorded", object{"client_id": "c", "name": "Another"})})
	}
	const most = projections.DefaultMassWorkers - 1
	underWay := func() (n int) {
		err := b.Pool.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity
			 WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'UPDATE time_entry%'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n > most {
			t.Fatalf("%d renames that take long are under way, so that no worker is free of them", n)
		}
		return n
	}
	ended, stop := massRunner(t, b)
	testkit.Eventually(t, func() error {
		if n := underWay(); n < most {
			return fmt.Errorf("%d renames that take long are under way, want %d", n, most)
		}
		return nil
	})
	for round := range 10 {
		b.Append([]domain.Draft{draft(t, "short", "client.recorded", object{"client_id": "c", "name": fmt.Sprint("Another", round)})})
		testkit.Eventually(t, func() error {
			underWay()
			status, err := projections.ReadStatus(t.Context(), b.Pool, "short")
			if err == nil && status.LagEntries > 0 {
				return fmt.Errorf("%d entries of the other workspace wait", status.LagEntries)
			}
			return err
		})
	}
	pg.Rollback(t.Context(), tx)
	b.AwaitProjected()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	b.EqualsFold()
}

// TestStoppingAMassEffect: a program that ends does not finish a rename. Nothing of
// it stays, it is no failure, and the next program makes it whole.
func TestStoppingAMassEffect(t *testing.T) {
	t.Parallel()
	b := projectionstest.New(t)
	release := renames(t, b, 1, 2000)
	defer release()
	ended, stop := massRunner(t, b)
	awaitMass(t, b)
	stop()
	release()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	status := testkit.Must(projections.ReadStatus(t.Context(), b.Pool, ""))(t)
	if w := status.Workspaces[0]; w.LagEntries != 1 || w.Failures != 0 || w.Error != nil {
		t.Errorf("after the stop: %+v", w)
	}
	b.Project(1000)
	b.EqualsFold()
}
