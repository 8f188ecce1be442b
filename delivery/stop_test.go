package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestStopFinishesWhatIsUnderWay stops dispatchers repeatedly while they deliver:
// no message is sent twice or lost, and no goroutine is left.
func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) { testkit.TakeTime(r, 2*time.Millisecond) })
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	const events = 400
	ids := b.append("invoice.reversed", events)
	for round := 1; round <= 4; round++ {
		ignore := goleak.IgnoreCurrent()
		_, stop := b.dispatcher()
		rc.Wait(t, events*round/5)
		stop()
		rc.CloseClientConnections()
		if err := goleak.Find(ignore, goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck"),
			goleak.IgnoreAnyFunction("net/http.(*conn).serve"), goleak.IgnoreAnyFunction("net/http.(*http2serverConn).serve")); err != nil {
			t.Error(err)
		}
		var held int
		if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_instance`).Scan(&held); err != nil || held != 0 {
			t.Errorf("%d leases are left, %v", held, err)
		}
	}
	b.dispatcher()
	got := rc.Wait(t, events)
	want := make([]policy.State, events)
	for i := range want {
		want[i] = policy.Succeeded
	}
	b.states(w.ID, want...)
	if n := len(rc.All()); n != events || len(got) != len(ids) {
		t.Errorf("%d messages, want %d", n, events)
	}
}

// TestLostLeaseIsReplaced takes the lease of a running dispatcher away.
func TestLostLeaseIsReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Timeout: 4 * time.Second})
	rc := testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.dispatcher(func(c *dispatch.Config) { c.Lease, c.Sweep = 8*time.Second, 50*time.Millisecond })
	sent := 0
	for range 5 {
		b.append("invoice.reversed", 20)
		sent += 20
		if _, err := b.pool.Exec(t.Context(), `DELETE FROM webhook_instance`); err != nil {
			t.Fatal(err)
		}
		b.append("invoice.reversed", 20)
		sent += 20
		testkit.Eventually(t, func() error {
			var n int
			var failed string
			err := b.pool.QueryRow(t.Context(), `
				SELECT count(DISTINCT position) FILTER (WHERE state = 'succeeded'),
				       coalesce(string_agg(DISTINCT attempts->-1->>'error', '; ') FILTER (WHERE state <> 'succeeded'), '')
				  FROM webhook_delivery WHERE webhook_id = $1`, w.ID).Scan(&n, &failed)
			if err == nil && n != sent {
				err = fmt.Errorf("%d delivered, want %d; attempts failed: %q", n, sent, failed)
			}
			return err
		})
	}
	if extra := len(rc.All()) - sent; extra > 5*10 {
		t.Errorf("%d duplicates after 5 lost leases, at most 50 were under way", extra)
	}
}

// TestUnopenedSecretPauses: of a webhook whose secret is sealed under a key that the process
// does not have, such as one that was lost, nothing is sent, and nothing counts as a failure of
// the receiver.
func TestUnopenedSecretPauses(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	other := testkit.Must(keyring.New("another key than the first"))(t)
	seal := func(under *keyring.Keyring) {
		t.Helper()
		testkit.AsOwner(t, b.pool, `UPDATE webhook SET secret = $2 WHERE webhook_id = $1`, w.ID, under.Seal(workspace, w.ID, w.Secret))
	}
	seal(other)
	log := &logBook{}
	_, stop := b.dispatcher(func(c *dispatch.Config) { c.Logger = slog.New(log) })
	b.append("invoice.reversed", 3)
	testkit.Eventually(t, func() error {
		if len(log.lines("cannot attempt a delivery; pausing its webhook")) < 2 { // and is tried again
			return errors.New("nothing was said about it")
		}
		return nil
	})
	stop()
	if got := testkit.Must(b.store.Get(t.Context(), w.ID))(t); len(rc.All()) != 0 || !got.FailingSince.IsZero() {
		t.Errorf("%d messages, failing since %v", len(rc.All()), got.FailingSince)
	}
	seal(b.keyring)
	b.dispatcher()
	rc.Wait(t, 3)
	b.states(w.ID, policy.Succeeded, policy.Succeeded, policy.Succeeded)
}

// logBook keeps what is logged.
type logBook struct {
	mu      sync.Mutex
	records []slog.Record
}

func (l *logBook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logBook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logBook) WithGroup(string) slog.Handler            { return l }
func (l *logBook) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	return nil
}

// lines are the attributes of every line with the message.
func (l *logBook) lines(message string) (list []map[string]slog.Value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r.Message != message {
			continue
		}
		attrs := map[string]slog.Value{}
		r.Attrs(func(a slog.Attr) bool { attrs[a.Key] = a.Value; return true })
		list = append(list, attrs)
	}
	return list
}

// TestOneWideLineForEachAttempt reads the log of an attempt that fails and of
// one that succeeds.
func TestOneWideLineForEachAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{time.Millisecond}})
	rc := testkit.NewReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	log := &logBook{}
	b.dispatcher(func(c *dispatch.Config) { c.Logger = slog.New(log) })
	id := b.append("invoice.reversed", 1)[0]
	b.states(w.ID, policy.Succeeded)
	lines := log.lines("webhook attempt")
	if len(lines) != 2 {
		t.Fatalf("%d lines for 2 attempts", len(lines))
	}
	for i, want := range []map[string]string{
		{"attempt": "1", "outcome": "answered", "status": "503", "error": "answered 503 (Service Unavailable)"},
		{"attempt": "2", "outcome": "success", "status": "200", "error": ""},
	} {
		want["workspace"], want["webhook"], want["event"], want["type"], want["position"] = workspace, w.ID, id, "invoice.reversed", "1"
		want["host"] = strings.TrimPrefix(rc.URL, "https://")
		for k, v := range want {
			if got := lines[i][k].String(); got != v {
				t.Errorf("line %d: %s is %q, want %q", i+1, k, got, v)
			}
		}
		if d := lines[i]["duration"].Duration(); d <= 0 || d > time.Minute || lines[i]["age"].Duration() < 0 {
			t.Errorf("line %d: %v", i+1, lines[i])
		}
	}
}

// TestStatusAndMetrics reads the status and the metrics of a backlog.
func TestStatusAndMetrics(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	rc.Answer(http.StatusInternalServerError)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.append("invoice.reversed", 5)
	lag := b.status()
	if len(lag) != 1 || lag[0].Entries != 5 || lag[0].Held || lag[0].WebhookID != w.ID {
		t.Errorf("status %+v", lag)
	}
	registry := prometheus.NewRegistry()
	b.dispatcher(func(c *dispatch.Config) { c.Metrics = registry })
	b.states(w.ID, policy.Pending, policy.Pending, policy.Pending, policy.Pending, policy.Pending)
	testkit.Eventually(t, func() error {
		lag := b.status()
		if lag[0].Entries != 0 || lag[0].Waiting != 5 || !lag[0].Held {
			return fmt.Errorf("status %+v", lag)
		}
		return nil
	})
	found := map[string]float64{}
	testkit.Eventually(t, func() error { // cursors behind are as the last sweep saw them
		gauges(t, registry, found)
		if found["ledgerfeed_webhook_cursors_behind"] != 0 {
			return fmt.Errorf("metrics %v", found)
		}
		return nil
	})
	if found["ledgerfeed_webhook_attempts_total"] != 5 || found["ledgerfeed_webhooks_held"] != 1 || found["ledgerfeed_webhook_lag_seconds"] != 0 {
		t.Errorf("metrics %v", found)
	}
	for _, name := range []string{"ledgerfeed_webhook_under_way", "ledgerfeed_webhooks_waiting_for_a_turn"} {
		if _, ok := found[name]; !ok {
			t.Errorf("%s is missing: metrics %v", name, found)
		}
	}
}

// gauges finds the gauges, and the counters of answered attempts.
func gauges(t *testing.T, registry *prometheus.Registry, found map[string]float64) {
	t.Helper()
	for _, f := range testkit.Must(registry.Gather())(t) {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == "answered" {
					found[f.GetName()] = m.GetCounter().GetValue()
				}
			}
			if m.GetGauge() != nil {
				found[f.GetName()] = m.GetGauge().GetValue()
			}
		}
	}
}

// gauge is the value of one gauge.
func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	found := map[string]float64{}
	gauges(t, registry, found)
	return found[name]
}

// TestRareTypesAreFoundInALongLog: many entries are not for the webhook.
func TestRareTypesAreFoundInALongLog(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"charge.deleted"}}))(t)
	b.append("invoice.reversed", 3000)
	id := b.append("charge.deleted", 1)[0]
	b.append("time_entry.approved", 500)
	_, stop := b.dispatcher(func(c *dispatch.Config) { c.Idle = 10 * time.Millisecond })
	if got := rc.Wait(t, 1); got[0].Header.Get("Service-Event-Id") != id {
		t.Errorf("got %s", got[0].Header.Get("Service-Event-Id"))
	}
	testkit.Eventually(t, func() error { // released, with its cursor at the end
		var done bool
		err := b.pool.QueryRow(t.Context(), `SELECT position = 3501 AND holder IS NULL FROM webhook_cursor WHERE webhook_id = $1`, w.ID).Scan(&done)
		if err == nil && !done {
			err = errors.New("the cursor is not at the end, or still held")
		}
		return err
	})
	b.append("charge.deleted", 1)
	rc.Wait(t, 2)
	stop()
}

// TestConfigIsChecked: a Config that cannot work is refused.
func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	if _, err := dispatch.New(dispatch.Config{}); err == nil {
		t.Error("an empty Config was taken")
	}
	b := setup(t, policy.Settings{})
	base := dispatch.Config{Pool: b.pool, Keyring: b.keyring, Notifier: b.notifier, Clock: time.Now, Logger: b.logger}
	for name, change := range map[string]func(*dispatch.Config){
		"a lease that is too short": func(c *dispatch.Config) { c.Lease = 5 * time.Second },
		"a missing CA file":         func(c *dispatch.Config) { c.Settings.CAFile = "/nowhere" },
		"a negative timeout":        func(c *dispatch.Config) { c.Settings.Timeout = -1 },
	} {
		cfg := base
		change(&cfg)
		if _, err := dispatch.New(cfg); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	e := testkit.Must(dispatch.New(base))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Run(ctx); err != nil {
		t.Errorf("run with an ended context: %v", err)
	}
}

// TestOrphansAreFreed claims a webhook in the dispatcher's name that it does not
// know of, as after a claim whose answer was lost.
func TestOrphansAreFreed(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Timeout: 4 * time.Second})
	rc := testkit.NewReceiver(t, nil)
	registry := prometheus.NewRegistry()
	b.dispatcher(func(c *dispatch.Config) { c.Lease, c.Sweep, c.Metrics = 8*time.Second, 50*time.Millisecond, registry })
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	testkit.Eventually(t, func() error {
		var id string
		err := b.pool.QueryRow(t.Context(), `SELECT instance_id FROM webhook_instance`).Scan(&id)
		if err == nil {
			_, err = b.pool.Exec(t.Context(), `UPDATE webhook_cursor SET holder = $1 WHERE webhook_id = $2`, id, w.ID)
		}
		return err
	})
	b.append("invoice.reversed", 1)
	rc.Wait(t, 1)
	if held := gauge(t, registry, "ledgerfeed_webhooks_held"); held != 1 {
		t.Errorf("%v webhooks are held", held)
	}
}
