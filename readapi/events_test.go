package readapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

func event(id, typ string, at time.Time) string {
	data := `{"invoice_id":"in_1","period":"2026-10"}`
	switch typ {
	case "charge.created": // which is not billed to the client
		data = fmt.Sprintf(`{"charge_id":"ch_%s","client_id":"c1","date":"2026-10-01","category":"x","kind":"y","billed_to_client":false,"amount":"1.00","currency":"EUR","period":"2026-10"}`, id)
	case "charge.deleted": // the same
		data = fmt.Sprintf(`{"charge_id":"ch_%s","billed_to_client":false}`, id)
	case domain.TypePayoutPaid:
		data = fmt.Sprintf(`{"payment_id":"pm_%s","contractor_id":"co_1","amount":"1.00","currency":"EUR","source":"x"}`, id)
	}
	return fmt.Sprintf(`{"workspace_id":"acme","id":%q,"type":%q,"created_at":%q,"data":%s}`, id, typ, domain.FormatTime(at), data)
}

func eventIDs(t *testing.T, p page) string {
	t.Helper()
	var ids []string
	for _, row := range p.Data {
		ids = append(ids, idOf(t, row))
	}
	return strings.Join(ids, " ")
}

// TestEventsOfAnomaliesAreShown: an entry that had no effect is an event as others are,
// and what it is about is a 404.
func TestEventsOfAnomaliesAreShown(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(event("e1", "invoice.reversed", s.clock.Now()))
	s.project("acme", 0)
	key := s.key("acme", access.EventsRead, access.InvoicesRead)
	if got := eventIDs(t, s.page("/v1/events", key)); got != "e1" {
		t.Errorf("the feed shows %q", got)
	}
	if one, about := s.get("/v1/events/e1", key), s.get("/v1/invoices/in_1", key); one.status != 200 || about.status != 404 {
		t.Errorf("the event is %d, the invoice %d", one.status, about.status)
	}
}

// TestEventsPassTheirRetention moves the clock past the 30 days of some events.
func TestEventsPassTheirRetention(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	now := s.clock.Now()
	day := 24 * time.Hour
	s.append(
		event("e40", "invoice.reversed", now.Add(-40*day)),
		event("e35", domain.TypePayoutPaid, now.Add(-35*day)),
		event("e29", "invoice.reversed", now.Add(-29*day)),
		event("e28", domain.TypePayoutPaid, now.Add(-28*day)),
		event("e27", "period.closed", now.Add(-27*day)),
	)
	s.project("acme", 0)
	everything := s.key("acme", allPermissions()...)
	plain := s.key("acme", access.EventsRead)

	first := s.page("/v1/events?limit=1", everything)
	if got := eventIDs(t, first); got != "e29" || !*first.HasMore {
		t.Errorf("a reader without a cursor begins at %q", got)
	}
	if got := eventIDs(t, s.page("/v1/events?created_since="+domain.FormatTime(now.Add(-60*day)), plain)); got != "e29 e27" {
		t.Errorf("a created_since before the retention gives %q", got)
	}
	none := s.page("/v1/events?type=invoice.paid", plain)
	future := s.page("/v1/events?created_since="+domain.FormatTime(now.Add(10*day)), plain)
	if len(none.Data)+len(future.Data) != 0 {
		t.Error("pages that should be empty are not")
	}
	byType := s.page("/v1/events?type=period.closed&limit=1", plain)

	// Two days later e29 is past its retention, and e28 is not yet.
	s.clock.Advance(36 * time.Hour)
	if r := s.get("/v1/events/e29", everything); r.status != 404 {
		t.Errorf("an event past its retention: %d", r.status)
	}
	if r := s.get("/v1/events/e28", everything); r.status != 200 {
		t.Errorf("an event within its retention: %d %s", r.status, r.body)
	}
	if r := s.get("/v1/events/e28", plain); r.status != 404 {
		t.Errorf("a payout without pay:read: %d", r.status)
	}
	next := s.page("/v1/events?limit=1&cursor="+*first.NextCursor, everything)
	if got := eventIDs(t, next); got != "e28" {
		t.Errorf("a cursor whose next event is kept gives %q", got)
	}

	// Another day later the next event of first's cursor is past its retention
	// with pay:read; without it the next one is e27, which is kept.
	s.clock.Advance(24 * time.Hour)
	r := s.get("/v1/events?limit=1&cursor="+*first.NextCursor, everything)
	if r.status != 400 || !strings.Contains(string(r.body), "created_since") || !strings.Contains(string(r.body), `"field":"cursor"`) {
		t.Errorf("a cursor whose next event is past its retention: %d %s", r.status, r.body)
	}
	if got := eventIDs(t, s.page("/v1/events?limit=1&cursor="+*first.NextCursor, plain)); got != "e27" {
		t.Errorf("the same cursor without pay:read gives %q", got)
	}
	// Cursors at the end of what they ask for do not expire.
	s.clock.Advance(90 * day)
	for query, p := range map[string]page{
		"type=invoice.paid": none, "type=period.closed&limit=1": byType,
		"created_since=" + domain.FormatTime(now.Add(10*day)): future,
	} {
		again := s.page("/v1/events?"+query+"&cursor="+*p.NextCursor, plain)
		if len(again.Data) != 0 || *again.HasMore {
			t.Errorf("%s gives %q", query, eventIDs(t, again))
		}
	}
	// A follower that begins at a time in the future gets what is published from that
	// time on.
	s.append(event("n1", "invoice.paid", s.clock.Now().Add(-1)), event("n2", "invoice.reversed", s.clock.Now()))
	s.project("acme", 0)
	if got := eventIDs(t, s.page("/v1/events?type=invoice.paid&cursor="+*none.NextCursor, plain)); got != "n1" {
		t.Errorf("the follower of a type gets %q", got)
	}
	if got := eventIDs(t, s.page("/v1/events?created_since="+domain.FormatTime(now.Add(10*day))+"&cursor="+*future.NextCursor, plain)); got != "n1 n2" {
		t.Errorf("the follower of a time to come gets %q", got)
	}
}

// TestAnEventWaitsForItsData: nothing above the visible position shows.
func TestAnEventWaitsForItsData(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	now := s.clock.Now()
	s.append(event("a", "invoice.reversed", now), event("b", "invoice.reversed", now), event("c", "invoice.reversed", now))
	s.project("acme", 2)
	key := s.key("acme", access.EventsRead)
	p := s.page("/v1/events", key)
	if got := eventIDs(t, p); got != "a b" || *p.HasMore {
		t.Errorf("before c is projected: %q", got)
	}
	if r := s.get("/v1/events/c", key); r.status != 404 {
		t.Errorf("c before it is projected: %d", r.status)
	}
	if q := s.page("/v1/events?cursor="+*p.NextCursor, key); len(q.Data) != 0 {
		t.Errorf("the follower before c is projected: %q", eventIDs(t, q))
	}
	s.project("acme", 0)
	if got := eventIDs(t, s.page("/v1/events?cursor="+*p.NextCursor, key)); got != "c" {
		t.Errorf("the follower after c is projected: %q", got)
	}
	if r := s.get("/v1/events/c", key); r.status != 200 {
		t.Errorf("c after it is projected: %d", r.status)
	}
}

// TestEventsThatNeedPay: an event of a charge whose entry says that it is not billed to the client is
// seen where a payout is, in lists and by its id, whatever became of the charge before or afterwards.
func TestEventsThatNeedPay(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	charge := func(id, typ, data string) string {
		return fmt.Sprintf(`{"workspace_id":"acme","id":%q,"type":%q,"data":%s}`, id, typ, data)
	}
	const of = `"client_id":"c1","date":"2026-10-01","category":"x","kind":"y","amount":"1.00","currency":"EUR","period":"2026-10"`
	s.append(
		charge("billed", "charge.created", `{"charge_id":"ch_1","billed_to_client":true,`+of+`}`),
		charge("by_default", "charge.created", `{"charge_id":"ch_2",`+of+`}`),
		charge("not_billed", "charge.created", `{"charge_id":"ch_3","billed_to_client":false,`+of+`}`),
		event("payout", domain.TypePayoutPaid, s.clock.Now()),
		charge("repeat", "charge.created", `{"charge_id":"ch_1","billed_to_client":false,`+of+`}`), // without effect
		charge("not_billed_gone", "charge.deleted", `{"charge_id":"ch_3","billed_to_client":false}`),
		charge("billed_gone", "charge.deleted", `{"charge_id":"ch_1","billed_to_client":true}`),
		charge("gone_by_default", "charge.deleted", `{"charge_id":"ch_2"}`),
	)
	s.project("acme", 0)
	shown, hidden := "billed by_default billed_gone gone_by_default", "not_billed payout repeat not_billed_gone"
	plain, everything := s.key("acme", without(access.PayRead, access.MarginRead)...), s.key("acme", without(access.MarginRead)...)
	if got := eventIDs(t, s.page("/v1/events", plain)); got != shown {
		t.Errorf("a key without pay:read sees %q", got)
	}
	if got := eventIDs(t, s.page("/v1/events", everything)); len(strings.Fields(got)) != 8 {
		t.Errorf("a key with pay:read sees %q", got)
	}
	for typ, want := range map[string][2]string{
		"charge.created": {"billed by_default", "billed by_default not_billed repeat"},
		"charge.deleted": {"billed_gone gone_by_default", "not_billed_gone billed_gone gone_by_default"},
	} {
		for i, key := range []string{plain, everything} {
			if got := eventIDs(t, s.page("/v1/events?type="+typ, key)); got != want[i] {
				t.Errorf("%s with key %d: %q", typ, i, got)
			}
		}
	}
	for _, id := range strings.Fields(shown + " " + hidden) {
		want := 200
		if strings.Contains(" "+hidden+" ", " "+id+" ") {
			want = 404
		}
		if r := s.get("/v1/events/"+id, plain); r.status != want {
			t.Errorf("%s without pay:read: %d %s", id, r.status, r.body)
		}
		if r := s.get("/v1/events/"+id, everything); r.status != 200 {
			t.Errorf("%s with pay:read: %d %s", id, r.status, r.body)
		}
	}
}
