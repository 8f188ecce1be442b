package delivery_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestAProcessWithAWrongClockDeliversNothing: to a process whose clock is a year ahead
// every event is past its retention. It passes none over, whether the clock is wrong from the
// start or becomes so; a process whose clock is right delivers them.
func TestAProcessWithAWrongClockDeliversNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	testkit.AsOwner(t, b.pool, `CREATE OR REPLACE FUNCTION log_clock() RETURNS timestamptz LANGUAGE sql VOLATILE RETURN clock_timestamp()`)
	rc := testkit.NewReceiver(t, nil)
	testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	nothing := func() error {
		var expired, recorded int
		err := b.pool.QueryRow(t.Context(), `SELECT (SELECT sum(expired) FROM webhook_cursor), (SELECT count(*) FROM webhook_delivery)`).Scan(&expired, &recorded)
		if sent := rc.Count(); err == nil && expired+recorded+sent > 0 {
			err = fmt.Errorf("a process with a wrong clock passed over %d events, sent %d and recorded %d", expired, sent, recorded)
		}
		return err
	}
	var ahead atomic.Bool
	log := &testkit.Buffer{}
	withClock := func(cfg *dispatch.Config) {
		cfg.Logger, cfg.Renew = log.Logger(), soon
		cfg.Clock = func() time.Time {
			if ahead.Load() {
				return time.Now().AddDate(1, 0, 0)
			}
			return time.Now()
		}
	}
	// The process could do its harm, because there is something to deliver, until it has said
	// that it cannot.
	refused := func(times int) func() error {
		return func() error {
			if err := nothing(); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(log.String(), `msg="cannot deliver"`); n < times {
				return fmt.Errorf("the process has noticed its clock %d times, want %d:\n%s", n, times, log)
			}
			return nil
		}
	}
	b.append("invoice.reversed", 3)
	ahead.Store(true)
	_, stop := b.dispatcher(withClock)
	testkit.Eventually(t, refused(1))
	stop()
	if err := nothing(); err != nil {
		t.Error(err)
	}

	// The clock becomes wrong in a process that has a lease and no webhook yet.
	testkit.Must(b.pool.Exec(t.Context(), `UPDATE webhook SET state = 'off'`))(t)
	ahead.Store(false)
	b.dispatcher(withClock)
	testkit.Eventually(t, func() error {
		var leases int
		err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_instance`).Scan(&leases)
		if err == nil && leases == 0 {
			err = errors.New("the process has no lease yet")
		}
		return err
	})
	before := strings.Count(log.String(), `msg="cannot deliver"`)
	ahead.Store(true)
	testkit.Must(b.pool.Exec(t.Context(), `UPDATE webhook SET state = 'on'`))(t)
	events := b.append("invoice.reversed", 3)
	testkit.Eventually(t, refused(before+1))

	b.dispatcher()
	testkit.Eventually(t, func() error { return missing(rc, events) })
	b.recorded([]string{workspace}, 6)
	if n := rc.Count(); n != 6 {
		t.Errorf("%d messages, want 6", n)
	}
}
