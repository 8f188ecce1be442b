package readapi_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// followed are the lists that a cursor can follow, a client's credit included.
func followed(client string) []string {
	return append(slices.Sorted(maps.Keys(lists())), "/v1/clients/"+client+"/credit")
}

// cursorsOf are the next_cursor of the first page of every list, by path and query.
func (s *stand) cursorsOf(client, key string, queries ...string) map[string]string {
	s.t.Helper()
	cursors := map[string]string{}
	for _, path := range followed(client) {
		for _, query := range queries {
			target := path + "?" + query
			if strings.HasSuffix(path, "/credit") {
				cursors[target] = s.credit(client, query, key).NextCursor
				continue
			}
			cursors[target] = *s.page(target, key).NextCursor
		}
	}
	return cursors
}

// TestACursorOfALogThatWentBack: the service goes back to an older backup, and then other
// entries take the positions of those that were lost. A cursor from before the backup goes
// on; one from after it is a 400 that says so, never an empty page and never what
// happens to be at its position.
func TestACursorOfALogThatWentBack(t *testing.T) {
	t.Parallel()
	lost, restored := newStand(t), newStand(t) // both seal with the same key
	now := lost.clock.Now()
	restored.clock.Set(now)
	lines := history(t, "acme", 8, now, 20*24*time.Hour, 500)
	backup := lines[:400]
	for _, s := range []*stand{lost, restored} {
		s.append(backup...)
		s.project("acme", 0)
	}
	client, _ := lost.someParties("acme")
	key, again := lost.key("acme", allPermissions()...), restored.key("acme", allPermissions()...)
	before := lost.cursorsOf(client, key, "limit=100", "limit=1")
	lost.append(lines[400:]...)
	lost.project("acme", 0)
	after := lost.cursorsOf(client, key, "limit=1")
	for target, cursor := range followToEnd(lost, client, key) {
		after[target] = cursor
	}

	refused := func(state string) {
		t.Helper()
		for target, cursor := range after {
			if target == "/v1/events?limit=1" {
				continue // one event on, which the restored log holds
			}
			r := restored.get(target+"&cursor="+cursor, again)
			if r.status != 400 || strings.Join(wrong(t, r), " ") != "cursor" || !strings.Contains(string(r.body), "without a cursor") {
				t.Errorf("%s, %s: %d %s", target, state, r.status, r.body)
			}
		}
	}
	refused("restored")
	var others []string
	for i := range 150 {
		others = append(others, event(fmt.Sprintf("other_%d", i), "invoice.reversed", now))
	}
	restored.append(others...)
	restored.project("acme", 0)
	refused("with other entries")
	for target, cursor := range before {
		if r := restored.get(target+"&cursor="+cursor, again); r.status != 200 {
			t.Errorf("%s from before the backup: %d %s", target, r.status, r.body)
		}
	}
	// A follower of events that was in what the backup holds misses nothing.
	f := newFollower("/v1/events", "limit=1")
	f.cursor = after["/v1/events?limit=1"]
	first := restored.page("/v1/events?limit=1", again)
	f.inOrder = append(f.inOrder, string(first.Data[0]))
	f.finish(restored, "acme", again)
}

// TestAnEventOfALogThatWentBack: an event that was lost and appended again under its id
// is published at another time, so the caller's copy is not the current one.
func TestAnEventOfALogThatWentBack(t *testing.T) {
	t.Parallel()
	lost, restored := newStand(t), newStand(t)
	now := lost.clock.Now()
	restored.clock.Set(now)
	lost.append(event("again", "invoice.paid", now.Add(-time.Hour)))
	restored.append(event("again", "invoice.paid", now))
	for _, s := range []*stand{lost, restored} {
		s.project("acme", 0)
	}
	const path = "/v1/events/again"
	tag := lost.get(path, lost.key("acme", allPermissions()...)).header.Get("Etag")
	key := restored.key("acme", allPermissions()...)
	r := restored.get(path, key, "If-None-Match", tag)
	if r.status != 200 || !strings.Contains(string(r.body), domain.FormatTime(now)) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := restored.get(path, key, "If-None-Match", r.header.Get("Etag")); r.status != 304 {
		t.Errorf("of its own log: %d", r.status)
	}
}

// followToEnd are the cursors at the ends of all lists.
func followToEnd(s *stand, client, key string) map[string]string {
	s.t.Helper()
	ends := map[string]string{}
	for _, path := range followed(client) {
		target, cursor := path+"?limit=100", ""
		for more := true; more; {
			if strings.HasSuffix(path, "/credit") {
				c := s.credit(client, "limit=100"+cursor, key)
				more, ends[target] = *c.HasMore, c.NextCursor
			} else {
				p := s.page(target+cursor, key)
				more, ends[target] = *p.HasMore, *p.NextCursor
			}
			cursor = "&cursor=" + ends[target]
		}
	}
	return ends
}

// hiddenFrom makes rows and events that a key without pay:read does not see, n of each.
func hiddenFrom(n int, at time.Time) []string {
	var lines []string
	for i := range n {
		lines = append(lines, event(fmt.Sprintf("payout_%d", i), domain.TypePayoutPaid, at), event(fmt.Sprintf("created_%d", i), "charge.created", at),
			fmt.Sprintf(`{"workspace_id":"acme","type":"charge.recorded","created_at":%q,"data":{"charge_id":"ch_%d","client_id":"c1","date":"2026-10-01","category":"x","kind":"y","billed_to_client":false,"amount":"1.00","currency":"EUR","period":"2026-10"}}`,
				domain.FormatTime(at), i))
	}
	return lines
}

// TestWhatAKeyMayNotSeeIsSteppedOverOnce: the cursor of a page that ends the list is at
// the visible position, whatever the page did not show, and not beyond it.
func TestWhatAKeyMayNotSeeIsSteppedOverOnce(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	now := s.clock.Now()
	s.append(hiddenFrom(30, now.Add(-time.Hour))...)
	s.project("acme", 0)
	plain, everything := s.key("acme", without(access.PayRead, access.MarginRead)...), s.key("acme", allPermissions()...)
	cursors := map[string]string{}
	targets := []string{"/v1/events?limit=5", "/v1/payments?limit=5", "/v1/charges?limit=5", "/v1/charges?client_id=c1", "/v1/clients?", "/v1/events?type=invoice.paid"}
	for _, target := range targets {
		p := s.page(target, plain)
		if len(p.Data) > 0 || *p.HasMore {
			t.Errorf("%s shows %d rows", target, len(p.Data))
		}
		cursors[target] = *p.NextCursor
		// A key that may see them has to begin anew: it would never get what was stepped over.
		want := 400
		if strings.HasPrefix(target, "/v1/clients") {
			want = 200
		}
		if r := s.get(target+"&cursor="+cursors[target], everything); r.status != want {
			t.Errorf("%s with a key that sees more: %d %s", target, r.status, r.body)
		}
	}
	// What is in the log but not yet visible shows when it becomes so.
	s.append(event("later", "invoice.paid", now),
		`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"c1","name":"One"}}`,
		`{"workspace_id":"acme","type":"payment.confirmed","data":{"payment_id":"p1","client_id":"c1","amount":"1.00","currency":"EUR","source":"x"}}`,
		`{"workspace_id":"acme","type":"charge.recorded","data":{"charge_id":"ch_1","client_id":"c1","date":"2026-10-01","category":"x","kind":"y","amount":"1.00","currency":"EUR","period":"2026-10"}}`)
	for round, want := range []int{0, 1} {
		for _, target := range targets {
			p := s.page(target+"&cursor="+cursors[target], plain)
			if len(p.Data) != want {
				t.Errorf("%s, round %d: %d rows", target, round, len(p.Data))
			}
			cursors[target] = *p.NextCursor
		}
		s.project("acme", 0)
	}
}

// TestAFollowerOfATimeToCome: a list that is followed from a time that has not come yet
// shows what changes from that time on, and nothing before it.
func TestAFollowerOfATimeToCome(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	client := func(id string, at time.Time) string {
		return fmt.Sprintf(`{"workspace_id":"acme","type":"client.recorded","created_at":%q,"data":{"client_id":%q,"name":"x"}}`, domain.FormatTime(at), id)
	}
	since := s.clock.Now().Add(time.Hour)
	f := newFollower("/v1/clients", "updated_since="+domain.FormatTime(since))
	for i, at := range []time.Time{since.Add(-2 * time.Hour), since.Add(-time.Millisecond), since, since.Add(time.Minute)} {
		s.clock.Set(at)
		s.append(client(fmt.Sprintf("c%d", i), at))
		for range 2 { // before and after it is visible
			if _, err := f.poll(t.Context(), s.server, key); err != nil {
				t.Fatal(err)
			}
			s.project("acme", 0)
		}
	}
	f.finish(s, "acme", key)
	if len(f.inOrder) != 2 {
		t.Errorf("the follower has seen %d rows: %v", len(f.inOrder), f.inOrder)
	}
}
