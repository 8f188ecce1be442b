package delivery_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestAProcessWithAWrongClockDeliversNothing: to a process whose clock is a year ahead
// every event is past its retention. It passes none over, and drops nothing of the
// history, whether the clock is wrong from the start or becomes so; a process whose clock
// is right delivers them.
func TestAProcessWithAWrongClockDeliversNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Timeout: 500 * time.Millisecond})
	testkit.AsOwner(t, b.pool, `CREATE OR REPLACE FUNCTION log_clock() RETURNS timestamptz LANGUAGE sql VOLATILE RETURN clock_timestamp()`)
	rc := testkit.NewReceiver(t, nil)
	testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	nothing := func() {
		t.Helper()
		testkit.Throughout(t, 2*time.Second, func() error {
			if list := testkit.Must(b.store.List(t.Context(), workspace))(t); list[0].ExpiredEvents > 0 {
				return fmt.Errorf("passed over %d events", list[0].ExpiredEvents)
			}
			return nil
		})
	}
	var ahead atomic.Bool
	withClock := func(cfg *dispatch.Config) {
		cfg.Lease = 4 * time.Second // it notices a wrong clock within half a second
		cfg.Clock = func() time.Time {
			if ahead.Load() {
				return time.Now().AddDate(1, 0, 0)
			}
			return time.Now()
		}
	}
	first := b.append("invoice.reversed", 3)
	ahead.Store(true)
	_, stop := b.dispatcher(withClock)
	nothing()
	stop()
	if n := len(rc.All()); n > 0 {
		t.Errorf("sent %d messages with a wrong clock", n)
	}

	ahead.Store(false)
	b.dispatcher(withClock)
	testkit.Eventually(t, func() error { return missing(rc, first) })
	ahead.Store(true)
	second := b.append("invoice.reversed", 3)
	nothing()
	b.dispatcher()
	testkit.Eventually(t, func() error { return missing(rc, second) })
	testkit.Eventually(t, func() error {
		var kept int
		err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_delivery`).Scan(&kept)
		if err == nil && kept < len(first)+len(second) {
			err = fmt.Errorf("the history has %d deliveries", kept)
		}
		return err
	})
}
