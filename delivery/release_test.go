package delivery_test

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestReleasedAndClaimedAgain releases webhooks whenever they are idle, between two
// dispatchers that never sweep: no notification may be lost.
func TestReleasedAndClaimedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Timeout: 4 * time.Second})
	rc := testkit.NewReceiver(t, nil)
	testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"invoice.reversed"}}))(t)
	for range 2 {
		b.dispatcher(func(c *dispatch.Config) { c.Lease, c.Sweep, c.Idle = 10*time.Minute, time.Minute, time.Nanosecond })
	}
	// Idle webhooks are released once a second; another notification lets the
	// dispatchers see that the second is over.
	tick := func() {
		b.clock.Advance(time.Second)
		b.notifier.Notify(eventlog.TopicProjected, "another")
	}
	const rounds = 60
	for sent := 1; sent <= rounds; sent++ {
		b.append("time_entry.approved", 1)
		b.append("invoice.reversed", 1)
		rc.Wait(t, sent)
		switch sent % 3 {
		case 0: // release it before the next event
			testkit.Eventually(t, func() error {
				tick()
				var held int
				err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_cursor WHERE holder IS NOT NULL`).Scan(&held)
				if err == nil && held != 0 {
					err = errors.New("the webhook is held")
				}
				return err
			})
		case 1: // release it just as the next event comes
			tick()
			go tick()
		}
	}
	if got := rc.All(); len(got) != rounds {
		t.Errorf("%d messages, want %d", len(got), rounds)
	}
}

// TestLostNotificationIsMadeUpFor makes events visible without a notification, while
// the webhook is held and idle.
func TestLostNotificationIsMadeUpFor(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	registry := prometheus.NewRegistry()
	b.dispatcher(func(c *dispatch.Config) { c.Sweep, c.Idle, c.Metrics = 20*time.Millisecond, time.Hour, registry })
	b.append("invoice.reversed", 1)
	rc.Wait(t, 1)
	for n := 2; n < 4; n++ {
		b.write(workspace, "invoice.reversed", 1)
		b.show(workspace)
		rc.Wait(t, n)
		if held := gauge(t, registry, "ledgerfeed_webhooks_held"); held != 1 {
			t.Errorf("%v webhooks are held", held)
		}
	}
}
