package readbench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
)

const (
	totalsWorkspace = "totals"
	totalsRows      = 500_000
	totalsMonths    = 24
	// totalsTime is how long each request is repeated.
	totalsTime = 3 * time.Second
)

// totals measures sums over many invoices of one workspace, of a month and of all of them, each against
// a bare statement for the same sums, and pages of a month.
func (r *reader) totals(ctx context.Context) error {
	rows := r.Size(totalsRows, 5_000)
	r.Say("making a workspace with %d invoices of %d months", rows, totalsMonths)
	if err := r.makeMonths(ctx, rows); err != nil {
		return err
	}
	for _, known := range []string{"empty", "right"} {
		if known == "right" {
			if err := r.Quiesce(ctx); err != nil {
				return err
			}
		}
		if err := r.measureTotals(ctx, rows, known); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) measureTotals(ctx context.Context, rows int, known string) error {
	key, err := r.uncached.NewKey(ctx, totalsWorkspace)
	if err != nil {
		return err
	}
	const october = "date_from=2026-10-01&date_to=2026-10-31"
	for _, m := range []struct {
		name, path, bare string
		target           float64 // ms
	}{
		{"totals of a month", "/v1/totals/invoices?" + october, bareTotals + " AND day <= '2026-10-31' AND last_day >= '2026-10-01' GROUP BY currency, type, reversed", 50},
		{"    by client", "/v1/totals/invoices?group_by=client&" + october, bareTotals + " AND day <= '2026-10-31' AND last_day >= '2026-10-01' GROUP BY client_id, currency, type, reversed", 0},
		{"totals of everything", "/v1/totals/invoices", bareTotals + " GROUP BY currency, type, reversed", 1000},
		{"    by client and month", "/v1/totals/invoices?group_by=client,month", bareTotals + " GROUP BY client_id, left(day, 7), currency, type, reversed", 0},
		{"open invoices, a page of 50", "/v1/invoices?open=true", "SELECT base FROM invoice WHERE workspace_id = $1 AND open ORDER BY position, id LIMIT 51", 0},
		{"invoices of a month, a page of 50", "/v1/invoices?" + october, "SELECT base FROM invoice WHERE workspace_id = $1 AND day <= '2026-10-31' AND last_day >= '2026-10-01' ORDER BY position, id LIMIT 51", 0},
	} {
		times, err := r.repeated(ctx, api.Request{Host: r.uncached.Address, Path: m.path, Key: key})
		if err != nil {
			return err
		}
		bare, err := r.bareTimes(ctx, m.bare)
		if err != nil {
			return err
		}
		figure := measure.Figure{
			Name:  fmt.Sprintf("%s, of %s invoices, %s statistics, median", m.name, measure.Number(float64(rows)), known),
			Value: measure.Quantile(times, 0.5), Unit: "ms", Limit: measure.Quantile(bare, 0.5), LimitIs: "a bare statement",
		}
		if m.target > 0 {
			figure = figure.Below(m.target)
		}
		r.Report.Add(figure)
	}
	return nil
}

const bareTotals = `SELECT count(*), sum(gross_amount), sum(credit_applied), sum(net_due), sum(delivered_value), sum(recognized_revenue), sum(billable_hours), sum(payout_amount), sum(margin_amount)
	FROM invoice WHERE workspace_id = $1`

// repeated returns how long a request takes, asked again and again by one caller.
func (r *reader) repeated(ctx context.Context, q api.Request) ([]time.Duration, error) {
	_, _, times, err := measure.Repeat(ctx, 1, r.Duration(totalsTime), func(ctx context.Context, _, _ int) error {
		resp, err := r.uncached.Get(ctx, q)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answered %d %.200s: %w", q.Path, resp.StatusCode, body, err)
		}
		return nil
	})
	return times, err
}

// bareTimes returns how long a statement takes with PostgreSQL's own settings.
func (r *reader) bareTimes(ctx context.Context, sql string) ([]time.Duration, error) {
	_, _, times, err := measure.Repeat(ctx, 1, r.Duration(totalsTime), func(ctx context.Context, _, _ int) error {
		if _, err := r.Pool.Exec(ctx, sql, totalsWorkspace); err != nil {
			return fmt.Errorf("the bare statement: %w", err)
		}
		return nil
	})
	return times, err
}

// makeMonths makes invoices of monthly and weekly periods. As in a real history, they are roughly in the
// order of their periods.
func (r *reader) makeMonths(ctx context.Context, rows int) error {
	if err := r.makeInvoices(ctx, totalsWorkspace, 1); err != nil {
		return err
	}
	var base, pay, margin string
	if err := r.Pool.QueryRow(ctx, `DELETE FROM invoice WHERE workspace_id = $1 RETURNING base, pay, margin`, totalsWorkspace).Scan(&base, &pay, &margin); err != nil {
		return fmt.Errorf("cannot make invoices: %w", err)
	}
	_, err := r.Pool.Exec(ctx, `
		INSERT INTO invoice (workspace_id, id, position, shown, client_id, contractor_id, period, status, type, base, pay, margin,
			reversed, open, day, last_day, currency, gross_amount, credit_applied, net_due, delivered_value, recognized_revenue, billable_hours, payout_amount, margin_amount)
		SELECT $1, 'in_' || g, g, true, 'cl_' || g % 300, 'co_' || g % 200, to_char(first, 'YYYY-MM'), (ARRAY['sent','paid'])[1 + g % 2], 'invoice',
			$2, $3, $4, false, g % 40 = 0, to_char(first, 'YYYY-MM-DD'), to_char(last, 'YYYY-MM-DD'), 'EUR', g, 0, g, g, NULL, g, g, -g
		  FROM generate_series(1, $5::integer) AS g,
		       LATERAL (SELECT timestamp '2025-01-01' + make_interval(days => (g::bigint * $6::integer / $5::integer)::integer * 30 + g % 7 * 4) AS first) AS f,
		       LATERAL (SELECT first + make_interval(days => CASE WHEN g % 3 = 0 THEN 6 ELSE 29 END) AS last) AS l`,
		totalsWorkspace, base, pay, margin, rows, totalsMonths)
	if err != nil {
		return fmt.Errorf("cannot make invoices: %w", err)
	}
	return nil
}
