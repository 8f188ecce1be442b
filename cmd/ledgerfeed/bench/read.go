package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/ledgerfeed/ledgerfeed/access"
	"github.com/ledgerfeed/ledgerfeed/domain"
)

// readTime is how long each way of reading is measured.
const readTime = 6 * time.Second

// readConnections is how many callers read side by side.
const readConnections = 16

// Read measures the read API over loopback, callers included.
func Read(ctx context.Context, o *Options) error {
	return withSetting(ctx, o, func(ctx context.Context, s *setting) error {
		r := reading{setting: s}
		for _, measure := range []func(context.Context) error{
			r.prepare, r.pages, r.depths, r.small, r.visible,
		} {
			if err := measure(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// The workspaces that are read.
const (
	narrowWorkspace = "narrow" // 10,000 invoices
	wideWorkspace   = "wide"   // 1,000,000
)

// reading measures pages.
type reading struct {
	*setting
	served       *served
	narrow, wide int    // invoices
	statement    string // of a page of invoices, as the API sends it
}

func (r *reading) prepare(ctx context.Context) error {
	r.narrow, r.wide = 10_000, r.size(1_000_000, 20_000)
	r.say("making workspaces with %d and %d invoices", r.narrow, r.wide)
	for workspaceID, rows := range map[string]int{narrowWorkspace: r.narrow, wideWorkspace: r.wide} {
		if err := r.makeInvoices(ctx, workspaceID, rows); err != nil {
			return err
		}
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	var err error
	if r.statement, err = r.captureStatement(ctx); err != nil {
		return err
	}
	r.served, err = r.serve(ctx, r.url)
	return err
}

// makeInvoices writes as many read rows as are wanted, each the row of a real
// invoice under another id.
func (r *reading) makeInvoices(ctx context.Context, workspaceID string, rows int) error {
	d, err := domain.NewDraft(workspaceID, "invoice.recorded", []byte(`{"invoice_id":"in_SAMPLE","number":"INV-000001","client_id":"cl_000001",
		"contractor_id":"co_000001","period":"2026-10","plan_name":"Monthly retainer","gross_amount":"4200.00","currency":"EUR",
		"delivered_value":"4150.00","recognized_revenue":"4100.00","billable_hours":41.5,"client_billing_status":"ready_to_send",
		"payout_amount":"2100.00","margin_amount":"2100.00","margin_percent":50,"margin_note":"as agreed for the year"}`))
	if err != nil {
		return fmt.Errorf("make a sample invoice: %w", err)
	}
	issued, err := domain.NewDraft(workspaceID, "invoice.issued", []byte(`{"invoice_id":"in_SAMPLE","invoice_number":"INV-000001","amount":"4200.00"}`))
	if err != nil {
		return fmt.Errorf("make a sample invoice: %w", err)
	}
	if _, err := r.log.Append(ctx, d, issued); err != nil {
		return err //nolint:wrapcheck // says it all
	}
	state := domain.NewState()
	if err := r.log.Walk(ctx, workspaceID, 0, func(e *domain.Entry) error { state.Apply(e); return nil }); err != nil {
		return err //nolint:wrapcheck // says it all
	}
	sample := state.Invoices.Get("in_SAMPLE")
	f := sample.Fragments()
	_, err = r.pool.Exec(ctx, `
		INSERT INTO invoice (workspace_id, id, position, shown, client_id, contractor_id, period, status, type, base, pay, margin)
		SELECT $1, 'in_' || lpad(g::text, 8, '0'), g, true, 'cl_' || g % 50, 'co_' || g % 20, '2026-10',
		       (ARRAY['not_ready','ready_to_send','sent','paid'])[1 + g % 4], 'invoice',
		       replace($2, 'in_SAMPLE', 'in_' || lpad(g::text, 8, '0')), $3, $4
		  FROM generate_series(1, $5::integer) AS g`, workspaceID, f.Base, f.Pay, f.Margin, rows)
	if err != nil {
		return fmt.Errorf("make invoices: %w", err)
	}
	if _, err := r.pool.Exec(ctx, `UPDATE log_checkpoint SET position = 2 WHERE workspace_id = $1`, workspaceID); err != nil {
		return fmt.Errorf("make invoices: %w", err)
	}
	return nil
}

// pages compares a page of 50 invoices with the bare statement and with a
// handler as one would write it first.
func (r *reading) pages(ctx context.Context) error {
	key, err := r.served.key(ctx, narrowWorkspace)
	if err != nil {
		return err
	}
	target := request{host: r.served.address, path: "/v1/invoices", key: key}
	ours, took, times, err := r.hammerHTTP(ctx, target)
	if err != nil {
		return err
	}
	bare, bareIs, err := r.bareSelect(ctx, narrowWorkspace, 51)
	if err != nil {
		return err
	}
	r.Report.add(Figure{
		Name: "a page of 50 invoices, 16 connections", Value: perSecond(ours, took), Unit: "/s",
		Limit: bare, LimitIs: bareIs,
	}.ratioAtLeast(0.5))
	r.Report.add(Figure{Name: "    one such page, p99", Value: quantile(times, 0.99), Unit: "ms"})
	typed, err := r.typedRate(ctx, key)
	if err != nil {
		return err
	}
	r.Report.add(Figure{
		Name: "    against typed columns, structs and encoding/json", Value: perSecond(ours, took), Unit: "/s",
		Limit: typed, LimitIs: "the same page made that way",
	}.ratioAtLeast(3))
	return nil
}

// depths compares pages near the start and far from it, in a small and a large
// workspace.
func (r *reading) depths(ctx context.Context) error {
	const limit, depth = 10, 1000
	for _, w := range []struct {
		id   string
		rows int
	}{{narrowWorkspace, r.narrow}, {wideWorkspace, r.wide}} {
		key, err := r.served.key(ctx, w.id)
		if err != nil {
			return err
		}
		first := request{host: r.served.address, path: fmt.Sprintf("/v1/invoices?limit=%d", limit), key: key}
		cursor, err := r.served.cursorAt(ctx, key, limit, depth-1)
		if err != nil {
			return err
		}
		far := first
		far.path += "&cursor=" + cursor
		near, nearTook, _, err := r.hammerHTTP(ctx, first)
		if err != nil {
			return err
		}
		n, took, _, err := r.hammerHTTP(ctx, far)
		if err != nil {
			return err
		}
		r.Report.add(Figure{
			Name: fmt.Sprintf("page 1,000 of %d, of %s invoices", limit, number(float64(w.rows))), Value: perSecond(n, took), Unit: "/s",
			Limit: perSecond(near, nearTook), LimitIs: "page 1",
		}.ratioWithin(0.2))
	}
	return nil
}

// small measures answers that are short: one resource, an unchanged page, and
// the key itself.
func (r *reading) small(ctx context.Context) error {
	key, err := r.served.key(ctx, narrowWorkspace)
	if err != nil {
		return err
	}
	var constant float64
	for _, m := range []struct {
		name string
		req  request
	}{
		{"what a key may see (/v1/me)", request{path: "/v1/me"}},
		{"one invoice by its id", request{path: "/v1/invoices/in_00000777"}},
		{"an unchanged page of 50 (304)", request{path: "/v1/invoices", tagged: true}},
	} {
		m.req.host, m.req.key = r.served.address, key
		if m.req.tagged {
			if m.req.tag, err = r.served.tag(ctx, m.req); err != nil {
				return err
			}
		}
		n, took, _, err := r.hammerHTTP(ctx, m.req)
		if err != nil {
			return err
		}
		f := Figure{Name: m.name, Value: perSecond(n, took), Unit: "/s"}
		if constant == 0 {
			constant = f.Value
		} else {
			f.Limit, f.LimitIs = constant, "/v1/me, which reads nothing"
		}
		r.Report.add(f)
	}
	return nil
}

// key makes a key for a workspace that no limit stops.
func (s *served) key(ctx context.Context, workspaceID string) (string, error) {
	_, secret, err := s.keys.Create(ctx, access.NewKey{
		WorkspaceID: workspaceID, Name: "benchmark", Permissions: access.PermissionsOf(access.AllPermissions()...), RateLimit: access.MaxRateLimit,
	})
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return secret.Reveal(), nil
}

// hammerHTTP sends a request again and again over connections that stay open.
func (r *reading) hammerHTTP(ctx context.Context, target request) (count int, took time.Duration, times []time.Duration, err error) {
	callers := make([]*caller, readConnections)
	for i := range callers {
		if callers[i], err = target.dial(ctx); err != nil {
			return 0, 0, nil, err
		}
	}
	defer func() {
		for _, c := range callers {
			c.close()
		}
	}()
	want := http.StatusOK
	if target.tagged {
		want = http.StatusNotModified
	}
	return hammer(ctx, readConnections, r.duration(readTime), func(_ context.Context, i, _ int) error {
		status, err := callers[i].ask()
		if err == nil && status != want {
			err = fmt.Errorf("%s answered %d", target.path, status)
		}
		return err
	})
}
