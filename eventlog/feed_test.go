package eventlog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// feed is a log whose first entries are visible.
type feed struct {
	t    *testing.T
	pool testkit.DB
	log  *eventlog.Log
	now  time.Time
}

func newFeed(t *testing.T) *feed {
	t.Helper()
	f := &feed{t: t, pool: testkit.Pool(t), now: time.Date(2026, 10, 31, 12, 0, 0, 0, time.UTC)}
	testkit.AnyClock(t, f.pool)
	log, err := eventlog.New(eventlog.Config{Pool: f.pool, Clock: func() time.Time { return f.now }})
	if err != nil {
		t.Fatal(err)
	}
	f.log = log
	return f
}

func (f *feed) feed() *eventlog.Feed { return eventlog.NewFeed(f.pool) }

// publish appends an entry of a type, some days old.
func (f *feed) publish(id, typ string, daysOld int) {
	f.t.Helper()
	data := `{"invoice_id":"in_1"}`
	switch typ {
	case domain.TypePayoutPaid:
		data = `{"payment_id":"pm_1","contractor_id":"co_1","amount":"1.00","currency":"EUR","source":"x"}`
	case "contractor.recorded":
		data = `{"contractor_id":"co_1","name":"x"}`
	}
	d, err := domain.NewDraft("acme", typ, []byte(data))
	if err != nil {
		f.t.Fatal(err)
	}
	d.ID, d.CreatedAt = id, f.now.AddDate(0, 0, -daysOld)
	if _, err := f.log.Append(f.t.Context(), d); err != nil {
		f.t.Fatal(err)
	}
}

func (f *feed) show(position int64) {
	f.t.Helper()
	_, err := f.pool.Exec(f.t.Context(), `UPDATE log_checkpoint SET position = $1, moved_at = $2 WHERE workspace_id = 'acme'`, position, f.now)
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *feed) read(change func(*eventlog.FeedQuery)) *eventlog.FeedPage {
	f.t.Helper()
	q := eventlog.FeedQuery{WorkspaceID: "acme", Oldest: f.now.AddDate(0, 0, -30), Pay: true, Limit: 100}
	change(&q)
	return testkit.Must(f.feed().Page(f.t.Context(), q))(f.t)
}

// mark is that of a position of the log.
func (f *feed) mark(position int64) eventlog.Mark {
	f.t.Helper()
	e := testkit.Must(f.log.EntryAt(f.t.Context(), "acme", position))(f.t)
	if e == nil {
		return eventlog.Mark{Position: position}
	}
	return eventlog.NewMark(position, e.Chain[:])
}

func ids(p *eventlog.FeedPage) string {
	var list []string
	for _, e := range p.Events {
		_, rest, _ := strings.Cut(e.JSON, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		list = append(list, id)
	}
	return strings.Join(list, " ")
}

func TestFeed(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	for i, e := range []struct {
		id, typ string
		daysOld int
	}{
		{"a", "invoice.reversed", 40}, {"b", domain.TypePayoutPaid, 31}, {"c", "invoice.paid", 30}, {"d", "contractor.recorded", 20},
		{"e", domain.TypePayoutPaid, 10}, {"f", "invoice.reversed", 5}, {"g", "invoice.paid", 1}, {"h", "invoice.paid", 0},
	} {
		f.publish(e.id, e.typ, e.daysOld)
		if i == 6 {
			f.show(7)
		}
	}
	for name, c := range map[string]struct {
		change func(*eventlog.FeedQuery)
		want   string
		more   bool
		missed bool
	}{
		"all that is kept and visible":    {func(*eventlog.FeedQuery) {}, "c e f g", false, false},
		"without payouts":                 {func(q *eventlog.FeedQuery) { q.Pay = false }, "c f g", false, false},
		"of a type":                       {func(q *eventlog.FeedQuery) { q.Type = "invoice.paid" }, "c g", false, false},
		"of the hidden type":              {func(q *eventlog.FeedQuery) { q.Type, q.Pay = domain.TypePayoutPaid, false }, "", false, false},
		"payouts":                         {func(q *eventlog.FeedQuery) { q.Type = domain.TypePayoutPaid }, "e", false, false},
		"a page":                          {func(q *eventlog.FeedQuery) { q.Limit = 2 }, "c e", true, false},
		"a page that is just full":        {func(q *eventlog.FeedQuery) { q.Limit = 4 }, "c e f g", false, false},
		"since a time":                    {func(q *eventlog.FeedQuery) { q.Since = f.now.AddDate(0, 0, -5) }, "f g", false, false},
		"since just after it":             {func(q *eventlog.FeedQuery) { q.Since = f.now.AddDate(0, 0, -5).Add(time.Millisecond) }, "g", false, false},
		"since a time to come":            {func(q *eventlog.FeedQuery) { q.Since = f.now.Add(time.Hour) }, "", false, false},
		"since before what is kept":       {func(q *eventlog.FeedQuery) { q.Since = f.now.AddDate(0, 0, -90) }, "c e f g", false, false},
		"after a position":                {func(q *eventlog.FeedQuery) { q.After, q.Resumed = f.mark(5), true }, "f g", false, false},
		"after a position, since a time":  {func(q *eventlog.FeedQuery) { q.After, q.Resumed, q.Since = f.mark(5), true, f.now.AddDate(0, 0, -1) }, "g", false, false},
		"after one above the last":        {func(q *eventlog.FeedQuery) { q.After, q.Resumed = f.mark(7), true }, "", false, false},
		"the next one is missed":          {func(q *eventlog.FeedQuery) { q.After, q.Resumed = f.mark(1), true }, "", false, true},
		"the next one is missed, paged":   {func(q *eventlog.FeedQuery) { q.After, q.Resumed, q.Limit = f.mark(0), true, 1 }, "", false, true},
		"what is missed is not asked for": {func(q *eventlog.FeedQuery) { q.After, q.Resumed, q.Pay = f.mark(1), true, false }, "c f g", false, false},
		"nor since a time":                {func(q *eventlog.FeedQuery) { q.After, q.Resumed, q.Since = f.mark(0), true, f.now.AddDate(0, 0, -10) }, "e f g", false, false},
	} {
		p := f.read(c.change)
		if got := ids(p); got != c.want || p.More != c.more || p.Missed != c.missed {
			t.Errorf("%s: %q, more %v, missed %v", name, got, p.More, p.Missed)
		}
		if p.Visible != 7 || p.Kept != 3 || !p.MovedAt.Equal(f.now) {
			t.Errorf("%s: visible %d, kept from %d, moved at %v", name, p.Visible, p.Kept, p.MovedAt)
		}
	}
	kept, err := f.feed().KeptFrom(t.Context(), "acme", f.now.AddDate(0, 0, -30))
	if err != nil || kept != 3 {
		t.Errorf("kept from %d (%v)", kept, err)
	}
}

func TestFeedOne(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish("old", "invoice.paid", 31)
	f.publish("just", "invoice.paid", 30)
	f.publish("inner", "contractor.recorded", 3)
	f.publish("payout", domain.TypePayoutPaid, 2)
	f.publish("unseen", "invoice.paid", 1)
	f.show(4)
	for id, want := range map[string][2]bool{ // without and with payouts
		"old": {false, false}, "just": {true, true}, "inner": {false, false}, "payout": {false, true}, "unseen": {false, false}, "nothing": {false, false},
	} {
		for i, payouts := range []bool{false, true} {
			event, visible, ok, err := f.feed().Event(t.Context(), "acme", id, f.now.AddDate(0, 0, -30), payouts)
			if err != nil || visible != 4 || ok != want[i] || ok != strings.HasPrefix(event, fmt.Sprintf(`{"id":%q,`, id)) {
				t.Errorf("%s with payouts %v: %v %q at %d, %v", id, payouts, ok, event, visible, err)
			}
		}
	}
}

func TestFeedRefuses(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	var unknown *domain.UnknownWorkspaceError
	if _, err := f.feed().Page(t.Context(), eventlog.FeedQuery{WorkspaceID: "nobody", Limit: 1}); !errors.As(err, &unknown) {
		t.Errorf("an unknown workspace: %v", err)
	}
	for _, limit := range []int{-1, 0, eventlog.MaxFeedPage + 1} {
		if _, err := f.feed().Page(t.Context(), eventlog.FeedQuery{WorkspaceID: "acme", Limit: limit}); err == nil {
			t.Errorf("a page of %d events", limit)
		}
	}
}

// TestFeedOfAnEmptyLog: a reader that begins there gets the later events.
func TestFeedOfAnEmptyLog(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	if _, err := f.pool.Exec(t.Context(), `SELECT workspace_create('acme', 'Acme', $1)`, f.now); err != nil {
		t.Fatal(err)
	}
	p := f.read(func(*eventlog.FeedQuery) {})
	if len(p.Events) != 0 || p.Visible != 0 || !p.MovedAt.IsZero() || p.Next != (eventlog.Mark{}) {
		t.Errorf("%+v", p)
	}
	f.publish("a", "invoice.paid", 0)
	f.show(1)
	if got := ids(f.read(func(q *eventlog.FeedQuery) { q.After, q.Resumed = p.Next, true })); got != "a" {
		t.Errorf("later: %q", got)
	}
}

// TestFeedOfALogThatWentBack: a reader that stopped at an entry that the log does not hold
// gets no events, whether another one has its position or none.
func TestFeedOfALogThatWentBack(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	for _, id := range []string{"a", "b", "c"} {
		f.publish(id, "invoice.paid", 1)
	}
	f.show(2)
	other := f.mark(1)
	other.Chain[7]++
	for name, c := range map[string]struct {
		after    eventlog.Mark
		want     string
		next     eventlog.Mark
		diverged bool
	}{
		"the start of every log":         {eventlog.Mark{}, "a b", f.mark(2), false},
		"an entry that it holds":         {f.mark(1), "b", f.mark(2), false},
		"one that is not visible yet":    {f.mark(3), "", f.mark(3), false},
		"another entry at its position":  {other, "", f.mark(2), true},
		"a position that it has not got": {eventlog.Mark{Position: 4, Chain: other.Chain}, "", eventlog.Mark{Position: 4, Chain: other.Chain}, true},
	} {
		p := f.read(func(q *eventlog.FeedQuery) { q.After, q.Resumed = c.after, true })
		if ids(p) != c.want || p.Next != c.next || p.Diverged != c.diverged || p.More || p.Missed {
			t.Errorf("%s: %q, %+v", name, ids(p), p)
		}
	}
	if p := f.read(func(q *eventlog.FeedQuery) { q.Limit = 1 }); p.Next != f.mark(1) || !p.More {
		t.Errorf("a page with more after it: %+v", p)
	}
	if p := f.read(func(q *eventlog.FeedQuery) { q.Type = "period.closed" }); p.Next != f.mark(2) {
		t.Errorf("what a page leaves out is not stepped over: %+v", p)
	}
}

// TestNeedsPay: what needs pay:read is what the entry says, in any form that the log may hold, and never
// unknown: a condition that is NULL would hide the event from everybody.
func TestNeedsPay(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	for _, c := range []struct {
		typ, data string
		want      bool
	}{
		{"payout.paid", `{}`, true},
		{"payout.sent_to_payroll", `{}`, false},
		{"charge.created", `{"charge_id":"c","billed_to_client":false,"amount":"1.00"}`, true},
		{"charge.created", `{"charge_id":"c","billed_to_client":true}`, false},
		{"charge.created", `{"charge_id":"c"}`, false},
		{"charge.created", `{"billed_to_client":null}`, false},
		{"charge.created", `{"description":"\"billed_to_client\":false"}`, false},
		{"charge.created", `{"billed_to_client":"false"}`, true},
		{"charge.created", `{"billed_to_client" : false }`, true},
		{"charge.created", `{"more":{"billed_to_client":false}}`, false},
		{"charge.created", `["billed_to_client",false]`, false},
		{"charge.created", `false`, false},
		{"charge.deleted", `{"charge_id":"c","billed_to_client":false}`, true},
		{"charge.deleted", `{"charge_id":"c"}`, false},
		{"invoice.paid", `{"billed_to_client":false}`, false},
	} {
		var got *bool
		if err := pool.QueryRow(t.Context(), `SELECT `+eventlog.NeedsPay("e")+` FROM (VALUES ($1::text, $2::json)) AS e (type, data)`, c.typ, c.data).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got == nil || *got != c.want {
			t.Errorf("%s %s: %v", c.typ, c.data, got)
		}
	}
}
