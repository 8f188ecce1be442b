package readbench

import (
	"context"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// The workspaces that are read.
const (
	narrowWorkspace = "narrow"
	narrowRows      = 10_000
	wideWorkspace   = "wide"
	wideRows        = 1_000_000
)

// reader is a database with invoices, served in three ways.
type reader struct {
	*measure.Database
	cached   *api.Server // as in production
	uncached *api.Server // without the cache of responses
	logged   *api.Server // without the cache, with the request log
	key      string      // of the narrow workspace
	wideKey  string      // of the wide one; empty: no part has needed it yet
	wide     int         // its invoices
}

func (r *reader) prepare(ctx context.Context) error {
	if err := r.makeWorkspace(ctx, narrowWorkspace, narrowRows); err != nil {
		return err
	}
	var err error
	// An eighth of the requests that may wait is reserved for workspaces without one.
	if r.cached, err = api.Serve(ctx, r.Database, api.Options{CacheBytes: readapi.DefaultCacheBytes, MaxWaits: 2 * waitsOpen}); err != nil {
		return err
	}
	if r.uncached, err = api.Serve(ctx, r.Database, api.Options{CacheBytes: api.NoCache}); err != nil {
		return err
	}
	if r.logged, err = api.Serve(ctx, r.Database, api.Options{CacheBytes: api.NoCache, RequestLog: true}); err != nil {
		return err
	}
	r.key, err = r.cached.NewKey(ctx, narrowWorkspace)
	return err
}

// prepareWide makes the wide workspace, for the first part that needs it.
func (r *reader) prepareWide(ctx context.Context) (err error) {
	if r.wideKey != "" {
		return nil
	}
	r.wide = r.Size(wideRows, 20_000)
	if err := r.makeWorkspace(ctx, wideWorkspace, r.wide); err != nil {
		return err
	}
	r.wideKey, err = r.cached.NewKey(ctx, wideWorkspace)
	return err
}

func (r *reader) makeWorkspace(ctx context.Context, workspaceID string, rows int) error {
	r.Say("making a workspace with %d invoices", rows)
	if err := r.makeInvoices(ctx, workspaceID, rows); err != nil {
		return err
	}
	return r.Quiesce(ctx)
}

// on is a request to one of the servers, with the key of the narrow workspace.
func (r *reader) on(s *api.Server, path string) api.Request {
	return api.Request{Host: s.Address, Path: path, Key: r.key}
}

// makeInvoices writes rows of the read table, each the row of a real invoice under
// another id.
func (r *reader) makeInvoices(ctx context.Context, workspaceID string, rows int) error {
	d, err := domain.NewDraft(workspaceID, "invoice.recorded", []byte(`{"invoice_id":"in_SAMPLE","number":"INV-000001","client_id":"cl_000001",
		"contractor_id":"co_000001","period":"2026-10","plan_name":"Monthly retainer","gross_amount":"4200.00","currency":"EUR",
		"delivered_value":"4150.00","recognized_revenue":"4100.00","billable_hours":41.5,"client_billing_status":"ready_to_send",
		"payout_amount":"2100.00","margin_amount":"2100.00","margin_percent":50,"margin_note":"as agreed for the year"}`))
	if err != nil {
		return fmt.Errorf("cannot make a sample invoice: %w", err)
	}
	issued, err := domain.NewDraft(workspaceID, "invoice.issued", []byte(`{"invoice_id":"in_SAMPLE","invoice_number":"INV-000001","amount":"4200.00"}`))
	if err != nil {
		return fmt.Errorf("cannot make a sample invoice: %w", err)
	}
	if _, err := r.Log.Append(ctx, d, issued); err != nil {
		return err
	}
	state := domain.NewState()
	if err := r.Log.Walk(ctx, workspaceID, 0, func(e *domain.Entry) error { state.Apply(e); return nil }); err != nil {
		return err
	}
	sample := state.Invoices.Get("in_SAMPLE")
	f := sample.Fragments()
	_, err = r.Pool.Exec(ctx, `
		INSERT INTO invoice (workspace_id, id, position, shown, client_id, contractor_id, period, status, type, base, pay, margin)
		SELECT $1, 'in_' || lpad(g::text, 8, '0'), g, true, 'cl_' || g % 50, 'co_' || g % 20, '2026-10',
		       (ARRAY['not_ready','ready_to_send','sent','paid'])[1 + g % 4], 'invoice',
		       replace($2, 'in_SAMPLE', 'in_' || lpad(g::text, 8, '0')), $3, $4
		  FROM generate_series(1, $5::integer) AS g`, workspaceID, f.Base, f.Pay, f.Margin, rows)
	if err != nil {
		return fmt.Errorf("cannot make invoices: %w", err)
	}
	if _, err := r.Pool.Exec(ctx, `UPDATE log_checkpoint SET position = 2 WHERE workspace_id = $1`, workspaceID); err != nil {
		return fmt.Errorf("cannot make invoices: %w", err)
	}
	return nil
}

const invoices = "/v1/invoices"
