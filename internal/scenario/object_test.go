package scenario

import (
	"testing"
	"time"
)

func TestObjectForms(t *testing.T) {
	t.Parallel()
	var o object
	o.reset()
	o.text("text", "x")
	o.text("not_given", "")
	o.money("money", 5)
	o.money("more", 123_456)
	o.money("less", -705)
	o.hours("hours", 5)
	o.hours("whole", 8)
	o.hours("half", 2)
	o.hours("none", 0)
	o.hundredths("percent", -1)
	o.hundredths("tenth", 3330)
	o.integer("count", 3)
	o.flag("flag", true)
	o.date("date", on(2026, 2, 28))
	o.instant("instant", on(2026, 2, 28).start()+7)
	o.open("inner")
	o.text("a", "b")
	o.close()
	o.text("z", "z")
	const want = `{"text":"x","money":"0.05","more":"1234.56","less":"-7.05","hours":1.25,"whole":2,"half":0.5,"none":0,` +
		`"percent":-0.01,"tenth":33.3,"count":3,"flag":true,"date":"2026-02-28","instant":"2026-02-28T00:00:00.007Z",` +
		`"inner":{"a":"b"},"z":"z"}`
	if got := string(o.finish()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(o.reset().finish()); got != "{}" {
		t.Errorf("after a reset: %s", got)
	}
}

func TestAppendNDJSON(t *testing.T) {
	t.Parallel()
	l := Line{WorkspaceID: "w", ID: "evt_1", Type: "period.closed", Data: []byte(`{"period":"2026-10"}`)}
	const living = `{"workspace_id":"w","id":"evt_1","type":"period.closed","data":{"period":"2026-10"}}` + "\n"
	if got := string(l.AppendNDJSON(nil)); got != living {
		t.Errorf("got %s", got)
	}
	l.CreatedAt = time.Date(2026, 10, 2, 11, 15, 0, 120e6, time.FixedZone("", 7200))
	const dated = `x{"workspace_id":"w","id":"evt_1","type":"period.closed","created_at":"2026-10-02T09:15:00.120Z",` +
		`"data":{"period":"2026-10"}}` + "\n"
	if got := string(l.AppendNDJSON([]byte("x"))); got != dated {
		t.Errorf("got %s", got)
	}
}

func TestQueueOrder(t *testing.T) {
	t.Parallel()
	var (
		q   queue
		got []int
	)
	for i, at := range []int64{5, 3, 9, 3, 1, 9, 5, 3} {
		q.push(at, func() { got = append(got, i) })
	}
	if n := q.due(5); n != 4 {
		t.Errorf("%d due before 5, want 4", n)
	}
	for q.len() > 0 {
		at, ok := q.next()
		e := q.pop()
		if !ok || e.at != at {
			t.Errorf("next says %d, pop %d", at, e.at)
		}
		e.run()
	}
	want := []int{4, 1, 3, 7, 0, 6, 2, 5}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("order %v, want %v", got, want)
		}
	}
	if _, ok := q.next(); ok {
		t.Error("an empty queue has a next event")
	}
}
