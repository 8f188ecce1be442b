package delivery_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestRetryNow brings the next attempt of a pending delivery forward: once, not one that
// is being made, and without taking a retry away.
func TestRetryNow(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{time.Hour, 2 * time.Hour}})
	rc := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	_, stop := b.dispatcher()
	b.append("invoice.reversed", 1)
	d := b.states(w.ID, policy.Pending)[0]
	retried := testkit.Must(b.store.RetryNow(t.Context(), d.ID))(t)
	if retried.State != policy.Pending && len(retried.Attempts) < 2 || retried.NextAttemptAt.Sub(b.clock.Now()) > 2*time.Hour {
		t.Errorf("after retry now: %+v", retried)
	}
	attempts := func(n int) (full *delivery.FullDelivery) {
		testkit.Eventually(t, func() (err error) {
			if full, err = b.store.Delivery(t.Context(), d.ID); err == nil && len(full.Attempts) != n {
				err = fmt.Errorf("%d attempts, want %d", len(full.Attempts), n)
			}
			return err
		})
		return full
	}
	second := attempts(2)
	if wait := second.NextAttemptAt.Sub(b.clock.Now()); second.State != policy.Pending || wait < 119*time.Minute || wait > 2*time.Hour {
		t.Errorf("after the second attempt it is %s, and the next is in %v: want the schedule's two hours", second.State, wait)
	}
	stop()
	testkit.Must(b.store.RetryNow(t.Context(), d.ID))(t) // nobody delivers: it stays due
	if _, err := b.store.RetryNow(t.Context(), d.ID); !errors.Is(err, delivery.ErrUnderWay) {
		t.Errorf("retry of what is due: %v", err)
	}
	b.dispatcher()
	if third := attempts(3); third.State != policy.Failed {
		t.Errorf("after the last attempt of the schedule: %s", third.State)
	}
	if _, err := b.store.RetryNow(t.Context(), d.ID); !errors.Is(err, delivery.ErrFinished) {
		t.Errorf("retry of what has failed: %v", err)
	}
	if n := rc.Count(); n != 3 {
		t.Errorf("%d messages arrived, want 3", n)
	}
	b.exec(`UPDATE webhook_delivery SET state = 'pending', next_attempt_at = $1`, b.clock.Now().Add(time.Hour))
	b.exec(`UPDATE webhook SET state = 'off'`)
	if _, err := b.store.RetryNow(t.Context(), d.ID); !errors.Is(err, delivery.ErrOff) {
		t.Errorf("retry while off: %v", err)
	}
}

// TestResendSeveral sends chosen deliveries again, each once though two people choose them
// at the same time, in one change of the audit trail.
func TestResendSeveral(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{}})
	rc := testkit.NewReceiver(t, nil)
	rc.Answer(http.StatusServiceUnavailable)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	other := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"period.closed"}}))(t)
	b.dispatcher()
	b.append("invoice.reversed", 6)
	list := b.states(w.ID, slices.Repeat([]policy.State{policy.Failed}, 6)...)
	rc.Answer(http.StatusOK)
	b.append("charge.deleted", 1)
	b.states(w.ID, append([]policy.State{policy.Succeeded}, slices.Repeat([]policy.State{policy.Failed}, 6)...)...)
	b.exec(`UPDATE webhook_delivery SET state = 'cancelled' WHERE event_id = $1`, list[0].EventID)
	done := testkit.Must(b.store.Deliveries(t.Context(), w.ID, delivery.Query{State: policy.Succeeded}))(t).Deliveries[0]
	chosen := []string{done.ID, list[0].ID, list[0].ID}
	for _, d := range list[1:5] {
		chosen = append(chosen, d.ID)
	}
	var (
		callers sync.WaitGroup
		total   atomic.Int64
	)
	for range 2 {
		callers.Go(func() {
			n, err := b.store.ResendSeveral(t.Context(), w.ID, chosen)
			if err != nil {
				t.Error(err)
			}
			total.Add(int64(n))
		})
	}
	callers.Wait()
	b.states(w.ID, append(slices.Repeat([]policy.State{policy.Succeeded}, 6), policy.Failed)...)
	if total.Load() != 5 || rc.Count() != 12 {
		t.Errorf("%d were sent again, %d messages arrived, want 5 and 12", total.Load(), rc.Count())
	}
	var name, detail string
	var lines int
	err := b.pool.QueryRow(t.Context(), `SELECT count(*), min(object_name), min(detail) FROM console_audit WHERE action = 'delivery.resend'`).Scan(&lines, &name, &detail)
	if err != nil || lines != 1 || name != "5 deliveries" || strings.Count(detail, "evt_") != 5 {
		t.Errorf("%d lines in the audit trail: %q %q (%v)", lines, name, detail, err)
	}
	var unknown *delivery.UnknownDeliveryError
	if _, err := b.store.ResendSeveral(t.Context(), other.ID, chosen); !errors.As(err, &unknown) {
		t.Errorf("deliveries of another webhook: %v", err)
	}
	if _, err := b.store.ResendSeveral(t.Context(), w.ID, make([]string, delivery.MaxResend+1)); !errors.Is(err, delivery.ErrTooManyDeliveries) {
		t.Errorf("too many: %v", err)
	}
	if n, err := b.store.ResendSeveral(t.Context(), w.ID, nil); n != 0 || err != nil {
		t.Errorf("none: %d, %v", n, err)
	}
}
