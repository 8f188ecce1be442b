package logbench

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/domain"
)

// massEntries are the entries that change all rows of the workspace's client, contractor,
// invoice or period.
func massEntries() [][2]string {
	return [][2]string{
		{"client.recorded", `{"client_id":"cl_1","name":"Northwind Clinic"}`},
		{"contractor.recorded", `{"contractor_id":"co_1","name":"Rowan Hale"}`},
		{"period.closed", `{"period":"2026-10"}`},
		{"invoice.issued", `{"invoice_id":"in_1","invoice_number":"1","amount":"900.00"}`},
		{"payout.paid", `{"payment_id":"po_1","invoice_id":"in_1","contractor_id":"co_1","amount":"600.00","currency":"EUR","source":"bank"}`},
		{"invoice.voided", `{"invoice_id":"in_1","invoice_number":"1"}`},
	}
}

// benchMass measures every entry that changes many rows, and what other workspaces and
// readers of that one notice of it, with each kind of statistics.
func benchMass(ctx context.Context, o *measure.Options, rows int) error {
	// What PostgreSQL knows of the workspace's rows. By itself it learns of an import only
	// minutes later.
	for _, known := range []string{"empty", "stale", "right"} {
		err := measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
			r := renaming{Database: db, rows: o.Size(rows, 1_000)}
			if err := r.prepareMass(ctx, known); err != nil {
				return err
			}
			return r.measureMass(ctx, known)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// prepareMass makes as many time entries as invoices, all of one client, one contractor and
// one period; the time entries are of one invoice.
func (r *renaming) prepareMass(ctx context.Context, known string) error {
	const about = `"client_id":"cl_1","contractor_id":"co_1","period":"2026-10","currency":"EUR"`
	line := func(workspaceID string, i int) ([]domain.Draft, error) {
		work, err := domain.NewDraft(workspaceID, "time_entry.recorded", fmt.Appendf(nil, `{"time_entry_id":"te_%07d","work_date":"2026-10-01","service":"Occupational therapy",
			"hours":7.5,"invoice_id":"in_1","bill_rate":"120.00","bill_amount":"900.00","pay_rate":"80.00","pay_amount":"600.00",%s}`, i, about))
		if err != nil {
			return nil, fmt.Errorf("cannot make a time entry: %w", err)
		}
		invoice, err := domain.NewDraft(workspaceID, "invoice.recorded", fmt.Appendf(nil, `{"invoice_id":"in_%d","number":"%d","gross_amount":"900.00",%s}`, i+1, i+1, about))
		if err != nil {
			return nil, fmt.Errorf("cannot make an invoice: %w", err)
		}
		return []domain.Draft{work, invoice}, nil
	}
	for _, table := range []string{"time_entry", "invoice"} {
		if _, err := r.Pool.Exec(ctx, "ALTER TABLE "+table+" SET (autovacuum_enabled = off)"); err != nil {
			return fmt.Errorf("cannot turn autovacuum off: %w", err)
		}
	}
	if known != "empty" { // other workspaces were there before
		if err := r.fill(ctx, "before", r.rows/10, line); err != nil {
			return err
		}
		if err := r.Quiesce(ctx); err != nil {
			return err
		}
	}
	if err := r.fill(ctx, renamedWorkspace, r.rows, line); err != nil {
		return err
	}
	if err := r.serve(ctx, "/v1/time-entries?limit=50&client_id=cl_1"); err != nil {
		return err
	}
	if known == "right" {
		return r.Quiesce(ctx)
	}
	return nil
}

// fill appends and projects what line makes of each number.
func (r *renaming) fill(ctx context.Context, workspaceID string, rows int, line func(workspaceID string, i int) ([]domain.Draft, error)) error {
	r.Say("making %d lines of %s", rows, workspaceID)
	const batch = 1000
	drafts := make([]domain.Draft, 0, 2*batch)
	for i := range rows {
		more, err := line(workspaceID, i)
		if err != nil {
			return err
		}
		if drafts = append(drafts, more...); len(drafts) >= batch || i == rows-1 {
			if _, err := r.Log.Append(ctx, drafts...); err != nil {
				return err
			}
			drafts = drafts[:0]
		}
	}
	for i := range besideWorkspaces {
		drafts = append(drafts, workload.Reversed(workload.WorkspaceID(i), "first"))
	}
	if _, err := r.Log.Append(ctx, drafts...); err != nil {
		return err
	}
	_, err := projectBacklog(ctx, r.Database, rows)
	return err
}

func (r *renaming) measureMass(ctx context.Context, known string) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended, err := workload.StartProjector(running, r.Database)
	if err != nil {
		return err
	}
	var without noticed
	quiet := func() error { return r.alone(ctx, &without, settleTime/2, r.Duration(besideTime/2)) }
	if err := quiet(); err != nil {
		return err
	}
	type result struct {
		typ    string
		took   time.Duration
		during noticed
	}
	var results []result
	for _, e := range massEntries() {
		r.Say("%s with %s statistics", e[0], known)
		one := result{typ: e[0]}
		began := time.Now()
		one.during, err = r.beside(ctx, func(ctx context.Context) error {
			err := r.change(ctx, e[0], e[1])
			one.took = time.Since(began)
			return err
		})
		if err != nil {
			return err
		}
		// The limit is known at the end only; until then, this is what there is of an interrupted run.
		r.Say("  %s in %.0f s: others %.1f ms, pages %.1f ms (p99), %d pages refused", e[0], one.took.Seconds(),
			measure.Quantile(one.during.visible, 0.99), measure.Quantile(one.during.pages, 0.99), one.during.refused)
		results = append(results, one)
	}
	if err := quiet(); err != nil {
		return err
	}
	// What one session that writes takes from others, whatever it does: on few cores they wait for it.
	bare, err := r.beside(ctx, r.bareUpdate)
	if err != nil {
		return err
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	const alone = "the same before and after all of them"
	for _, one := range results {
		r.Report.Add(measure.Figure{
			Name: fmt.Sprintf("%s, %s rows of each kind, %s statistics", one.typ, measure.Number(float64(r.rows)), known), Value: one.took.Seconds(), Unit: "s",
		})
		r.compare(&one.during, &without, "workspace", alone)
		r.Report.Add(measure.Figure{Name: "    pages refused meanwhile", Value: float64(one.during.refused)}.Below(1))
	}
	r.Report.Add(measure.Figure{
		Name: "one bare UPDATE of the time entries: append → projected in other workspaces meanwhile, p99", Value: measure.Quantile(bare.visible, 0.99), Unit: "ms",
		Limit: measure.Quantile(without.visible, 0.99), LimitIs: alone,
	})
	return nil
}

// serve starts an API, and says which page of the changed workspace is read.
func (r *renaming) serve(ctx context.Context, path string) error {
	server, err := api.Serve(ctx, r.Database, api.Options{CacheBytes: api.NoCache})
	if err != nil {
		return err
	}
	key, err := server.NewKey(ctx, renamedWorkspace)
	if err != nil {
		return err
	}
	r.page = api.Request{Host: server.Address, Path: path, Key: key}
	return nil
}
