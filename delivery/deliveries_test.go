package delivery_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// sent appends n events and writes the history of their deliveries, a minute apart, the
// newest a minute ago: every tenth failed.
func (b *bench) sent(webhookID string, n int) {
	b.t.Helper()
	var drafts []domain.Draft
	for i := range n {
		d := testkit.Must(domain.NewDraft(workspace, "invoice.reversed", fmt.Appendf(nil,
			`{"invoice_id":"inv_%d","invoice_number":"INV-%04d","client_id":"cl_%d"}`, i, i, i%5)))(b.t)
		d.ID = fmt.Sprintf("evt_%d", i)
		d.CreatedAt = b.clock.Now().Add(time.Duration(i-n) * time.Minute)
		drafts = append(drafts, d)
	}
	testkit.Must(b.log.Append(b.t.Context(), drafts...))(b.t)
	b.show(workspace)
	b.exec(`
		INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, attempts)
		SELECT workspace_id, $1, position, created_at, id, type, CASE WHEN position % 10 = 0 THEN 'failed' ELSE 'succeeded' END,
		       '[{"at":"2026-01-01T00:00:00.000Z","status":500,"error":"answered 500","duration_ms":12,"answer":"no"}]'
		  FROM event_log WHERE workspace_id = $2`, webhookID, workspace)
	b.exec(`UPDATE webhook_cursor SET position = $2 WHERE webhook_id = $1`, webhookID, n)
}

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

// numbers are those of the invoices that deliveries are about.
func numbers(t *testing.T, list []delivery.Delivery) string {
	t.Helper()
	var all []string
	for i := range list {
		all = append(all, fmt.Sprint(testkit.Must(strconv.Atoi(strings.TrimPrefix(list[i].Subject(), "INV-")))(t)))
	}
	return strings.Join(all, " ")
}

// TestDeliveriesBothWays goes through a list to its end and back.
func TestDeliveriesBothWays(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: "https://example.com", Events: []string{"all"}}))(t)
	b.sent(w.ID, 29)
	for name, q := range map[string]delivery.Query{
		"all": {Limit: 4}, "of a state": {Limit: 4, State: policy.Succeeded}, "of a time": {Limit: 4, Since: b.clock.Now().Add(-12 * time.Minute)},
		"of a client": {Limit: 2, About: "cl_3"},
	} {
		var down, up []string
		var firsts []int
		for {
			p := testkit.Must(b.store.Deliveries(t.Context(), w.ID, q))(t)
			down, firsts = append(down, numbers(t, p.Deliveries)), append(firsts, p.Newer)
			if q.Cursor = p.Next; q.Cursor == "" {
				q.Cursor = p.Previous
				break
			}
		}
		for q.Cursor != "" {
			p := testkit.Must(b.store.Deliveries(t.Context(), w.ID, q))(t)
			up = append(up, numbers(t, p.Deliveries))
			if want := firsts[len(firsts)-1-len(up)]; p.Newer != want {
				t.Errorf("%s: %d newer ones, want %d", name, p.Newer, want)
			}
			q.Cursor = p.Previous
		}
		slices.Reverse(up)
		if len(down) < 3 || !slices.Equal(up, down[:len(down)-1]) {
			t.Errorf("%s: down %q, up %q", name, down, up)
		}
	}
}

// TestDeliveriesAreFound finds deliveries by the event, the object, the invoice and the
// time of the first attempt.
func TestDeliveriesAreFound(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: "https://example.com", Events: []string{"all"}}))(t)
	other := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: "https://example.com", Events: []string{"all"}}))(t)
	b.sent(w.ID, 30)
	now := b.clock.Now()
	for _, c := range []struct {
		q    delivery.Query
		want string
	}{
		{delivery.Query{About: "evt_7"}, "7"}, {delivery.Query{About: "inv_7"}, "7"}, {delivery.Query{About: "INV-0007"}, "7"},
		{delivery.Query{About: "cl_4"}, "29 24 19 14 9 4"}, {delivery.Query{About: "cl_4", State: policy.Failed}, "29 19 9"},
		{delivery.Query{About: "cl_4", EventType: "invoice.paid"}, ""}, {delivery.Query{About: "INV-00"}, ""}, {delivery.Query{About: "nothing"}, ""},
		{delivery.Query{About: "cl_4", Since: now.Add(-6*time.Minute - time.Second)}, "29 24"},
		{delivery.Query{About: "cl_4", Before: now.Add(-20 * time.Minute)}, "9 4"},
		{delivery.Query{Since: now.Add(-3*time.Minute - time.Second)}, "29 28 27"},
		{delivery.Query{Since: now.Add(-5*time.Minute - time.Second), Before: now.Add(-3*time.Minute - time.Second)}, "26 25"},
		{delivery.Query{Before: now.Add(-29*time.Minute - time.Second), State: policy.Succeeded}, "0"},
	} {
		if got := testkit.Must(b.store.Deliveries(t.Context(), w.ID, c.q))(t); numbers(t, got.Deliveries) != c.want || got.Next != "" {
			t.Errorf("%+v: %q, want %q", c.q, numbers(t, got.Deliveries), c.want)
		}
	}
	if got := testkit.Must(b.store.Deliveries(t.Context(), other.ID, delivery.Query{About: "INV-0007"}))(t); len(got.Deliveries) > 0 {
		t.Errorf("another webhook has %q", numbers(t, got.Deliveries))
	}
	for _, c := range []struct {
		q    delivery.Query
		most int
		n    int
		all  bool
	}{
		{delivery.Query{}, 100, 30, true}, {delivery.Query{}, 30, 30, true}, {delivery.Query{}, 29, 29, false}, {delivery.Query{State: policy.Failed}, 5, 3, true},
		{delivery.Query{State: policy.Succeeded}, 30, 27, true}, {delivery.Query{State: policy.Succeeded}, 10, 9, false},
		{delivery.Query{Since: now.Add(-3*time.Minute - time.Second)}, 100, 3, true},
	} {
		n, all, err := b.store.CountDeliveries(t.Context(), w.ID, c.q, c.most)
		if err != nil || n != c.n || all != c.all {
			t.Errorf("count %+v, %d at most: %d, all %v (%v)", c.q, c.most, n, all, err)
		}
	}
}

// TestFilterOfMany: a filter that matches few of very many deliveries says how far it
// looked, and goes on from there.
func TestFilterOfMany(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: "https://example.com", Events: []string{"all"}}))(t)
	b.exec(`INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, attempts)
		SELECT $1, $2, g, $3::timestamptz - (120000 - g) * interval '1 second', 'evt_' || g, CASE WHEN g IN (70001, 3) THEN 'invoice.paid' ELSE 'charge.created' END, 'succeeded', '[]'
		  FROM generate_series(1, 120000) g`, workspace, w.ID, b.clock.Now())
	q := delivery.Query{EventType: "invoice.paid"}
	var looks []string
	for {
		p := testkit.Must(b.store.Deliveries(t.Context(), w.ID, q))(t)
		look := ""
		for _, d := range p.Deliveries {
			look += d.EventID
		}
		if p.LookedAtTo.IsZero() != (p.Next == "") {
			t.Errorf("next is %q, looked at to %v", p.Next, p.LookedAtTo)
		}
		looks = append(looks, look)
		if q.Cursor = p.Next; q.Cursor == "" {
			break
		}
	}
	if want := []string{"evt_70001", "", "evt_3"}; !slices.Equal(looks, want) {
		t.Errorf("found %q, want %q", looks, want)
	}
}
