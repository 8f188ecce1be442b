package delivery_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// refuses is a receiver that answers 500.
func refuses(t *testing.T) *testkit.Receiver {
	t.Helper()
	return testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
}

// TestAnotherAddressStartsAnew: a webhook that gets another address is no longer failing, has no
// warnings, and its pending deliveries go there at once, whichever process delivers. Their attempts still
// count. A change of anything else, or the same address again, changes none of that.
func TestAnotherAddressStartsAnew(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprintf("stopped %v", stopped), func(t *testing.T) {
			t.Parallel()
			b := setup(t, policy.Settings{Schedule: policy.Schedule{time.Hour, time.Hour}})
			old, next := refuses(t), testkit.NewReceiver(t, nil)
			w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: old.URL, Events: []string{"all"}}))(t)
			_, stop := b.dispatcher()
			b.append("invoice.reversed", 3)
			pending := b.states(w.ID, policy.Pending, policy.Pending, policy.Pending)
			if stopped {
				stop()
			}
			b.exec(`UPDATE webhook SET warned = 2`)
			before := testkit.Must(b.store.Get(t.Context(), w.ID))(t)
			name, description, standard := "Payroll", "Run by Dana", true
			for _, c := range []delivery.Change{{Name: &name, Description: &description, Standard: &standard, Events: []string{"invoice.reversed"}}, {URL: &old.URL}} {
				after := testkit.Must(b.store.Edit(t.Context(), w.ID, c))(t)
				if !after.FailingSince.Equal(before.FailingSince.Time) || before.FailingSince.IsZero() || b.warned() != 2 {
					t.Fatalf("another change made it %+v, warned %d times", after, b.warned())
				}
			}
			for i, d := range b.states(w.ID, policy.Pending, policy.Pending, policy.Pending) {
				if !d.NextAttemptAt.Equal(pending[i].NextAttemptAt.Time) {
					t.Errorf("another change moved an attempt from %v to %v", pending[i].NextAttemptAt, d.NextAttemptAt)
				}
			}
			at := b.clock.Now()
			after := testkit.Must(b.store.Edit(t.Context(), w.ID, delivery.Change{URL: &next.URL}))(t)
			if !after.FailingSince.IsZero() || after.Notice != nil || b.warned() != 0 {
				t.Errorf("with another address: %+v, warned %d times", after, b.warned())
			}
			if stopped {
				for _, d := range b.states(w.ID, policy.Pending, policy.Pending, policy.Pending) {
					if d.NextAttemptAt.After(at.Add(time.Minute)) {
						t.Errorf("the next attempt is at %v, want at once", d.NextAttemptAt)
					}
				}
				b.dispatcher()
			}
			for _, d := range b.states(w.ID, policy.Succeeded, policy.Succeeded, policy.Succeeded) {
				if len(d.Attempts) != 2 {
					t.Errorf("%d attempts, want one at each address", len(d.Attempts))
				}
			}
			if old.Count() != 3 || next.Count() != 3 {
				t.Errorf("%d messages at the old address and %d at the new one", old.Count(), next.Count())
			}
			b.auditHas("webhook.edit", 3)
		})
	}
}

func (b *bench) warned() (n int) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.t.Context(), `SELECT warned FROM webhook`).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// TestAttemptsAtTheAddressBefore: an attempt that was under way when the address changed and
// then fails does not count against the new address, and its delivery goes there at once. One
// that succeeds does not clear what the new address has failed.
func TestAttemptsAtTheAddressBefore(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{time.Hour, time.Hour}})
	release := make(chan int)
	old := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(<-release) })
	next := testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: old.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	b.append("invoice.reversed", 2)
	old.Wait(t, 2)
	testkit.Must(b.store.Edit(t.Context(), w.ID, delivery.Change{URL: &next.URL}))(t)
	release <- http.StatusInternalServerError
	next.Wait(t, 1)
	testkit.Eventually(t, func() error {
		list := testkit.Must(b.store.Deliveries(t.Context(), w.ID, delivery.Query{}))(t).Deliveries
		if len(list) != 1 || list[0].State != policy.Succeeded || len(list[0].Attempts) != 2 {
			return fmt.Errorf("deliveries %+v", list)
		}
		return nil
	})
	if got := testkit.Must(b.store.Get(t.Context(), w.ID))(t); !got.FailingSince.IsZero() {
		t.Errorf("failing since %v by the address before", got.FailingSince)
	}
	next.Answer(http.StatusInternalServerError)
	b.append("invoice.reversed", 1)
	var failing *delivery.Webhook
	testkit.Eventually(t, func() error {
		if failing = testkit.Must(b.store.Get(t.Context(), w.ID))(t); failing.FailingSince.IsZero() {
			return errors.New("the new address is not failing")
		}
		return nil
	})
	release <- http.StatusOK
	b.states(w.ID, policy.Pending, policy.Succeeded, policy.Succeeded)
	if got := testkit.Must(b.store.Get(t.Context(), w.ID))(t); !got.FailingSince.Equal(failing.FailingSince.Time) {
		t.Errorf("a success at the address before: failing since %v, want %v", got.FailingSince, failing.FailingSince)
	}
}

// TestAnotherAddressIsNotTurnedOff: the failures at the address before do not turn the webhook
// off once more attempts fail at the new one.
func TestAnotherAddressIsNotTurnedOff(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{}})
	old, next := refuses(t), refuses(t)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: old.URL, Events: []string{"all"}}))(t)
	b.dispatcher(func(c *dispatch.Config) { c.Renew = soon })
	for n := 1; n <= 8; n++ { // 70 hours of failures
		b.append("invoice.reversed", 1)
		old.Wait(t, n)
		b.awaitAttempts(n)
		b.clock.Advance(10 * time.Hour)
	}
	testkit.Must(b.store.Edit(t.Context(), w.ID, delivery.Change{URL: &next.URL}))(t)
	moved := b.clock.Now()
	for n := 1; n <= 4; n++ {
		b.append("invoice.reversed", 1)
		next.Wait(t, n)
		b.awaitAttempts(8 + n)
		b.clock.Advance(10 * time.Hour)
	}
	if got := testkit.Must(b.store.Get(t.Context(), w.ID))(t); !got.On() || got.FailingSince.Before(moved) {
		t.Errorf("the new address has failed for 30 hours: %s, failing since %v", got.State, got.FailingSince)
	}
	for n := 13; n <= 17; n++ { // 80 hours
		b.append("invoice.reversed", 1)
		b.awaitAttempts(n)
		b.clock.Advance(10 * time.Hour)
	}
	var off *delivery.Webhook
	testkit.Eventually(t, func() error {
		if off = testkit.Must(b.store.Get(t.Context(), w.ID))(t); off.On() {
			return errors.New("the webhook is on after 80 hours of failures at the new address")
		}
		return nil
	})
	if lasted := off.TurnedOffAt.Sub(off.TurnedOffSince.Time); lasted < 72*time.Hour || off.TurnedOffSince.Before(moved) {
		t.Errorf("turned off after %v, since %v", lasted, off.TurnedOffSince)
	}
	// Correcting the address of one that is off leaves what people are told about it.
	edited := testkit.Must(b.store.Edit(t.Context(), w.ID, delivery.Change{URL: &old.URL}))(t)
	if edited.On() || !edited.FailingSince.IsZero() || *edited.Notice != *off.Notice {
		t.Errorf("corrected while off: %+v, the notice was %q", edited, *off.Notice)
	}
}

// awaitAttempts waits until so many attempts are recorded.
func (b *bench) awaitAttempts(want int) {
	b.t.Helper()
	testkit.Eventually(b.t, func() error {
		var n int
		if err := b.pool.QueryRow(b.t.Context(), `SELECT coalesce(sum(jsonb_array_length(attempts)), 0) FROM webhook_delivery`).Scan(&n); err != nil || n != want {
			return fmt.Errorf("%d attempts are recorded, want %d (%w)", n, want, err)
		}
		return nil
	})
}
