package console

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// exec runs SQL, for history that takes days to happen.
func (s *bundle) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

// key makes a key of a workspace.
func (s *bundle) key(workspace, name string, permissions ...access.Permission) (id, secret string) {
	s.t.Helper()
	r, text, err := s.keys.Create(s.t.Context(), access.NewKey{WorkspaceID: workspace, Name: name, Permissions: access.PermissionsOf(permissions...)})
	if err != nil {
		s.t.Fatal(err)
	}
	return r.ID, text.Reveal()
}

// requests writes n requests of a key into the log, one every few seconds, and counts them.
func (s *bundle) requests(workspace, keyID string, n int, every time.Duration) {
	s.t.Helper()
	s.addRequests(workspace, keyID, `
		SELECT (extract(epoch FROM a.at)::bigint / 86400) % 32, $1, a.at, 'req-' || g, $2, 'service_AbCdEfGh', 'GET',
		       (ARRAY['/v1/invoices', '/v1/events', '/v1/time-entries', '/v1/clients/{id}'])[1 + g % 4],
		       CASE WHEN g % 17 = 0 THEN 404 WHEN g % 41 = 0 THEN 500 ELSE 200 END, 900 + g * 37 % 9000, 400 + g * 91 % 50000, g % 51, gen_random_uuid()
		  FROM generate_series(1, $3::int) g CROSS JOIN LATERAL (SELECT $4::timestamptz - g * $5::interval * (0.6 + 0.4 * sin(g / 40.0)) AS at) a`,
		n, s.clock.Now(), every)
}

// requestAt writes a request of a key into the log for each moment, and counts it.
func (s *bundle) requestAt(workspace, keyID string, moments ...time.Time) {
	s.t.Helper()
	s.addRequests(workspace, keyID, `
		SELECT (extract(epoch FROM at)::bigint / 86400) % 32, $1, at, 'req', $2, 'service_AbCdEfGh', 'GET', '/v1/me', 200, 900, 400, 1, gen_random_uuid()
		  FROM unnest($3::timestamptz[]) AS at`, moments)
}

func (s *bundle) addRequests(workspace, keyID, sql string, args ...any) {
	s.t.Helper()
	// Not with the pool, whose statements may take no longer than a page.
	rows, err := testkit.OwnerConn(s.t, s.pool).Query(s.t.Context(), `
		INSERT INTO request_log (slot, workspace_id, at, request_id, key_id, key_prefix, method, route, status, duration_us, bytes, row_count, record_id)`+sql+`
		RETURNING at, route, status, duration_us`, append([]any{workspace, keyID}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	w := rollup.NewWriter(s.pool, testkit.Discard())
	r := rollup.Request{WorkspaceID: workspace, KeyID: keyID}
	var micros, n int64
	if _, err := pgx.ForEachRow(rows, []any{&r.At, &r.Route, &r.Status, &micros}, func() error {
		r.Duration = time.Duration(micros) * time.Microsecond
		w.AddRequest(&r)
		if n++; n%5000 == 0 { // more would wait than a Writer keeps
			return w.Write(s.t.Context())
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	if err := w.Write(s.t.Context()); err != nil || w.Dropped() > 0 {
		s.t.Fatalf("%d requests are not counted: %v", w.Dropped(), err)
	}
}

// refused counts n refused requests of a minute.
func (s *bundle) refused(workspace, keyID, reason string, at time.Time, n int) {
	s.t.Helper()
	records := make([]requestlog.Record, n)
	for i := range records {
		records[i] = requestlog.Record{At: at, Refusal: reason, Status: http.StatusTooManyRequests}
	}
	s.record(workspace, keyID, records...)
}

// seed fills a workspace as a month of use does: keys, webhooks, deliveries in
// every state, requests, the audit trail. It returns the webhooks: one that works,
// one that fails, one that was turned off.
func (s *bundle) seed(workspace string) (well, failing, off string) {
	s.t.Helper()
	s.exec(`INSERT INTO client (workspace_id, id, position, base) VALUES ($1, 'cl_1', 1,
		'{"id":"cl_1","name":"Northwind Clinic","status":"active","billing_status":"active","contacts":[{"first_name":"Ada","last_name":"Moreau","title":null,"email":"ada@example.com","phone":null,"is_primary":true,"receives_invoices":true}],"updated_at":"2026-10-02T09:15:00.120Z"')`, workspace)
	s.exec(`INSERT INTO invoice (workspace_id, id, position, shown, client_id, period, status, type, number, open, base, pay, margin) VALUES ($1, 'in_1', 1, true, 'cl_1', '2026-10', 'sent', 'credit_note', 'CN-1', false,
		'{"id":"in_1","number":"CN-1","type":"credit_note","reversed":true,"client":{"id":"cl_1","name":"Northwind Clinic"},"period":"2026-10","period_label":"October 2026","client_billing_status":"sent","gross_amount":"1275.71","net_due":"0.00","currency":"EUR","issued_invoices":[{"number":"CN-1","amount":"1275.71","status":"sent","issued_at":"2026-10-02T09:15:00.120Z","sent_at":null,"paid_at":null,"is_supplemental":false}],"updated_at":"2026-10-02T09:15:00.120Z"',
		',"payout_amount":"998.59"', ',"margin_amount":"277.12"')`, workspace)
	now := s.clock.Now().UTC()
	report, _ := s.key(workspace, "Monthly report", access.InvoicesRead, access.ClientsRead, access.PaymentsRead)
	payroll, _ := s.key(workspace, "Payroll export", access.InvoicesRead, access.TimeEntriesRead, access.ContractorsRead, access.EventsRead, access.PayRead, access.MarginRead)
	old, _ := s.key(workspace, "Trial script", access.EventsRead)
	if _, err := s.keys.Revoke(s.t.Context(), workspace, old); err != nil {
		s.t.Fatal(err)
	}
	s.requests(workspace, report, 1500, 9*time.Second)
	s.requests(workspace, payroll, 900, 80*time.Second)
	s.exec(`INSERT INTO api_key_use (workspace_id, key_id, last_used_at) VALUES ($1, $2, $4), ($1, $3, $4)`, workspace, report, payroll, now)
	for i := range 5 {
		s.refused(workspace, report, "rate_limit", now.Add(-time.Duration(i+1)*7*time.Minute), 3+(i+1)%5)
	}
	s.refused(workspace, old, "revoked", now, 12)

	hook := func(url string, events ...string) string {
		return testkit.Must(s.webhooks.Create(s.t.Context(), workspace, delivery.Definition{URL: url, Events: events}))(s.t).ID
	}
	well = hook("https://hooks.northwind-accounting.example/ledgerfeed/events", "all")
	failing = hook("https://payroll.example.net/in", "payout.paid", "time_entry.approved", "period.closed")
	off = hook("https://old-automation.example.org/webhooks/7f3a", "invoice.paid", "invoice.sent")
	for i := range 40 {
		s.append(workspace, []string{"invoice.reversed", "charge.deleted", "time_entry.approved", "time_entry.declined"}[i%4], []string{
			fmt.Sprintf(`{"invoice_id":"inv_%04d","invoice_number":"2026-%04d","client_id":"cl_harbour","period":"2026-11"}`, i, i),
			fmt.Sprintf(`{"charge_id":"ch_%04d","client_id":"cl_harbour"}`, i),
			fmt.Sprintf(`{"time_entry_id":"te_%04d","contractor_id":"co_meyer","period":"2026-W47"}`, i),
			fmt.Sprintf(`{"time_entry_id":"te_%04d"}`, i),
		}[i%4])
	}
	s.exec(`
		INSERT INTO anomaly (workspace_id, position, reason, event_id)
		SELECT workspace_id, position, CASE position % 3 WHEN 0 THEN 'repeat' ELSE 'unknown_object' END, id FROM event_log WHERE workspace_id = $1 AND position % 2 = 1`, workspace)
	s.exec(`
		INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, next_attempt_at, attempts)
		SELECT $1, $2, e.position, $4::timestamptz - (41 - e.position) * interval '4 minutes', e.id, e.type, d.state,
		       CASE WHEN d.state = 'pending' THEN $4::timestamptz + interval '25 minutes' END, d.attempts
		  FROM event_log e CROSS JOIN LATERAL (SELECT
		       CASE WHEN e.position % 9 = 4 THEN 'failed' WHEN e.position % 13 = 7 THEN 'pending' ELSE 'succeeded' END AS state,
		       CASE WHEN e.position % 9 = 4 OR e.position % 13 = 7
		         THEN jsonb_build_array(jsonb_build_object('at', $3::text, 'status', 503, 'error', 'answered 503', 'duration_ms', 240, 'answer', '<b>Service</b> unavailable'),
		                                jsonb_build_object('at', $3::text, 'status', null, 'error', 'no answer within 10 s', 'duration_ms', 10000, 'answer', null))
		         ELSE jsonb_build_array(jsonb_build_object('at', $3::text, 'status', 200, 'error', null, 'duration_ms', 38 + e.position, 'answer', 'ok')) END AS attempts) d
		 WHERE e.workspace_id = $1`, workspace, well, now.Add(-2*time.Hour).Format("2006-01-02T15:04:05.000Z"), now)
	s.exec(`INSERT INTO attempt_rollup (workspace_id, step, webhook_id, at, outcome, attempts, latency)
		SELECT $1, 60, $2, date_trunc('hour', $3::timestamptz, 'UTC') - g * interval '1 hour', 'success', 20 + (g * 13) % 45, '{}'::integer[] FROM generate_series(0, 22) g
		UNION ALL
		SELECT $1, 60, $2, date_trunc('hour', $3::timestamptz, 'UTC') - g * interval '1 hour', 'answered', 3 + g, '{}' FROM generate_series(1, 6) g
		UNION ALL
		SELECT $1, 60, $2, date_trunc('hour', $3::timestamptz, 'UTC') - g * interval '1 hour', 'timeout', 2, '{}' FROM generate_series(4, 7) g`, workspace, well, now)
	s.exec(`UPDATE webhook SET failing_since = $2 WHERE webhook_id = $1`, failing, now.Add(-30*time.Hour))
	s.turnOff(off, now)
	dana := audit.Actor{Via: audit.ViaConsole, Name: "dana@northwind.example", Issuer: "https://id.northwind.example", Subject: "00u7k2m9"}
	s.addToAudit(dana, audit.Change{
		WorkspaceID: workspace, Action: audit.WebhookCreate, ObjectID: well, ObjectName: "https://hooks.northwind-accounting.example/ledgerfeed/events", Detail: "events: all",
	})
	s.addToAudit(dana, audit.Change{WorkspaceID: workspace, Action: audit.KeyRevoke, ObjectID: old, ObjectName: "Trial script"})
	s.addToAudit(audit.Actor{Via: audit.ViaCommand, Name: "root@ledger-1"}, audit.Change{
		WorkspaceID: workspace, Action: audit.KeyCreate, ObjectID: report, ObjectName: "Monthly report", Detail: "with invoices:read,clients:read,payments:read",
	})
	return well, failing, off
}

// addToAudit adds a change to the audit trail that an actor has made.
func (s *bundle) addToAudit(a audit.Actor, c audit.Change) {
	s.t.Helper()
	ctx := audit.As(s.t.Context(), a)
	if err := pg.InTx(ctx, s.pool, func(tx pgx.Tx) error { return audit.Add(ctx, tx, s.clock.Now(), c) }); err != nil {
		s.t.Fatal(err)
	}
}

// turnOff turns a webhook off as days of failures do.
func (s *bundle) turnOff(webhookID string, at time.Time) {
	s.t.Helper()
	s.exec(`UPDATE webhook SET state = 'off', version = version + 1, epoch = epoch + 1, failing_since = $2, turned_off_at = $3,
		turned_off_for = 'the name did not resolve' WHERE webhook_id = $1`, webhookID, at.Add(-74*time.Hour), at.Add(-2*time.Hour))
}

// deliveryOf is the id of some delivery to a webhook.
func (s *bundle) deliveryOf(webhookID, state string) string {
	s.t.Helper()
	var event string
	err := s.pool.QueryRow(s.t.Context(), `
		SELECT event_id FROM webhook_delivery WHERE webhook_id = $1 AND state = $2 ORDER BY created_at DESC LIMIT 1`, webhookID, state).Scan(&event)
	if err != nil {
		s.t.Fatal(err)
	}
	return event + "_" + webhookID
}

// requestOf is the address of the page of some request of a workspace.
func (s *bundle) requestOf(workspace string) string {
	s.t.Helper()
	var p struct {
		At time.Time `json:"a"`
		ID uuid.UUID `json:"i"`
	}
	err := s.pool.QueryRow(s.t.Context(), `SELECT at, record_id FROM request_log WHERE workspace_id = $1 LIMIT 1`, workspace).Scan(&p.At, &p.ID)
	if err != nil || p.ID == uuid.Nil {
		s.t.Fatal(err)
	}
	return "/requests/" + web.FormatCursor(p)
}
