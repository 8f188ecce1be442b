package delivery_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// pause pauses a webhook, and waits until no process holds it.
func (b *bench) pause(w *delivery.Webhook) *delivery.Webhook {
	b.t.Helper()
	paused := testkit.Must(w.Pause(b.t.Context(), b.store))(b.t)
	testkit.Eventually(b.t, func() error {
		for _, l := range b.status() {
			if l.WebhookID == w.ID && (l.Held || l.State != "paused") {
				return fmt.Errorf("it is %s, held: %t", l.State, l.Held)
			}
		}
		return nil
	})
	return paused
}

// TestPauseKeepsEverything pauses a webhook while it gets events, some of which wait for a
// retry: nothing arrives but what a person sends, also at processes that start then, and
// resuming sends what waited, in order, and each once.
func TestPauseKeepsEverything(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{time.Millisecond, time.Hour}})
	rc := testkit.NewReceiver(t, nil)
	w := &testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t).Webhook
	_, stop := b.dispatcher(func(c *dispatch.Config) { c.Bound = 1 })
	b.append("invoice.reversed", 3)
	rc.Wait(t, 3)
	rc.Answer(http.StatusServiceUnavailable)
	b.append("charge.deleted", 2) // each is tried twice
	rc.Wait(t, 7)
	b.states(w.ID, append(slices.Repeat([]policy.State{policy.Pending}, 2), slices.Repeat([]policy.State{policy.Succeeded}, 3)...)...)
	paused := b.pause(w)
	if !paused.Paused() || !paused.On() || paused.PausedAt.IsZero() || paused.Notice == nil {
		t.Errorf("paused: %+v", paused)
	}
	if again := testkit.Must(w.Pause(t.Context(), b.store))(t); !again.PausedAt.Equal(paused.PausedAt.Time) {
		t.Errorf("paused once more at %v, want %v", again.PausedAt, paused.PausedAt)
	}
	rc.Answer(http.StatusOK)
	waits := b.append("time_entry.approved", 20)
	stop()
	b.clock.Advance(2 * time.Hour) // the retries are due
	b.dispatcher(func(c *dispatch.Config) { c.Bound = 1 })

	// By hand: one that has arrived, and one that waits.
	list := testkit.Must(b.store.Deliveries(t.Context(), w.ID, delivery.Query{}))(t).Deliveries
	testkit.Must(b.store.Resend(t.Context(), list[4].ID))(t)
	rc.Wait(t, 8)
	testkit.Must(b.store.RetryNow(t.Context(), list[0].ID))(t)
	rc.Wait(t, 9)
	b.states(w.ID, append([]policy.State{policy.Succeeded, policy.Pending}, slices.Repeat([]policy.State{policy.Succeeded}, 3)...)...)
	got := rc.All()[7:]
	if list[4].EventID != got[0].Header.Get("Service-Event-Id") || list[0].EventID != got[1].Header.Get("Service-Event-Id") {
		t.Errorf("by hand arrived %v and %v", got[0].Header, got[1].Header)
	}
	backlog := testkit.Must(paused.Backlog(t.Context(), b.store))(t)
	if backlog.Events != 20 || backlog.MoreEvents || backlog.Retries != 1 || backlog.Lost != 0 || backlog.GoneFrom.Sub(backlog.Oldest) != 720*time.Hour {
		t.Errorf("what waits: %+v", backlog)
	}
	if n := rc.Count(); n != 9 {
		t.Fatalf("%d messages arrived by then, want 9", n)
	}
	if resumed := testkit.Must(w.Resume(t.Context(), b.store))(t); resumed.Paused() || resumed.Notice != nil || !resumed.FailingSince.IsZero() {
		t.Errorf("resumed: %+v", resumed)
	}
	rc.Wait(t, 9+21)
	var live []string
	for _, r := range rc.All()[9:] {
		if id := r.Header.Get("Service-Event-Id"); slices.Contains(waits, id) {
			live = append(live, id)
		}
	}
	if !slices.Equal(live, waits) {
		t.Errorf("what waited arrived as %v, want %v", live, waits)
	}
	b.states(w.ID, slices.Repeat([]policy.State{policy.Succeeded}, 25)...)
	b.auditHas("webhook.pause", 1)
	b.auditHas("webhook.resume", 1)
}

// auditHas checks how many lines of an action the audit trail has.
func (b *bench) auditHas(action string, want int) {
	b.t.Helper()
	var n int
	if err := b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM console_audit WHERE action = $1`, action).Scan(&n); err != nil || n != want {
		b.t.Errorf("%d lines of %s in the audit trail, want %d (%v)", n, action, want, err)
	}
}

// TestPauseDuringAttempts: attempts that are under way when somebody pauses end normally.
// Those that fail are tried again after resuming, and do not turn the webhook off, however
// long it has failed.
func TestPauseDuringAttempts(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{time.Millisecond, time.Millisecond, time.Millisecond}, TurnOffAfter: time.Minute})
	release := make(chan struct{})
	var healthy atomic.Bool
	rc := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		<-release
		if !healthy.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	w := &testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t).Webhook
	now := b.clock.Now()
	b.exec(`UPDATE webhook SET failing_since = $1, warned = 2, failures = '{"events":[1000000]}'`, now.Add(-time.Hour))
	b.dispatcher()
	b.append("invoice.reversed", 5)
	rc.Wait(t, 5)
	testkit.Must(w.Pause(t.Context(), b.store))(t)
	close(release)
	b.states(w.ID, slices.Repeat([]policy.State{policy.Pending}, 5)...)
	b.pause(w)
	if now := testkit.Must(b.store.Get(t.Context(), w.ID))(t); !now.On() || !now.Paused() {
		t.Errorf("after its attempts have failed: %+v", now)
	}
	healthy.Store(true)
	testkit.Must(w.Resume(t.Context(), b.store))(t)
	b.states(w.ID, slices.Repeat([]policy.State{policy.Succeeded}, 5)...)
	if n := rc.Count(); n != 10 {
		t.Errorf("%d messages arrived, want 10", n)
	}
}

// TestPauseRefuses: what a paused webhook, or one that is off, cannot do.
func TestPauseRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	w := &testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: "https://127.0.0.1/", Events: []string{"all"}}))(t).Webhook
	if on := testkit.Must(w.Resume(t.Context(), b.store))(t); on.Paused() || !on.On() {
		t.Errorf("resumed what was not paused: %+v", on)
	}
	b.auditHas("webhook.resume", 0)
	w = b.pause(w)
	for what, err := range map[string]error{
		"test":        last(b.store.Test(t.Context(), w.ID)),
		"send missed": last(b.store.SendMissed(t.Context(), w.ID, b.clock.Now().Add(-time.Hour))),
		"turn on":     last(b.store.TurnOn(t.Context(), w.ID)),
	} {
		if !errors.Is(err, delivery.ErrPaused) {
			t.Errorf("%s while paused: %v", what, err)
		}
	}
	testkit.Must(w.Resume(t.Context(), b.store))(t)
	b.exec(`UPDATE webhook SET state = 'off', epoch = epoch + 1, turned_off_at = now(), failing_since = now()`)
	for what, err := range map[string]error{"pause": last(w.Pause(t.Context(), b.store)), "resume": last(w.Resume(t.Context(), b.store))} {
		if !errors.Is(err, delivery.ErrOff) {
			t.Errorf("%s while off: %v", what, err)
		}
	}
	w.ID = "wh_none"
	var unknown *delivery.UnknownWebhookError
	if _, err := w.Pause(t.Context(), b.store); !errors.As(err, &unknown) {
		t.Errorf("pause a webhook that does not exist: %v", err)
	}
}

func last[T any](_ T, err error) error { return err }

// TestPauseBeyondRetention: what is past the retention when a webhook is resumed is counted
// and not sent, first attempts and retries.
func TestPauseBeyondRetention(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{time.Hour}, Retention: 24 * time.Hour})
	rc := testkit.NewReceiver(t, nil)
	rc.Answer(http.StatusInternalServerError)
	w := &testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t).Webhook
	_, stop := b.dispatcher()
	b.append("invoice.reversed", 2)
	b.states(w.ID, policy.Pending, policy.Pending)
	// The history, which is removed after the retention, tells only until then what was sent
	// after the stored cursor.
	testkit.Eventually(t, func() error {
		var position int64
		err := b.pool.QueryRow(t.Context(), `SELECT position FROM webhook_cursor`).Scan(&position)
		if err == nil && position != 2 {
			err = fmt.Errorf("the stored cursor is at %d, want 2", position)
		}
		return err
	})
	w = b.pause(w)
	stop()
	b.append("charge.deleted", 3)
	b.clock.Advance(25 * time.Hour)
	b.append("time_entry.approved", 1)
	backlog := testkit.Must(w.Backlog(t.Context(), b.store))(t)
	if backlog.Events != 1 || backlog.Retries != 2 || backlog.Lost != 3 || backlog.MoreLost {
		t.Errorf("what waits: %+v", backlog)
	}
	rc.Answer(http.StatusOK)
	b.dispatcher()
	testkit.Must(w.Resume(t.Context(), b.store))(t)
	rc.Wait(t, 3)
	testkit.Eventually(t, func() error {
		now := testkit.Must(b.store.Get(t.Context(), w.ID))(t)
		if now.ExpiredEvents != 5 {
			return fmt.Errorf("%d events were counted as past the retention, want 5", now.ExpiredEvents)
		}
		return nil
	})
	if n := rc.Count(); n != 3 {
		t.Errorf("%d messages arrived, want 3", n)
	}
	if backlog, err := testkit.Must(b.store.Get(t.Context(), w.ID))(t).Backlog(t.Context(), b.store); backlog != nil || err != nil {
		t.Errorf("what waits for a webhook that is not paused: %+v (%v)", backlog, err)
	}
}

// TestPausedIsOffBefore: what the version before asks the database leaves a paused webhook
// alone, and cancels nothing of it. Its statements stand here as they were.
func TestPausedIsOffBefore(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{time.Millisecond, time.Hour}})
	rc := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	w := &testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t).Webhook
	_, stop := b.dispatcher()
	b.append("invoice.reversed", 2)
	rc.Wait(t, 4)
	b.pause(w)
	stop() // or it cancels retries before they are counted here
	b.append("invoice.reversed", 2)
	due := b.clock.Now().Add(2 * time.Hour)
	count := func(sql string, args ...any) (n int) {
		t.Helper()
		if err := b.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	claimable := func() int {
		return count(`
			SELECT count(*) FROM webhook_cursor c
			  JOIN webhook w ON w.workspace_id = c.workspace_id AND w.webhook_id = c.webhook_id
			  JOIN log_checkpoint v ON v.workspace_id = c.workspace_id AND v.consumer = 'read_models'
			 WHERE w.state = 'on' AND (v.position > c.position OR c.replay_until IS NOT NULL) OR EXISTS (
			       SELECT FROM webhook_waiting q
			        WHERE q.workspace_id = c.workspace_id AND q.webhook_id = c.webhook_id AND q.next_attempt_at <= $1
			          AND (w.state = 'on' OR q.epoch = w.epoch))`, due)
	}
	if n := claimable(); n != 0 {
		t.Errorf("the version before takes %d webhooks that are paused", n)
	}
	cancelled := func() int { return count(`SELECT webhook_cancel(workspace_id, webhook_id, 100) FROM webhook`) }
	if n := cancelled(); n != 0 {
		t.Errorf("%d retries of a paused webhook are cancelled", n)
	}
	testkit.Must(w.Resume(t.Context(), b.store))(t)
	if n := cancelled(); n != 0 {
		t.Errorf("%d retries are cancelled after resuming", n)
	}
	b.exec(`UPDATE webhook SET state = 'off', version = version + 1, epoch = epoch + 1`) // as the version before does
	if n := cancelled(); n < 2 {
		t.Errorf("%d retries are cancelled when it is turned off", n)
	}
}
