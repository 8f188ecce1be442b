package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// reader reads what readers of the API get.
func (s *bundle) reader() *readapi.Reader {
	s.t.Helper()
	return readerOf(s.t, s.pool, s.clock.Now, s.logs.Logger(), readapi.WholeLists{Pool: s.pool, Most: 2, MostOfWorkspace: 1})
}

func readerOf(t *testing.T, pool pg.DB, clock func() time.Time, logger *slog.Logger, files readapi.WholeLists) *readapi.Reader {
	t.Helper()
	return testkit.Must(readapi.NewReader(readapi.Config{
		Pool: pool, Feed: eventlog.NewFeed(pool), Clock: clock, Logger: logger, CursorKey: bytes.Repeat([]byte{7}, 32),
		BaseURL: "https://api.example.com", DocsURL: "https://api.example.com/docs", Timeout: time.Minute, WholeLists: files,
	}))(t)
}

// projecting folds entries into the read tables until the test ends. Entries are appended
// with the function that it returns: at is their publish time, zero for now.
func (s *bundle) projecting() (appended func(typ string, at time.Time, data string) (id string)) {
	s.t.Helper()
	pool := testkit.Must(pg.Open(s.t.Context(), s.pool.Config().ConnString(), pg.Options{MaxConns: projections.Connections, Settings: projections.PoolSettings()}))(s.t)
	s.t.Cleanup(pool.Close)
	runner := testkit.Must(projections.NewRunner(projections.RunnerConfig{Pool: pool, Notifier: s.notifier, Clock: s.clock.Now, Logger: testkit.Discard()}))(s.t)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, run := range []func(context.Context) error{s.notifier.Run, runner.Run} {
		group.Go(func() {
			if err := run(ctx); err != nil {
				s.t.Errorf("project: %v", err)
			}
		})
	}
	s.t.Cleanup(func() { cancel(); group.Wait() })
	return func(typ string, at time.Time, data string) string {
		s.t.Helper()
		draft := testkit.Must(domain.NewDraft(acme, typ, []byte(data)))(s.t)
		draft.CreatedAt = at
		receipt := testkit.Must(s.log.Append(s.t.Context(), draft))(s.t)[0]
		testkit.Eventually(s.t, func() error {
			var position int64
			if err := s.pool.QueryRow(s.t.Context(), `SELECT position FROM log_checkpoint WHERE workspace_id = $1 AND consumer = 'read_models'`, acme).Scan(&position); err != nil {
				return err
			}
			if position < receipt.Position {
				return fmt.Errorf("at position %d", position)
			}
			return nil
		})
		return receipt.ID
	}
}

const (
	invoiceOf   = `{"invoice_id":"in_1","number":"INV-1","client_id":"cl_1","contractor_id":"co_1","period":"2026-10","gross_amount":"1275.71","currency":"EUR","client_billing_status":"ready_to_send","payout_amount":"998.59","margin_amount":"277.12"}`
	timeEntryOf = `{"time_entry_id":"te_1","work_date":"2026-10-02","client_id":"cl_1","contractor_id":"co_1","service":"Advice","hours":7.5,"invoice_id":"in_1","period":"2026-10","currency":"EUR","bill_amount":"1275.71","pay_rate":"133.15","pay_amount":"998.59"}`
)

// TestAnEventShowsItsObjectAndWhatItChanged: the page of an event has the object as the
// API answers it now, with the request, and what the event changed, each as far as the
// session may see it. Amounts have three digits before the point: pages have times, too,
// and 41.57 may be the seconds of one.
func TestAnEventShowsItsObjectAndWhatItChanged(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	admin, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)
	add("client.recorded", time.Time{}, `{"client_id":"cl_1","name":"Northwind <b>Clinic</b>"}`)
	add("invoice.recorded", time.Time{}, invoiceOf)
	add("time_entry.recorded", time.Time{}, timeEntryOf)
	approved := "/events/" + add("time_entry.approved", time.Time{}, `{"time_entry_id":"te_1"}`)
	add("time_entry.recorded", time.Time{}, strings.ReplaceAll(timeEntryOf, "te_1", "te_2"))
	moved := "/events/" + add("time_entry.approved", time.Time{}, `{"time_entry_id":"te_2","invoice_id":"in_other"}`)
	issued := "/events/" + add("invoice.issued", time.Time{}, `{"invoice_id":"in_1","invoice_number":"D-1","amount":"1275.71"}`)
	sent := "/events/" + add("invoice.sent", time.Time{}, `{"invoice_id":"in_1"}`)
	paid := "/events/" + add("payout.paid", time.Time{}, `{"payment_id":"pm_1","invoice_id":"in_1","contractor_id":"co_1","amount":"998.59","currency":"EUR","source":"bank"}`)
	own := "/events/" + add("charge.created", time.Time{}, `{"charge_id":"ch_own","client_id":"cl_1","date":"2026-10-02","category":"fee","kind":"service_fee","billed_to_client":false,"amount":"155.00","currency":"EUR","period":"2026-10","pay_amount":"141.57"}`)
	charged := "/events/" + add("charge.created", time.Time{}, `{"charge_id":"ch_1","client_id":"cl_1","date":"2026-10-02","category":"fee","kind":"service_fee","amount":"156.00","currency":"EUR","period":"2026-10","pay_amount":"142.57"}`)
	closed := "/events/" + add("period.closed", time.Time{}, `{"period":"2026-10"}`)
	unknown := "/events/" + add("invoice.reversed", time.Time{}, `{"invoice_id":"in_none"}`)

	pay := []string{"998.59", "133.15", "141.57", "142.57", "margin_amount", "277.12"}
	admin.get(sent).status(http.StatusOK).has(
		"GET /v1/invoices/in_1", "&#34;client_billing_status&#34;: &#34;sent&#34;", "&#34;margin_amount&#34;: &#34;277.12&#34;", "Northwind &lt;b&gt;Clinic",
		"Status", "ready to send", "Number D-1 · Amount 1,275.71 · Status issued", "Status sent", "Also changed: 1 time entry.")
	viewer.get(sent).has("GET /v1/invoices/in_1", "Status", "ready to send", "without <code>pay:read</code>").hasNot(pay...)
	admin.get(approved).has("GET /v1/time-entries/te_1", "in review", "approved", "133.15")
	viewer.get(approved).has("GET /v1/time-entries/te_1", "in review", "approved").hasNot(pay...)
	viewer.get(moved).has("<span>in_1</span>", "<span>in_other</span>").hasNot(pay...)
	viewer.get(issued).has("1,275.71").hasNot(pay...)
	admin.get(paid).has("GET /v1/payments/pm_1", "998.59", "Also changed: 1 invoice and 1 time entry.")
	viewer.get(paid).status(http.StatusNotFound).hasNot(pay...).hasNot("pm_1", "co_1")
	admin.get(own).has("GET /v1/charges/ch_own", "155.00", "141.57")
	viewer.get(own).status(http.StatusNotFound).hasNot("155.00", "141.57", "ch_own")
	admin.get(charged).has("156.00", "142.57")
	viewer.get(charged).has("156.00", "service fee").hasNot(pay...)
	viewer.get(closed).has("GET /v1/invoices?period=2026-10", "Lists what belongs to the period", "Closes the period", "Also changed: 1 invoice.")
	viewer.get(unknown).has("It had no effect, or not all of it", "something that does not exist", "there is no such object")

	deleted := "/events/" + add("charge.deleted", time.Time{}, `{"charge_id":"ch_1"}`)
	for _, p := range []string{charged, deleted} {
		viewer.get(p).has("The object was removed", "include=removed", "&#34;removed&#34;: true").hasNot(pay...)
	}
	viewer.get(deleted).has("Last value", "156.00")
	other := s.signIn(beta, session.Admin)
	other.get(sent).status(http.StatusNotFound).hasNot("in_1", "1,275.71")
}

// TestViewersSeeNoEventThatNeedsPay: a viewer, who cannot make a key with pay:read, finds no event that a
// key without it does not get, nor its deliveries: in no list, by no search, and at no address. An admin
// finds them everywhere.
func TestViewersSeeNoEventThatNeedsPay(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, _ := s.seed(acme)
	const charge = `{"charge_id":"%s","client_id":"cl_hid","date":"2026-10-02","category":"fee","kind":"service_fee","billed_to_client":%v,"amount":"1.00","currency":"EUR","period":"2026-10"}`
	hidden := map[string]string{
		"payout.paid":    s.append(acme, "payout.paid", `{"payment_id":"pm_hid","contractor_id":"co_hid","amount":"1.00","currency":"EUR","source":"x"}`),
		"charge.created": s.append(acme, "charge.created", fmt.Sprintf(charge, "ch_hid", false)),
		"charge.deleted": s.append(acme, "charge.deleted", `{"charge_id":"ch_hid","billed_to_client":false,"client_id":"cl_hid"}`),
	}
	shown := s.append(acme, "charge.created", fmt.Sprintf(strings.ReplaceAll(charge, "cl_hid", "cl_seen"), "ch_seen", true))
	s.show(t.Context())
	s.exec(`INSERT INTO webhook_delivery (workspace_id, webhook_id, position, event_id, event_type, state, created_at, attempts)
		SELECT e.workspace_id, $1, e.position, e.id, e.type, 'succeeded', $2::timestamptz - (100 - e.position % 100) * interval '1 ms', '[]'
		  FROM event_log e WHERE e.workspace_id = $3 AND (e.type = 'payout.paid' OR e.data ->> 'client_id' IN ('cl_hid', 'cl_seen')) ON CONFLICT DO NOTHING`,
		well, s.clock.Now(), acme)
	admin, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)
	none := []string{"pm_hid", "co_hid", "ch_hid", "cl_hid"}
	here := "/webhooks/" + well
	for path, finds := range map[string]string{
		"/events": "ch_seen", "/events?type=payout.paid": "", "/events?type=charge.created": "ch_seen", "/events?type=charge.deleted": "",
		here: "ch_seen", here + "?type=payout.paid": "", here + "?type=charge.created": "ch_seen", here + "?type=charge.deleted": "", here + "?state=succeeded": "ch_seen",
	} {
		admin.get(path).status(http.StatusOK).has("_hid")
		page := viewer.get(path).status(http.StatusOK).hasNot(none...)
		if finds != "" {
			page.has(finds)
		}
	}
	for _, about := range []string{"co_hid", "cl_hid", "ch_hid", "pm_hid"} { // the page repeats what was searched for
		for _, path := range []string{"/events?about=" + about, here + "?about=" + about} {
			for who, p := range map[bool]*person{true: admin, false: viewer} {
				if page := p.get(path).status(http.StatusOK); strings.Contains(page.body, `href="/events/e`) != (who && strings.HasPrefix(path, "/events")) || strings.Contains(page.body, `href="/deliveries/`) != (who && strings.HasPrefix(path, here)) {
					t.Errorf("%s, an admin %v: %s", path, who, page.body)
				}
			}
		}
	}
	for _, id := range hidden {
		for _, path := range []string{"/events/" + id, "/deliveries/" + id + "_" + well} {
			admin.get(path).status(http.StatusOK).has("_hid")
			viewer.get(path).status(http.StatusNotFound).hasNot(none...)
		}
		for _, path := range []string{"/events?about=" + id, here + "?about=" + id} {
			viewer.get(path).status(http.StatusOK).hasNot(none...)
		}
	}
	for _, path := range []string{"/events/" + shown, "/deliveries/" + shown + "_" + well} {
		viewer.get(path).status(http.StatusOK).has("ch_seen")
	}
}

// TestALongAnswerIsCut: a page is bounded whatever its object has become.
func TestALongAnswerIsCut(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add := s.projecting()
	add("invoice.recorded", time.Time{}, invoiceOf)
	var id string
	for i := range 250 {
		id = add("invoice.issued", time.Time{}, fmt.Sprintf(`{"invoice_id":"in_1","invoice_number":"D-%d","amount":"1.00"}`, i))
	}
	a := s.signIn(acme, session.Viewer).get("/events/" + id).has("only its first 32 KiB are shown")
	if len(a.body) > 200<<10 {
		t.Errorf("the page has %d bytes", len(a.body))
	}
}

// TestALongLogShowsWhatTheEventBrought: where the rows before an event are not known, its
// page has the values of the entry, as far as the session may see them.
func TestALongLogShowsWhatTheEventBrought(t *testing.T) {
	t.Parallel()
	s := setup(t)
	drafts := make([]domain.Draft, replay.MostForEffect)
	for i := range drafts {
		drafts[i] = testkit.Must(domain.NewDraft(acme, "client.recorded", []byte(`{"client_id":"cl_1","name":"Northwind"}`)))(t)
	}
	testkit.Must(s.log.Append(t.Context(), drafts...))(t)
	charge := s.append(acme, "charge.created", `{"charge_id":"ch_1","client_id":"cl_1","date":"2026-10-02","category":"fee","kind":"service_fee","amount":"156.00","currency":"EUR","period":"2026-10","pay_amount":"142.57"}`)
	own := s.append(acme, "charge.created", `{"charge_id":"ch_2","client_id":"cl_1","date":"2026-10-02","category":"fee","kind":"service_fee","amount":"155.00","currency":"EUR","period":"2026-10","billed_to_client":false}`)
	admin, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)
	admin.get("/events/"+charge).has("the values in the event", "5,001 entries", "156.00", "Pay amount", "142.57")
	viewer.get("/events/"+charge).has("the values in the event", "156.00").hasNot("Pay amount", "142.57")
	admin.get("/events/" + own).has("155.00")
	viewer.get("/events/" + own).hasNot("155.00")
}

// TestAnEventWhoseObjectIsLocked: the page comes, and says what it could not read.
func TestAnEventWhoseObjectIsLocked(t *testing.T) {
	t.Parallel()
	s := setupWith(t, patient(), func(c *Config) { c.BesideTimeout = time.Second }) // so it is not the pool that ends the wait
	add := s.projecting()
	add("invoice.recorded", time.Time{}, invoiceOf)
	id := add("invoice.reversed", time.Time{}, `{"invoice_id":"in_1"}`)
	p := s.signIn(acme, session.Admin)
	conn := testkit.Must(pgx.Connect(t.Context(), s.pool.Config().ConnString()))(t)
	defer conn.Close(context.Background())
	tx := testkit.Must(conn.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM invoice WHERE workspace_id = $1 FOR UPDATE`, acme))(t)
	// A busy machine may need longer than the page waits.
	readable := func() error {
		if a := p.get("/events/" + id).status(http.StatusOK).has("Deliveries"); !strings.Contains(a.body, "&#34;reversed&#34;: true") || strings.Contains(a.body, "could not be read") {
			return errors.New("the page could not be read whole")
		}
		return nil
	}
	testkit.Eventually(t, readable)
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE invoice, anomaly IN ACCESS EXCLUSIVE MODE`))(t)
	p.within(t, "/events/"+id).status(http.StatusOK).has("GET /v1/invoices/in_1", "The answer could not be read in time", "This could not be read in time", "Deliveries").hasNot("reversed&#34;: true")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, readable)
}

// TestEventsThatDoNotShow: the page of an event that is past its retention, or was
// imported, says so; that of what never was one does not.
func TestEventsThatDoNotShow(t *testing.T) {
	t.Parallel()
	s := setup(t)
	day := 24 * time.Hour
	at := func(ago time.Duration) time.Time { return s.clock.Now().UTC().Add(-ago) }
	add := s.projecting()
	ancient := add("invoice.reversed", at(400*day), `{"invoice_id":"in_1"}`)
	brought := add("invoice.reversed", at(3*day), `{"invoice_id":"in_2"}`)
	fresh := add("invoice.reversed", time.Time{}, `{"invoice_id":"in_3"}`)
	internal := add("invoice.recorded", time.Time{}, invoiceOf)
	p := s.signIn(acme, session.Viewer)
	p.get("/events/"+ancient).status(http.StatusNotFound).has("Imported history", "This event is of "+at(400*day).Format("2 January 2006"), "brought in from elsewhere on", "30 days", "no webhook was told").hasNot("in_1")
	p.get("/events/"+brought).status(http.StatusOK).has("This is imported history", "in_2")
	p.get("/events/" + fresh).status(http.StatusOK).hasNot("imported history")
	for _, id := range []string{internal, "evt_none", "not an id"} {
		p.get("/events/"+id).status(http.StatusNotFound).has("There is nothing at this address").hasNot("Imported", "Older than")
	}
	s.signIn(beta, session.Admin).get("/events/" + ancient).status(http.StatusNotFound).has("There is nothing at this address")
	s.clock.Advance(31 * day)
	late := s.signIn(acme, session.Viewer)
	late.get("/events/"+fresh).status(http.StatusNotFound).has("Older than what is kept", `href="/events">Go to events<`, "Events and their deliveries show for 30 days").hasNot("in_3")
}

// TestAnEventThatIsNotVisibleYet: its page says so.
func TestAnEventThatIsNotVisibleYet(t *testing.T) {
	t.Parallel()
	s := setup(t)
	draft := testkit.Must(domain.NewDraft(acme, "invoice.reversed", []byte(`{"invoice_id":"in_1"}`)))(t)
	id := testkit.Must(s.log.Append(t.Context(), draft))(t)[0].ID
	p := s.signIn(acme, session.Viewer)
	p.get("/events/" + id).status(http.StatusNotFound).has("Not there yet").hasNot("in_1")
	s.show(t.Context())
	p.get("/events/" + id).status(http.StatusOK).has("in_1")
}
