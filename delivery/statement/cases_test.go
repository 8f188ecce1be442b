//go:build full

package statement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/statement"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// events are n public entries, a minute after each other.
func events(from string, n int) []event {
	list := make([]event, n)
	for i := range list {
		list[i] = event{at: at(from).Add(time.Duration(i) * time.Minute), typ: "invoice.reversed"}
	}
	return list
}

// says looks for lines in a statement.
func says(t *testing.T, s *statement.Statement, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(s.Text(), "\n"+line+"\n") {
			t.Errorf("want %q in\n%s", line, s.Text())
		}
	}
}

// TestWhatWasNotSent: events that a webhook was off for, that wait while it is paused, and
// that it had not chosen are told apart, as far as the database knows.
func TestWhatWasNotSent(t *testing.T) {
	t.Parallel()
	b := setup(t, "invoice.reversed")
	b.clock.Set(at("2026-11-21T06:00:00Z"))
	list := events("2026-11-21T01:00:00Z", 5)
	b.append(list)
	const day = "2026-11-21"
	says(t, b.statement(day), "waiting 5", "not-sent-off 0", "sequence none", "events invoice.reversed", "counted-from 2026-11-21T00:00:00.000Z")
	testkit.Must(b.webhook.Pause(t.Context(), b.store))(t)
	says(t, b.statement(day), "waiting 5", "not-sent-off 0")
	testkit.Must(b.webhook.Resume(t.Context(), b.store))(t)
	b.exec(`UPDATE webhook SET state = 'off', epoch = epoch + 1, turned_off_at = $2, turned_off_for = 'x' WHERE webhook_id = $1`, b.webhook.ID, b.clock.Now())
	says(t, b.statement(day), "waiting 0", "not-sent-off 5")
	testkit.Must(b.store.TurnOn(t.Context(), b.webhook.ID))(t)
	says(t, b.statement(day), "waiting 0", "not-sent-off 5", "not-sent-other 0")

	// Two of them are being sent as missed; one was looked at already.
	b.exec(`UPDATE webhook_cursor SET replay_position = $2, replay_until = $3 WHERE webhook_id = $1`, b.webhook.ID, list[2].position, list[3].position)
	says(t, b.statement(day), "waiting 1", "not-sent-off 4")
	b.exec(`UPDATE webhook_cursor SET replay_position = NULL, replay_until = NULL WHERE webhook_id = $1`, b.webhook.ID)

	// What was passed over before other types were chosen is not counted; what was sent is.
	b.clock.Set(at("2026-11-21T07:00:00Z"))
	list[0].state, list[0].sequence = "failed", 1
	b.deliver(&list[0], at("2026-11-21T06:59:00Z"))
	testkit.Must(b.store.Edit(t.Context(), b.webhook.ID, delivery.Change{Events: []string{"charge.deleted"}}))(t)
	says(t, b.statement(day), "not-sent-off 0", "failed 1", "counted-from 2026-11-21T07:00:00.000Z", "events charge.deleted", "failed 1 "+list[0].id)
	later := []event{{at: at("2026-11-21T08:00:00Z"), typ: "charge.deleted"}, {at: at("2026-11-21T08:00:00Z"), typ: "invoice.reversed"}}
	b.clock.Set(at("2026-11-21T08:00:00Z"))
	b.append(later)
	says(t, b.statement(day), "waiting 1", "not-sent-off 0", "waiting - "+later[0].id)
	b.cursor(later[1].position)
	says(t, b.statement(day), "waiting 0", "not-sent-off 1")

	// A change of the name is no choice of types.
	newName := "x; events"
	b.clock.Set(at("2026-11-21T09:00:00Z"))
	testkit.Must(b.store.Edit(t.Context(), b.webhook.ID, delivery.Change{Name: &newName}))(t)
	says(t, b.statement(day), "counted-from 2026-11-21T07:00:00.000Z")
}

// TestEditsThatChooseNoOtherTypes: the form of the console sends every field, whatever was
// changed, and people write what they like. Only other types begin the count again.
func TestEditsThatChooseNoOtherTypes(t *testing.T) {
	t.Parallel()
	b := setup(t, "invoice.reversed", "charge.deleted")
	b.clock.Set(at("2026-11-21T06:00:00Z"))
	b.append(events("2026-11-21T01:00:00Z", 5))
	b.cursor(5)
	address, name, other, description := "https://example.com/other", "x; events: all", "y", "x; events: all"
	same := []string{"charge.deleted", "invoice.reversed"}
	for _, c := range []delivery.Change{
		{URL: &address, Events: same, Name: &b.webhook.Name, Description: &b.webhook.Description, Standard: &b.webhook.Standard},
		{Events: same}, {Description: &description}, {Name: &name}, {Name: &other}, {Name: &name, Description: &description, Events: same},
	} {
		b.clock.Advance(time.Minute)
		testkit.Must(b.store.Edit(t.Context(), b.webhook.ID, c))(t)
		says(t, b.statement("2026-11-21"), "counted-from 2026-11-21T00:00:00.000Z", "not-sent-other 5")
	}
	for _, c := range []delivery.Change{
		{Events: []string{"all"}, Name: &other, Description: &description, URL: &b.webhook.URL}, {Events: []string{"invoice.reversed"}, Name: &name, URL: &address},
	} {
		b.clock.Advance(time.Minute)
		testkit.Must(b.store.Edit(t.Context(), b.webhook.ID, c))(t)
		says(t, b.statement("2026-11-21"), "counted-from "+b.clock.Now().Format("2006-01-02T15:04:05.000Z"), "not-sent-other 0")
	}
}

// Attempts as they are stored.
const (
	accepted = `{"at":"2026-11-21T05:00:00.000Z","status":204,"error":null,"duration_ms":3,"answer":null}`
	refused  = `{"at":"2026-11-21T05:30:00.000Z","status":500,"error":"answered 500 (Internal Server Error)","duration_ms":3,"answer":null}`
	silent   = `{"at":"2026-11-21T05:30:00.000Z","status":null,"error":"no answer within 10s","duration_ms":10000,"answer":null}`
)

// TestDeliveredOnceIsDelivered: an event that the receiver has accepted stays delivered,
// whatever became of it when it was sent again. One that it never accepted is not.
func TestDeliveredOnceIsDelivered(t *testing.T) {
	t.Parallel()
	b := setup(t, "all")
	b.clock.Set(at("2026-11-21T06:00:00Z"))
	list := events("2026-11-21T01:00:00Z", 7)
	b.append(list)
	for i, d := range []struct{ state, attempts string }{
		{"failed", accepted + "," + refused}, {"pending", silent + "," + accepted}, {"cancelled", accepted + "," + silent},
		{"failed", refused + "," + silent}, {"pending", refused}, {"cancelled", silent},
	} {
		list[i].state, list[i].attempts, list[i].sequence = d.state, "["+d.attempts+"]", int64(i+1)
		b.deliver(&list[i], at("2026-11-21T05:00:00Z"))
	}
	// The last has two deliveries, of which the older one was accepted.
	list[6].state, list[6].attempts, list[6].sequence = "succeeded", "["+accepted+"]", 7
	b.deliver(&list[6], at("2026-11-21T05:00:00Z"))
	list[6].state, list[6].attempts = "failed", "["+refused+"]"
	b.deliver(&list[6], at("2026-11-21T05:30:00Z"))
	lines := ""
	for _, i := range []int{0, 1, 2, 6} {
		lines += fmt.Sprintf("delivered %d %s\n", i+1, list[i].id)
	}
	says(t, b.statement("2026-11-21"), "sequence 1-7", "sent 7", "delivered 4", "failed 1", "pending 1", "cancelled 1", "delivered-sha256 "+hexSum(lines),
		"listed 3", "failed 4 "+list[3].id, "pending 5 "+list[4].id, "cancelled 6 "+list[5].id)
}

// TestWhatIsSentAsMissed: a failed or cancelled delivery has an attempt to come as long as
// "Send missed" has its event ahead, which ends when the webhook is turned off.
func TestWhatIsSentAsMissed(t *testing.T) {
	t.Parallel()
	b := setup(t, "invoice.reversed")
	b.clock.Set(at("2026-11-21T06:00:00Z"))
	list := events("2026-11-21T01:00:00Z", 6)
	list[3].typ = "charge.deleted" // which is not chosen any more
	b.append(list)
	for i, state := range []string{"failed", "failed", "cancelled", "failed", "", "failed"} {
		if list[i].state = state; state != "" {
			b.deliver(&list[i], at("2026-11-21T05:00:00Z"))
		}
	}
	b.cursor(list[5].position)
	const day = "2026-11-21"
	says(t, b.statement(day), "sent 5", "failed 4", "cancelled 1", "pending 0", "waiting 0", "not-sent-other 1")
	b.exec(`UPDATE webhook_cursor SET replay_position = $2, replay_until = $3 WHERE webhook_id = $1`, b.webhook.ID, list[0].position, list[4].position)
	says(t, b.statement(day), "sent 5", "failed 3", "cancelled 0", "pending 2", "waiting 1", "not-sent-other 0", "pending - "+list[1].id, "pending - "+list[2].id, "failed - "+list[3].id)
	b.exec(`UPDATE webhook SET state = 'off', epoch = epoch + 1, turned_off_at = $2, turned_off_for = 'x' WHERE webhook_id = $1`, b.webhook.ID, b.clock.Now())
	says(t, b.statement(day), "failed 4", "cancelled 1", "pending 0", "waiting 0", "not-sent-off 1")
}

// TestBeforeTheWebhook: on the day on which a webhook was added, only what came after is
// counted.
func TestBeforeTheWebhook(t *testing.T) {
	t.Parallel()
	b := setup(t, "all") // at 10:00
	b.clock.Set(at("2026-11-20T12:00:00Z"))
	b.append(events("2026-11-20T09:30:00Z", 60))
	says(t, b.statement("2026-11-20"), "waiting 60", "counted-from 2026-11-20T10:00:00.000Z") // they were appended later
	b.cursor(60)
	says(t, b.statement("2026-11-20"), "waiting 0", "not-sent-other 30")
}

// TestDaysWithoutAStatement: days to come, days past the retention, other texts, and
// webhooks that do not exist.
func TestDaysWithoutAStatement(t *testing.T) {
	t.Parallel()
	b := setup(t, "all")
	b.clock.Set(at("2026-12-25T23:59:59Z"))
	for day, want := range map[string]string{
		"2026-12-26": "2026-12-26 has not begun: today is 2026-12-25 (UTC)",
		"2026-11-25": "2026-11-25 is past the retention", "2020-01-01": "the first day is 2026-11-26 (UTC)",
		"2026-12-25": "", "2026-11-26": "",
	} {
		_, err := b.maker.Make(t.Context(), b.webhook.ID, testkit.Must(statement.ParseDay(day))(t))
		var of *statement.DayError
		if want == "" && err != nil || want != "" && (!errors.As(err, &of) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", day, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "2026-11-31", "2026-1-1", "22.11.2026", "2026-11-22T00:00:00Z"} {
		if day, err := statement.ParseDay(text); err == nil || !strings.Contains(err.Error(), "want a date such as 2026-11-22") {
			t.Errorf("%q: %v, %v", text, day, err)
		}
	}
	var unknown *delivery.UnknownWebhookError
	if _, err := b.maker.Make(t.Context(), "wh_unknown", b.maker.Newest()); !errors.As(err, &unknown) {
		t.Error(err)
	}
}

// TestNothingOfADayIsPastTheRetention: a day has a statement as long as none of its events
// is past the retention, also if it passes while the statement is made. So an event that is
// no longer sent because it is too old is never said to wait.
func TestNothingOfADayIsPastTheRetention(t *testing.T) {
	t.Parallel()
	b := setup(t, "all")
	b.clock.Set(at("2026-11-22T12:00:00Z"))
	b.append([]event{{at: at("2026-11-21T00:00:00Z"), typ: "invoice.reversed"}, {at: at("2026-11-21T23:00:00Z"), typ: "invoice.reversed"}})
	day := testkit.Must(statement.ParseDay("2026-11-21"))(t)
	for _, c := range []struct {
		retention time.Duration
		now       string
		says      string // why there is none; empty: there is one
	}{
		{48 * time.Hour, "2026-11-22T23:59:59.999Z", ""},
		{48 * time.Hour, "2026-11-23T00:00:00Z", "the first day is 2026-11-22"},
		{48 * time.Hour, "2026-11-23T12:00:00Z", "the first day is 2026-11-22"},
		{22 * time.Hour, "2026-11-21T21:59:59.999Z", ""},
		{22 * time.Hour, "2026-11-21T23:00:00Z", "the retention is 22h0m0s, less than today (UTC) has lasted"},
	} {
		maker := testkit.Must(statement.New(statement.Config{
			Pool: b.pool, Keys: b.keys, BaseURL: "https://api.example.com", Clock: func() time.Time { return at(c.now) }, Retention: c.retention,
		}))(t)
		s, err := maker.Make(t.Context(), b.webhook.ID, day)
		var wrong *statement.DayError
		switch {
		case c.says == "" && err != nil, c.says != "" && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s, %s: %v, want %q", c.retention, c.now, err, c.says)
		case c.says == "":
			says(t, s, "waiting 2")
		}
	}
}

// TestNothingIsLaterThanTheStatement: whatever is stored while the moment of the statement
// is read is not in it, and the moment is not rounded to an earlier one.
func TestNothingIsLaterThanTheStatement(t *testing.T) {
	t.Parallel()
	b := setup(t, "all")
	b.clock.Set(at("2026-11-21T06:00:00.0001Z"))
	list := events("2026-11-21T01:00:00Z", 5)
	b.append(list)
	var stored []time.Time // when the deliveries were, one at each look at the clock
	clock := func() time.Time {
		now := b.clock.Now()
		list[len(stored)].state = "failed"
		b.deliver(&list[len(stored)], now.Add(time.Second))
		stored = append(stored, now.Add(time.Second))
		b.clock.Advance(time.Minute)
		return now
	}
	maker := testkit.Must(statement.New(statement.Config{Pool: b.pool, Keys: b.keys, BaseURL: "https://api.example.com", Clock: clock, Retention: retention}))(t)
	before := b.clock.Now()
	s := testkit.Must(maker.Make(t.Context(), b.webhook.ID, testkit.Must(statement.ParseDay("2026-11-21"))(t)))(t)
	if len(stored) == 0 || s.Made.Before(before) {
		t.Errorf("it was asked for at %s and is made %s", before, s.Made)
	}
	for i := range stored {
		if in := strings.Contains(s.Text(), "failed - "+list[i].id); in && stored[i].After(s.Made.Time) {
			t.Errorf("a delivery of %s is in the statement of %s:\n%s", stored[i], s.Made, s.Text())
		}
	}
}

// TestManyUndelivered: a statement names the first thousand; its counts and sums are of
// all, so that a longer list can be checked.
func TestManyUndelivered(t *testing.T) {
	t.Parallel()
	b := setup(t, "all")
	b.clock.Set(at("2026-11-23T00:00:00Z"))
	list := events("2026-11-21T00:00:00Z", 1440)
	b.append(list)
	lines := ""
	for i := range list {
		list[i].state, list[i].sequence = "failed", int64(i+1)
		lines += fmt.Sprintf("failed %d %s\n", i+1, list[i].id)
	}
	b.exec(`
		INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, attempts, sequence)
		SELECT workspace_id, $2, position, created_at, id, type, 'failed', '[]', position FROM event_log WHERE workspace_id = $1`, workspace, b.webhook.ID)
	s := b.statement("2026-11-21")
	says(t, s, "sequence 1-1440", "failed 1440", "undelivered 1440", "listed 1000", "undelivered-sha256 "+hexSum(lines), "failed 1000 "+list[999].id)
	if strings.Contains(s.Text(), "failed 1001 ") || len(testkit.Must(b.maker.Sign(s))(t)) > 200_000 {
		t.Errorf("%d bytes", len(s.Text()))
	}
}

// TestAStatementIsOfOneMoment: while deliveries are recorded and the count of events that
// were not sent rises with them, each statement has as many of the one as of the other.
func TestAStatementIsOfOneMoment(t *testing.T) {
	t.Parallel()
	b := setup(t, "all")
	b.clock.Set(at("2026-11-22T00:00:00Z"))
	list := events("2026-11-21T00:00:00Z", 300)
	b.append(list)
	wrote, read := make(chan error, 1), make(chan struct{})
	go func() { wrote <- b.deliverAll(t.Context(), list, read) }()
	seen := map[int64]bool{}
	for writing := true; writing; {
		select {
		case err := <-wrote:
			if err != nil {
				t.Fatal(err)
			}
			writing = false
		default:
		}
		s := b.statement("2026-11-21")
		if s.Delivered != s.History || s.Waiting != 300-s.Delivered || s.NotSentOther != 0 {
			t.Fatalf("of two moments:\n%s", s.Text())
		}
		seen[s.Delivered] = true
		select {
		case read <- struct{}{}:
		default: // it has not written a third since
		}
	}
	if len(seen) < 3 {
		t.Errorf("nothing changed meanwhile: %v", seen)
	}
}

// deliverAll stores deliveries one after the other, each with what changes with it. After each
// third a statement has to be read.
func (b *bench) deliverAll(ctx context.Context, list []event, read <-chan struct{}) error {
	for i := range list {
		if i > 0 && i%(len(list)/3) == 0 {
			select {
			case <-read:
			case <-ctx.Done():
			}
		}
		_, err := b.pool.Exec(ctx, `
			WITH d AS (INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, attempts, sequence)
			           VALUES ($1, $2, $3, $4, $5, 'invoice.reversed', 'succeeded', '[]', $3))
			UPDATE webhook_cursor SET expired = expired + 1, position = $3 WHERE webhook_id = $2`,
			workspace, b.webhook.ID, list[i].position, list[i].at, list[i].id)
		if err != nil {
			return err
		}
	}
	return nil
}

// TestTextIsReadBack: whatever a statement says, its text says, and nothing else is
// accepted as the text of one.
func TestTextIsReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := drawn(t).Text()
		s, err := statement.Parse(text)
		if err != nil || s.Text() != text || !statement.IsStatement(text) {
			t.Fatalf("%v:\n%s", err, text)
		}
		lines := strings.SplitAfter(text, "\n")
		i := rapid.IntRange(1, len(lines)-2).Draw(t, "line")
		for _, wrong := range [][]string{
			slices.Delete(slices.Clone(lines), i, i+1), slices.Insert(slices.Clone(lines), i, "x 1\n"), append(slices.Clone(lines[:i]), lines[i+1:i+1]...),
		} {
			if s, err := statement.Parse(strings.Join(wrong, "")); err == nil {
				t.Fatalf("accepted: %+v", s)
			}
		}
	})
	for text, want := range map[string]string{"": "line 1 of the statement: it ends too early", "x\ny\n": "want webhook statement v1", "x\nwebhook statement v1\nworkspace\n": "line 3 of the statement: want workspace"} {
		if _, err := statement.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func drawn(t *rapid.T) *statement.Statement {
	id := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`)
	number := rapid.Int64Range(0, 1<<40)
	moment := func(label string) statement.Time {
		return statement.Time{Time: time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, label)).UTC()}
	}
	s := &statement.Statement{
		Name: "api.example.com/webhook-statements", WorkspaceID: id.Draw(t, "workspace"), WebhookID: id.Draw(t, "webhook"), Day: statement.DayOf(moment("day").Time),
		Made: moment("made"), Position: number.Draw(t, "position"), Events: []string{"all"}, CountedFrom: moment("counted from"),
		Counts: statement.Counts{Delivered: number.Draw(t, "delivered"), Pending: number.Draw(t, "pending"), History: number.Draw(t, "history")},
	}
	if rapid.Bool().Draw(t, "some types") {
		s.Events = []string{"invoice.paid", "charge.deleted"}
	}
	if rapid.Bool().Draw(t, "numbered") {
		s.First, s.Last, s.Numbered = 3, number.Draw(t, "last"), 1+number.Draw(t, "numbers")
	}
	copy(s.DeliveredSum[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "sum"))
	for range rapid.IntRange(0, 5).Draw(t, "listed") {
		s.Undelivered = append(s.Undelivered, statement.Undelivered{
			State: rapid.SampledFrom([]statement.State{statement.Failed, statement.Waiting, statement.NotSentOff}).Draw(t, "state"), Sequence: number.Draw(t, "n"), EventID: id.Draw(t, "id"),
		})
	}
	return s
}
