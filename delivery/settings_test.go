package delivery

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

func TestSettingsFromEnvironment(t *testing.T) {
	t.Parallel()
	parse := func(vars map[string]string) (s Settings, err error) {
		err = env.ParseWithOptions(&s, env.Options{Environment: vars})
		return s, err
	}
	s, err := parse(map[string]string{
		"LEDGERFEED_BRAND": "ACME", "LEDGERFEED_RETRY_SCHEDULE": "1s,2m", "LEDGERFEED_TURN_OFF_AFTER": "3s",
		"LEDGERFEED_SECRET_OVERLAP": "1h", "LEDGERFEED_WEBHOOK_TIMEOUT": "2s", "LEDGERFEED_RETENTION": "48h",
		"LEDGERFEED_WEBHOOK_ALLOW": "127.0.0.0/8,::1/128", "LEDGERFEED_WEBHOOK_CA_FILE": "/x.pem",
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Brand.String() != "ACME" || !slices.Equal(s.Schedule, Schedule{time.Second, 2 * time.Minute}) || s.TurnOffAfter != 3*time.Second ||
		s.SecretOverlap != time.Hour || s.Timeout != 2*time.Second || s.Retention != 48*time.Hour || s.CAFile != "/x.pem" ||
		!slices.Equal(s.Allow, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}) {
		t.Errorf("%+v", s)
	}
	if s, err = parse(map[string]string{}); err != nil || s.Schedule != nil {
		t.Errorf("nothing set: %+v, %v", s, err)
	}
	if s, err = s.withDefaults(); err != nil || s.Brand.String() != "SERVICE" || len(s.Schedule) != 7 || s.Timeout != 10*time.Second {
		t.Errorf("defaults: %+v, %v", s, err)
	}
	for _, vars := range []map[string]string{
		{"LEDGERFEED_RETRY_SCHEDULE": "soon"}, {"LEDGERFEED_WEBHOOK_ALLOW": "127.0.0.1"}, {"LEDGERFEED_WEBHOOK_TIMEOUT": "10"},
	} {
		if _, err := parse(vars); err == nil {
			t.Errorf("%v was taken", vars)
		}
	}
}

// TestLetGoAndClaimedAgain lets webhooks go whenever they are idle, between two
// engines that never sweep: no wake-up may be lost.
func TestLetGoAndClaimedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{Timeout: 4 * time.Second})
	rc := newReceiver(t, nil)
	testkit.Must(b.store.Create(t.Context(), workspace, rc.URL, []string{"invoice.reversed"}))(t)
	var engines []*Engine
	for range 2 {
		e, _ := b.engine(func(c *Config) { c.Lease, c.Sweep, c.Idle = 3*time.Minute, time.Minute, time.Nanosecond })
		engines = append(engines, e)
	}
	tick := func() {
		for _, e := range engines {
			e.desk.tick(true, time.Nanosecond)
		}
	}
	const rounds = 60
	for sent := 1; sent <= rounds; sent++ {
		b.append("time_entry.approved", 1)
		b.append("invoice.reversed", 1)
		rc.wait(t, sent)
		switch sent % 3 {
		case 0: // let go before the next
			testkit.Eventually(t, func() error {
				tick()
				var held int
				err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_cursor WHERE holder IS NOT NULL`).Scan(&held)
				if err == nil && held != 0 {
					err = errors.New("the webhook is held")
				}
				return err
			})
		case 1: // let go just as the next comes
			tick()
			go tick()
		}
	}
	if got := rc.all(); len(got) != rounds {
		t.Errorf("%d messages, want %d", len(got), rounds)
	}
}

// TestLostWakeUpIsMadeUpFor makes events visible without telling anybody, while
// the webhook is held and idle.
func TestLostWakeUpIsMadeUpFor(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{})
	rc := newReceiver(t, nil)
	testkit.Must(b.store.Create(t.Context(), workspace, rc.URL, []string{"all"}))(t)
	e, _ := b.engine(func(c *Config) { c.Sweep, c.Idle = 20*time.Millisecond, time.Hour })
	b.append("invoice.reversed", 1)
	rc.wait(t, 1)
	for n := 2; n < 4; n++ {
		b.write(workspace, "invoice.reversed", 1)
		b.show(workspace)
		rc.wait(t, n)
		if lanes := e.desk.load().lanes; lanes != 1 {
			t.Errorf("%d webhooks are held", lanes)
		}
	}
}
