//go:build full

package delivery_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestNumbersOfMessages: numbers are in log order, the same on retries and when a message
// is sent again, and shown with the delivery. A test has none, and takes none. Webhooks
// have numbers of their own.
func TestNumbersOfMessages(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: slices.Repeat(policy.Schedule{20 * time.Millisecond}, 7)})
	rc := testkit.NewReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n%4 == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"invoice.reversed"}}))(t)
	other := testkit.NewReceiver(t, nil)
	testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: other.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	var want, all []string
	for range 30 {
		all = append(all, b.append("time_entry.approved", 1)...)
		ids := b.append("invoice.reversed", 2)
		want, all = append(want, ids...), append(all, ids...)
	}
	done := slices.Repeat([]policy.State{policy.Succeeded}, len(want))
	list := b.states(w.ID, done...)
	for i := range list {
		d := &list[len(list)-1-i]
		if d.Sequence == nil || want[*d.Sequence-1] != d.EventID {
			t.Errorf("the delivery of %s has the number %v, want %d", d.EventID, d.Sequence, slices.Index(want, d.EventID)+1)
		}
	}
	ping := testkit.Must(b.store.Test(t.Context(), w.ID))(t)
	b.project(workspace)
	list = b.states(w.ID, append(done, policy.Succeeded)...)
	if list[0].EventID != ping || list[0].Sequence != nil {
		t.Errorf("the test has the number %v, want none", list[0].Sequence)
	}
	again := list[len(list)-1]
	before := rc.Count()
	testkit.Must(b.store.Resend(t.Context(), again.ID))(t)
	rc.Wait(t, before+1)
	want = append(want, b.append("invoice.reversed", 1)...)
	b.states(w.ID, append(done, policy.Succeeded, policy.Succeeded)...)
	got := slices.DeleteFunc(rc.All(), func(m testkit.Received) bool {
		test := m.Header.Get("Service-Event-Id") == ping
		if numbers := m.Header.Values("Service-Sequence"); test && len(numbers) > 0 {
			t.Errorf("the test came with the number %q", numbers)
		}
		return test
	})
	if events := numbersIn(t, got); !slices.Equal(events, want) {
		t.Errorf("the numbers are those of\n%q, want log order\n%q", events, want)
	}
	other.Wait(t, len(all)+1)
	if events := numbersIn(t, other.All()); !slices.Equal(events[:len(all)], all) {
		t.Errorf("the other webhook's numbers are those of\n%q, want log order\n%q", events, all)
	}
}

// TestNumbersOfMissedEvents: what a webhook did not get while it was off has no number
// until it is sent as missed, then the next ones. A delivery that was cancelled keeps its own.
func TestNumbersOfMissedEvents(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{time.Hour}})
	rc := testkit.NewReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 2 || n == 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	since := b.clock.Now()
	want := b.append("invoice.reversed", 1)
	rc.Wait(t, 1)
	want = append(want, b.append("invoice.reversed", 2)...)
	b.states(w.ID, policy.Pending, policy.Pending, policy.Succeeded)
	if _, err := b.pool.Exec(t.Context(), `
		UPDATE webhook SET state = 'off', version = version + 1, epoch = epoch + 1, turned_off_at = now(), turned_off_for = 'x', failing_since = now()`); err != nil {
		t.Fatal(err)
	}
	b.notifier.Notify("webhooks", workspace)
	missed := b.append("invoice.reversed", 3)
	b.states(w.ID, policy.Cancelled, policy.Cancelled, policy.Succeeded)
	testkit.Must(b.store.TurnOn(t.Context(), w.ID))(t)
	want = append(want, b.append("invoice.reversed", 2)...)
	rc.Wait(t, 5)
	if m := testkit.Must(b.store.SendMissed(t.Context(), w.ID, since))(t); m.Count != 5 {
		t.Fatalf("%d are missed, want 5", m.Count)
	}
	want = append(want, missed...)
	rc.Wait(t, 10)
	b.states(w.ID, slices.Repeat([]policy.State{policy.Succeeded}, 8)...)
	want = append(want, b.append("invoice.reversed", 1)...)
	if events := numbersIn(t, rc.Wait(t, 11)); !slices.Equal(events, want) {
		t.Errorf("the numbers are those of\n%q, want\n%q", events, want)
	}
}

// TestNumbersOfOtherTypes: events of types that are not chosen any more take no number,
// although they had been read and numbered ahead.
func TestNumbersOfOtherTypes(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	release := make(chan struct{})
	rc := testkit.NewReceiver(t, func(n int, _ http.ResponseWriter, r *http.Request) {
		if n <= 2 {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.dispatcher(func(c *dispatch.Config) { c.Bound = 2 })
	want := b.append("invoice.reversed", 2)
	rc.Wait(t, 2)
	for range 3 {
		b.append("time_entry.approved", 1)
		want = append(want, b.append("invoice.reversed", 1)...)
	}
	testkit.Eventually(t, func() error { // they are numbered ahead
		var last int
		err := b.pool.QueryRow(t.Context(), `SELECT sequence FROM webhook_cursor`).Scan(&last)
		if err == nil && last != 8 {
			err = fmt.Errorf("numbers were given up to %d, want 8", last)
		}
		return err
	})
	testkit.Must(b.store.Edit(t.Context(), w.ID, delivery.Change{Events: []string{"invoice.reversed"}}))(t)
	testkit.Eventually(t, func() error { // the dispatcher knows
		var positions []int64
		err := b.pool.QueryRow(t.Context(), `SELECT numbered_positions FROM webhook_cursor`).Scan(&positions)
		if err == nil && !slices.Equal(positions, []int64{1, 2, 4, 6, 8}) {
			err = fmt.Errorf("the events at %v have numbers", positions)
		}
		return err
	})
	close(release)
	if events := numbersIn(t, rc.Wait(t, len(want))); !slices.Equal(events, want) {
		t.Errorf("the numbers are those of\n%q, want\n%q", events, want)
	}
}

// TestNumbersBesideTheVersionBefore: a process of a version without numbers takes over
// from one that died after it had numbered events. What it sends has no number and takes
// none; the deliveries that it records of numbered events get theirs when a process with
// numbers follows, which sends what is left of them and goes on after them.
func TestNumbersBesideTheVersionBefore(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	ids := b.append("invoice.reversed", 6)
	// Numbers 1 to 3 were given to the first three. The version before sent the first and
	// the fourth, and moved the cursor behind them; it died while it sent the others.
	var exec strings.Builder
	for _, position := range []int{1, 4} {
		fmt.Fprintf(&exec, `
			INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, attempts)
			VALUES ('%s', '%s', %d, now(), '%s', 'invoice.reversed', 'succeeded',
			        '[{"at":"2026-10-02T09:15:00.120Z","status":200,"error":null,"duration_ms":1,"answer":null}]');`, workspace, w.ID, position, ids[position-1])
	}
	testkit.AsOwner(t, b.pool, exec.String()+`
		UPDATE webhook_cursor SET position = 4, sequence = 3, numbered_positions = '{1,2,3}', numbered_sequences = '{1,2,3}', holder = 'died'`)
	b.dispatcher()
	got := rc.Wait(t, 4)
	numbers := map[string]string{}
	for _, m := range got {
		numbers[m.Header.Get("Service-Event-Id")] = m.Header.Get("Service-Sequence")
	}
	for i, want := range map[int]string{1: "2", 2: "3", 4: "4", 5: "5"} {
		if n := numbers[ids[i]]; n != want {
			t.Errorf("event %d came with the number %q, want %s", i+1, n, want)
		}
	}
	list := b.states(w.ID, slices.Repeat([]policy.State{policy.Succeeded}, 6)...)
	shown := map[string]int64{}
	for i := range list {
		if list[i].Sequence != nil {
			shown[list[i].EventID] = *list[i].Sequence
		}
	}
	if len(shown) != 5 || shown[ids[0]] != 1 || shown[ids[3]] != 0 {
		t.Errorf("the deliveries have the numbers %v; want 1 for the first and none for the fourth", shown)
	}
}
