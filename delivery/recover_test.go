package delivery_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// outage is a webhook whose receiver works or not.
type outage struct {
	*bench
	rc *testkit.Receiver
	w  *delivery.Webhook
}

func newOutage(t *testing.T, schedule policy.Schedule) *outage {
	t.Helper()
	o := &outage{bench: setup(t, policy.Settings{Schedule: schedule})}
	o.rc = testkit.NewReceiver(t, nil)
	o.rc.Answer(http.StatusServiceUnavailable)
	made := testkit.Must(o.store.Create(t.Context(), workspace, delivery.Definition{URL: o.rc.URL, Events: []string{"all"}}))(t)
	o.w = &made.Webhook
	return o
}

// delivered returns the events that arrived after the first n messages, in their order.
func (o *outage) delivered(n, want int) (events []string) {
	for _, r := range o.rc.Wait(o.t, n+want)[n:] {
		events = append(events, r.Header.Get("Service-Event-Id"))
	}
	return events
}

// TestRecover: what waits in the window becomes due, what failed in it is sent again with the schedule
// from its start, oldest first; what succeeded is not sent again. What is outside the window is not
// counted.
func TestRecover(t *testing.T) {
	t.Parallel()
	o := newOutage(t, policy.Schedule{time.Hour})
	began := o.clock.Now()
	o.rc.Answer(http.StatusOK)
	_, stop := o.dispatcher()
	o.append("invoice.reversed", 1) // succeeds
	o.delivered(0, 1)
	o.rc.Answer(http.StatusServiceUnavailable)
	o.clock.Advance(time.Minute)
	failing := o.append("invoice.reversed", 3)
	o.awaitAttempts(4)
	o.clock.Advance(time.Hour)
	o.awaitAttempts(7) // these have failed for good
	later := o.clock.Now().Add(time.Second)
	lost := testkit.Must(o.w.Lost(t.Context(), o.store, 100))(t)
	if r := testkit.Must(o.store.CountRecovery(t.Context(), o.w.ID, lost.Since, nil))(t); lost.Messages != 3 || lost.More || r.Failed != 3 || lost.Since.Before(began.Add(time.Minute)) {
		t.Errorf("lost: %+v, of which %d are sent again", lost, r.Failed)
	}
	if l := testkit.Must(o.w.Lost(t.Context(), o.store, 2))(t); l.Messages != 2 || !l.More || l.Since.After(began) {
		t.Errorf("lost, when not all is counted: %+v", l)
	}
	o.clock.Advance(time.Minute)
	waiting := o.append("invoice.reversed", 3)
	o.awaitAttempts(10)
	outside := o.clock.Now().Add(time.Minute)
	o.clock.Advance(2 * time.Minute)
	last := o.append("invoice.reversed", 1)
	o.awaitAttempts(11)
	stop()

	for _, c := range []struct {
		since           time.Time
		until           *time.Time
		pending, failed int64
	}{{began, nil, 4, 3}, {began, &outside, 3, 3}, {later, &outside, 3, 0}, {began, &later, 0, 3}, {outside, nil, 1, 0}} {
		r := testkit.Must(o.store.CountRecovery(t.Context(), o.w.ID, c.since, c.until))(t)
		if r.Pending != c.pending || r.Failed != c.failed {
			t.Errorf("from %v to %v: %+v, want %d and %d", c.since, c.until, r, c.pending, c.failed)
		}
	}
	for _, c := range []struct {
		since time.Time
		until *time.Time
	}{{o.clock.Now().Add(time.Hour), nil}, {o.clock.Now().Add(-10_000 * time.Hour), nil}, {later, &began}} {
		var wrong *delivery.SinceError
		if _, err := o.store.Recover(t.Context(), o.w.ID, c.since, c.until); !errors.As(err, &wrong) {
			t.Errorf("from %v to %v: %v", c.since, c.until, err)
		}
	}
	o.rc.Answer(http.StatusOK)
	if r := testkit.Must(o.store.Recover(t.Context(), o.w.ID, began, &outside))(t); r.Pending != 3 || r.Failed != 3 {
		t.Errorf("recovered %+v", r)
	}
	o.dispatcher(func(c *dispatch.Config) { c.Limit = 1 }) // with more in flight, they may overtake each other
	got := o.delivered(11, 7)                              // the last one because the first success shows that the receiver works
	if want := slices.Concat(failing, waiting, last); !slices.Equal(got, want) {
		t.Errorf("arrived %q, want %q", got, want)
	}
	o.awaitAttempts(18)
	if r := testkit.Must(o.store.Recover(t.Context(), o.w.ID, began, &outside))(t); r.Pending+r.Failed != 0 {
		t.Errorf("twice: %+v", r)
	}
	if l := testkit.Must(o.w.Lost(t.Context(), o.store, 100))(t); l != nil {
		t.Errorf("lost after all was sent: %+v", l)
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// TestWorksAgain: after three failures in a row a success makes everything that waits due, without
// using up the retry schedule. After fewer it does not.
func TestWorksAgain(t *testing.T) {
	t.Parallel()
	o := newOutage(t, policy.Schedule{time.Hour, time.Hour})
	o.dispatcher()
	few := o.append("invoice.reversed", 2)
	o.awaitAttempts(2)
	o.rc.Answer(http.StatusOK)
	o.append("invoice.reversed", 1)
	o.delivered(2, 1)
	if m := testkit.Must(o.store.CountMissed(t.Context(), o.w.ID, o.clock.Now().Add(-time.Hour)))(t); m.Count != 0 || m.Waiting != 2 {
		t.Errorf("%+v: two wait after two failures", m)
	}
	o.rc.Answer(http.StatusServiceUnavailable)
	many := o.append("invoice.reversed", 3)
	o.awaitAttempts(6)
	o.rc.Answer(http.StatusOK)
	last := o.append("invoice.reversed", 1)
	got := o.delivered(6, 6)
	if want := slices.Concat(few, many, last); !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("arrived %q, want %q", got, want)
	}
	testkit.Eventually(t, func() error {
		if m := testkit.Must(o.store.CountMissed(t.Context(), o.w.ID, o.clock.Now().Add(-time.Hour)))(t); m.Waiting != 0 {
			return fmt.Errorf("%d wait", m.Waiting)
		}
		return nil
	})
	o.recoveryEnds()
}

// TestRecoveryAfterACrash: a process that died between a success and what follows from it left that in the
// webhook's row, and the one that takes over does it.
func TestRecoveryAfterACrash(t *testing.T) {
	t.Parallel()
	o := newOutage(t, policy.Schedule{time.Hour})
	_, stop := o.dispatcher()
	waiting := o.append("invoice.reversed", 2)
	o.awaitAttempts(2)
	stop()
	o.exec(`UPDATE webhook SET failing_since = NULL, failures = '{"recovered":1772366400000}'`)
	o.rc.Answer(http.StatusOK)
	o.dispatcher()
	last := o.append("invoice.reversed", 1)
	if got, want := o.delivered(2, 3), slices.Concat(waiting, last); !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("arrived %q, want %q", got, want)
	}
	o.recoveryEnds()
}

// recoveryEnds waits until nothing is left to recover.
func (o *outage) recoveryEnds() {
	testkit.Eventually(o.t, func() error {
		var left int
		if err := o.pool.QueryRow(o.t.Context(), `SELECT count(*) FROM webhook WHERE failures ? 'recovered'`).Scan(&left); err != nil || left != 0 {
			return fmt.Errorf("%d webhooks are still to recover, %w", left, err)
		}
		return nil
	})
}

// TestWarningIsStoredWithItsMail: as long as the mail about a failing webhook cannot be stored, the webhook
// does not count as warned of, so that a crash loses no mail.
func TestWarningIsStoredWithItsMail(t *testing.T) {
	t.Parallel()
	o := newOutage(t, policy.Schedule{30 * time.Hour})
	o.notify("finance@example.com")
	office := newPostOffice(t, 0)
	o.dispatcher(func(c *dispatch.Config) { c.Mail = mail.Settings{URL: office.url, From: "billing@example.com"} })
	o.append("invoice.reversed", 1)
	o.awaitAttempts(1)
	tx := testkit.Must(o.pool.Begin(t.Context()))(t)
	defer tx.Rollback(t.Context())
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE webhook_mail IN SHARE MODE`))(t)
	o.clock.Advance(30 * time.Hour)
	testkit.Eventually(t, func() error { return o.waitsFor("INSERT INTO webhook_mail") })
	if n := o.warned(); n != 0 {
		t.Errorf("warned %d times, and no mail can be stored", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, func() error {
		if s := office.subjects(t); len(s) != 1 || o.warned() != 1 {
			return fmt.Errorf("warned %d times, mails %q", o.warned(), s)
		}
		return nil
	})
}
