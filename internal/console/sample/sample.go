// Package sample fills workspaces with what months of use leave behind, with any number of
// deliveries and requests, and lists the addresses of the console's pages about them. Tests and
// benchmarks measure every page with it.
package sample

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Filler fills workspaces. Its pool connects as an owner of the tables, to a database whose log
// accepts entries from any clock: log_clock() returns NULL there.
type Filler struct {
	Pool     pg.DB
	Keys     *access.Store
	Webhooks *delivery.Store
	Rollups  *rollup.Writer
	Events   *rollup.Events
	Clock    func() time.Time
}

// Workspace is a filled workspace.
type Workspace struct {
	ID       string
	Requests int    // how many requests it has, and how many events and deliveries
	Key      string // id of the key that made the requests
	Unused   string // id of a key that made none
	Webhook  string // id of the webhook that got the deliveries
	Failing  string // id of a failing webhook, which got nothing
	Event    string // id of an event in the middle
	Delivery string // id of its delivery
	Record   string // cursor of a request in the middle

	now time.Time
}

const (
	keys      = 40
	anomalies = 100
	changes   = 200 // in the audit trail
	days      = 25  // over which events, deliveries and requests are spread
)

// at returns the time of the i-th event, delivery and request, the oldest first.
func (w *Workspace) at(i int) time.Time {
	return w.now.Add(-days * 24 * time.Hour / time.Duration(w.Requests) * time.Duration(w.Requests-i))
}

// Fill creates a workspace with n requests, n events and n deliveries of them, and with some keys,
// webhooks, anomalies and changes.
func (f *Filler) Fill(ctx context.Context, id string, n int) (*Workspace, error) {
	w := &Workspace{ID: id, Requests: n, now: f.Clock().UTC()}
	if _, err := f.Pool.Exec(ctx, `SELECT workspace_create($1, $1, now())`, id); err != nil {
		return nil, fmt.Errorf("cannot make workspace %s: %w", id, err)
	}
	for _, step := range []func(context.Context, *Workspace) error{f.makeKeys, f.makeWebhooks, f.makeEvents, f.makeRows, f.makeDeliveries, f.makeRequests, f.count, f.makeChanges, f.pick} {
		if err := step(ctx, w); err != nil {
			return nil, fmt.Errorf("cannot fill workspace %s: %w", id, err)
		}
	}
	return w, nil
}

func (f *Filler) makeKeys(ctx context.Context, w *Workspace) error {
	for i := range keys {
		key, _, err := f.Keys.Create(ctx, access.NewKey{WorkspaceID: w.ID, Name: fmt.Sprintf("Export %d", i), Permissions: access.PermissionsOf(access.InvoicesRead, access.EventsRead)})
		if err != nil {
			return err
		}
		w.Key, w.Unused = w.Unused, key.ID
	}
	return nil
}

func (f *Filler) makeWebhooks(ctx context.Context, w *Workspace) error {
	for i, id := range []*string{&w.Webhook, &w.Failing} {
		made, err := f.Webhooks.Create(ctx, w.ID, delivery.Definition{URL: fmt.Sprintf("https://hooks-%d.example.com/in", i), Events: []string{"all"}})
		if err != nil {
			return err
		}
		*id = made.ID
	}
	return f.exec(ctx, pgx.NamedArgs{"webhook": w.Failing, "since": w.now.Add(-30 * time.Hour)}, `UPDATE webhook SET failing_since = @since WHERE webhook_id = @webhook`)
}

// makeEvents appends the events, marks them as projected, and records some as anomalies.
func (f *Filler) makeEvents(ctx context.Context, w *Workspace) error {
	done := 0
	log, err := eventlog.New(eventlog.Config{
		Pool: f.Pool, Notify: func(eventlog.Topic, ...string) {},
		Clock: func() time.Time { return w.at(done) },
	})
	if err != nil {
		return err
	}
	for done < w.Requests {
		var drafts []domain.Draft
		for ; done < w.Requests && len(drafts) < 500; done++ {
			draft, err := domain.NewDraft(w.ID, "invoice.reversed", fmt.Appendf(nil,
				`{"invoice_id":"inv_%d","invoice_number":"2027-%d","client_id":"cl_%d","period":"2026-11"}`, done, done, done%300))
			if err != nil {
				return err
			}
			drafts = append(drafts, draft)
		}
		if _, err := log.Append(ctx, drafts...); err != nil {
			return err
		}
	}
	return f.exec(ctx,
		pgx.NamedArgs{"workspace": w.ID, "anomalies": anomalies},
		`UPDATE log_checkpoint c SET position = h.position FROM log_head h WHERE h.workspace_id = c.workspace_id AND c.workspace_id = @workspace AND c.consumer = 'read_models'`,
		`UPDATE webhook_cursor c SET position = h.position FROM log_head h WHERE h.workspace_id = c.workspace_id AND c.workspace_id = @workspace`,
		`INSERT INTO anomaly (workspace_id, position, reason, event_id)
		 SELECT workspace_id, position, CASE position % 3 WHEN 0 THEN 'repeat' ELSE 'unknown_object' END, id FROM event_log WHERE workspace_id = @workspace ORDER BY position LIMIT @anomalies`)
}

// makeRows writes rows into the lists, as many as there are events. Those of one client and of one
// invoice stay as many.
func (f *Filler) makeRows(ctx context.Context, w *Workspace) error {
	const (
		rows    = ` FROM generate_series(1, @rows::int) g`
		parties = `'"client":{"id":"cl_' || g / 300 || '","name":"Client"},"contractor":{"id":"co_' || g / 300 || '","name":"Rosa"}'`
		period  = `'"period":"2026-10","period_label":"October 2026","period_start":"2026-10-01","period_end":"2026-10-31"'`
	)
	return f.exec(ctx,
		pgx.NamedArgs{"workspace": w.ID, "rows": w.Requests},
		`INSERT INTO client (workspace_id, id, position, base) SELECT @workspace, 'cl_' || g, g, '{"id":"cl_' || g || '","name":"Client ' || g || '","status":"active","billing_status":"active"'`+rows,
		`INSERT INTO contractor (workspace_id, id, position, base) SELECT @workspace, 'co_' || g, g, '{"id":"co_' || g || '","name":"Rosa ' || g || '","email":null,"status":"active"'`+rows,
		`INSERT INTO invoice (workspace_id, id, position, shown, client_id, contractor_id, period, status, type, number, reversed, open, day, last_day, currency, gross_amount, credit_applied, net_due, base, pay, margin)
		 SELECT @workspace, 'inv_' || g, g, true, 'cl_' || g / 300, 'co_' || g / 300, '2026-10', 'sent', 'invoice', '2027-' || g, false, g % 10 = 0, '2026-10-01', '2026-10-31', 'EUR', 100, 0, 100,
		        '{"id":"inv_' || g || '","number":"2027-' || g || '","type":"invoice",' || `+parties+` || ',' || `+period+` || ',"client_billing_status":"sent","gross_amount":"1.00","net_due":"1.00","currency":"EUR","updated_at":"2026-10-31T00:00:00.000Z"', ',"payout_amount":null', ',"margin_amount":null'`+rows,
		`INSERT INTO charge (workspace_id, id, position, billed, client_id, contractor_id, invoice_id, period, status, day, currency, amount, base, pay)
		 SELECT @workspace, 'ch_' || g, g, true, 'cl_' || g / 300, 'co_' || g / 300, 'inv_' || g / 20, '2026-10', 'sent', '2026-10-02', 'EUR', 100,
		        '{"id":"ch_' || g || '","category":"fee",' || `+parties+` || ',"status":"sent","amount":"1.00","currency":"EUR"', ',"pay_amount":null'`+rows,
		`INSERT INTO time_entry (workspace_id, id, position, client_id, contractor_id, invoice_id, period, status, day, currency, hours, bill_amount, base, pay)
		 SELECT @workspace, 'te_' || g, g, 'cl_' || g / 300, 'co_' || g / 300, 'inv_' || g / 20, '2026-10', 'sent', '2026-10-02', 'EUR', 10000, 100,
		        '{"id":"te_' || g || '","service":"Advice",' || `+parties+` || ',"hours":1,"status":"sent","bill_amount":"1.00","currency":"EUR"', ',"pay_amount":null'`+rows,
		`INSERT INTO payment (workspace_id, id, position, direction, client_id, invoice_id, day, currency, amount, base)
		 SELECT @workspace, 'pm_' || g, g, 'received_from_client', 'cl_' || g / 300, 'inv_' || g / 20, '2026-10-02', 'EUR', 100,
		        '{"id":"pm_' || g || '","direction":"received_from_client",' || `+parties+` || ',"amount":"1.00","currency":"EUR"'`+rows)
}

func (f *Filler) makeDeliveries(ctx context.Context, w *Workspace) error {
	return f.exec(ctx,
		pgx.NamedArgs{"workspace": w.ID, "webhook": w.Webhook, "now": w.now},
		`SELECT webhook_delivery_days(d::date, (@now::timestamptz - interval '31 days')::date) FROM generate_series(@now::timestamptz - interval '30 days', @now, interval '1 day') d`,
		`INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, attempts)
		 SELECT workspace_id, @webhook, position, created_at, id, type,
		        CASE WHEN position % 100 = 50 THEN 'failed' ELSE 'succeeded' END,
		        CASE WHEN position % 100 = 50 THEN '[{"at":"2026-01-01T00:00:00.000Z","status":503,"error":"answered 503","duration_ms":240,"answer":"<b>Service</b> unavailable"}]'::jsonb
		             ELSE '[{"at":"2026-01-01T00:00:00.000Z","status":200,"error":null,"duration_ms":12,"answer":"ok"}]'::jsonb END
		   FROM event_log WHERE workspace_id = @workspace`)
}

func (f *Filler) makeRequests(ctx context.Context, w *Workspace) error {
	return f.exec(ctx,
		pgx.NamedArgs{"workspace": w.ID, "key": w.Key, "now": w.now, "rows": w.Requests, "days": days},
		`INSERT INTO request_log (slot, workspace_id, at, request_id, key_id, key_prefix, method, route, status, duration_us, bytes, row_count, record_id)
		 SELECT (extract(epoch FROM a.at)::bigint / 86400) % 32, @workspace, a.at, 'req-' || g, @key, 'service_AbCdEfGh', 'GET',
		        (ARRAY['/v1/invoices', '/v1/events', '/v1/time-entries', '/v1/clients/{id}'])[1 + g % 4],
		        CASE WHEN g % 17 = 0 THEN 404 WHEN g % 41 = 0 THEN 500 ELSE 200 END, 900 + g * 37 % 9000, 400 + g * 91 % 50000, g % 51, gen_random_uuid()
		   FROM generate_series(1, @rows::int) g CROSS JOIN LATERAL (SELECT @now::timestamptz - (g::float8 / @rows) * @days * interval '1 day' AS at) a`,
		`INSERT INTO request_refused (workspace_id, minute, reason, key_id, refused)
		 SELECT @workspace, date_trunc('minute', @now::timestamptz) - g * interval '7 minutes', 'rate_limit', @key, 3 + g % 5 FROM generate_series(1, 5) g`)
}

// count writes the counts by interval that serving and delivering would have written.
func (f *Filler) count(ctx context.Context, w *Workspace) error {
	for i := range w.Requests {
		at := w.at(i)
		f.Rollups.AddRequest(&rollup.Request{At: at, WorkspaceID: w.ID, KeyID: w.Key, Route: "/v1/invoices", Status: 200, Duration: time.Duration(2+i%40) * time.Millisecond})
		f.Rollups.AddAttempt(&rollup.Attempt{At: at, WorkspaceID: w.ID, WebhookID: w.Webhook, Outcome: "success", Duration: time.Duration(30+i%200) * time.Millisecond})
		if i%5000 == 4999 || i == w.Requests-1 {
			if err := f.Rollups.Write(ctx); err != nil {
				return err
			}
		}
	}
	return f.Events.Count(ctx)
}

func (f *Filler) makeChanges(ctx context.Context, w *Workspace) error {
	ctx = audit.As(ctx, audit.Actor{Via: audit.ViaConsole, Name: "dana@northwind.example"})
	return pg.InTx(ctx, f.Pool, func(tx pgx.Tx) error {
		for i := range changes {
			c := audit.Change{WorkspaceID: w.ID, Action: audit.WebhookEdit, ObjectID: w.Webhook, ObjectName: "https://hooks-0.example.com/in", Detail: "events: all"}
			if err := audit.Add(ctx, tx, w.now.Add(-time.Duration(i)*time.Hour), c); err != nil {
				return err
			}
		}
		return nil
	})
}

// pick chooses the event, delivery and request for the pages about a single one.
func (f *Filler) pick(ctx context.Context, w *Workspace) error {
	if err := f.Pool.QueryRow(ctx, `SELECT id FROM event_log WHERE workspace_id = $1 AND position = $2`, w.ID, w.Requests/2).Scan(&w.Event); err != nil {
		return err
	}
	w.Delivery = w.Event + "_" + w.Webhook
	var place struct {
		At time.Time `json:"a"`
		ID string    `json:"i"`
	}
	if err := f.Pool.QueryRow(ctx, `SELECT at, record_id::text FROM request_log WHERE workspace_id = $1 ORDER BY at OFFSET $2 LIMIT 1`, w.ID, w.Requests/2).Scan(&place.At, &place.ID); err != nil {
		return err
	}
	w.Record = web.FormatCursor(place)
	return nil
}

func (f *Filler) exec(ctx context.Context, args pgx.NamedArgs, statements ...string) error {
	for _, sql := range statements {
		if _, err := f.Pool.Exec(ctx, sql, args); err != nil {
			return fmt.Errorf("cannot write rows: %w", err)
		}
	}
	return nil
}
