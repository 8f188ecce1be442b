package delivery_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// Environment of a process of this test program that runs a dispatcher and
// nothing else, so that it can be killed.
const (
	childURL   = "DELIVERY_TEST_CHILD_URL"
	childCA    = "DELIVERY_TEST_CHILD_CA"
	childLease = "DELIVERY_TEST_CHILD_LEASE"
	childKeys  = "DELIVERY_TEST_CHILD_KEYS"

	// marked makes a process known by its lease, which names its keys.
	marked = childKeys + "=0123456789abcdef,the key that marks it"
)

// childSettings has twelve retries within half a minute, in place of seven within days. A
// process that is killed or stands still for a while costs a delivery some of them.
func childSettings(ca string) policy.Settings {
	schedule := policy.Schedule{50 * time.Millisecond}
	for len(schedule) < 12 {
		schedule = append(schedule, min(2*schedule[len(schedule)-1], 3200*time.Millisecond))
	}
	return policy.Settings{CAFile: ca, Allow: testkit.Loopback(), Timeout: 800 * time.Millisecond, Schedule: schedule}
}

// childDispatcher is the dispatcher of such a process.
func childDispatcher(ctx context.Context, url, ca, secretKeys string, lease time.Duration) error {
	pool, err := pg.Open(ctx, url, pg.Options{})
	if err != nil {
		return err
	}
	defer pool.Close()
	logger := slog.New(slog.DiscardHandler)
	notifier := eventlog.NewNotifier(pool, logger)
	go func() { _ = notifier.Run(ctx) }()
	keys, err := keyring.New(cmp.Or(secretKeys, "0123456789abcdef"))
	if err != nil {
		return err
	}
	e, err := dispatch.New(dispatch.Config{
		Pool: pool, Keyring: keys, Notifier: notifier, Clock: time.Now, Logger: logger, Settings: childSettings(ca),
		Lease: lease, Sweep: 50 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	return e.Run(ctx)
}

// runChildIfAsked is called by TestMain.
func runChildIfAsked() {
	url := os.Getenv(childURL)
	if url == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	lease, err := time.ParseDuration(os.Getenv(childLease))
	if err == nil {
		err = childDispatcher(ctx, url, os.Getenv(childCA), os.Getenv(childKeys), lease)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// dispatcherChild starts a dispatcher in another process; the test kills it.
func (b *bench) dispatcherChild(lease time.Duration, env ...string) *exec.Cmd {
	b.t.Helper()
	t := b.t
	c := testkit.Child(append(env, childURL+"="+b.pool.Config().ConnString(), childCA+"="+b.settings.CAFile, childLease+"="+lease.String())...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

// TestKilledLosesNothing kills one of two processes repeatedly while they deliver.
// No message may be lost, and no more may arrive twice than were under way at the
// kills.
func TestKilledLosesNothing(t *testing.T) {
	t.Parallel()
	kills, webhooks, events := testkit.Scale(8, 100), 4, testkit.Scale(1500, 12_500)
	b := setup(t, policy.Settings{})
	receivers := make([]*testkit.Receiver, webhooks)
	for i := range receivers {
		receivers[i] = testkit.NewReceiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
			testkit.TakeTime(r, time.Millisecond)
			if n%50 == 0 {
				w.WriteHeader(http.StatusInternalServerError) // some have to be tried again
			}
		})
		testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: receivers[i].URL, Events: []string{"all"}}))(t)
	}
	const lease = 1300 * time.Millisecond
	children := []*exec.Cmd{b.dispatcherChild(lease), b.dispatcherChild(lease)}
	var appended []string
	for k := range kills {
		appended = append(appended, b.append("invoice.reversed", events/kills)...)
		want := events / kills * webhooks * k / 2
		testkit.Eventually(t, func() error { // let it get somewhere
			if n := total(receivers); n < want {
				return fmt.Errorf("%d received, want %d", n, want)
			}
			return nil
		})
		c := children[k%2]
		_ = c.Process.Signal(syscall.SIGKILL)
		_ = c.Wait()
		children[k%2] = b.dispatcherChild(lease)
	}
	sent := events / kills * kills
	testkit.Within(t, 3*time.Minute, func() error {
		var unfinished, finished int
		err := b.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE state <> 'succeeded'), count(DISTINCT (webhook_id, position)) FROM webhook_delivery`).Scan(&unfinished, &finished)
		if err == nil && (unfinished != 0 || finished != sent*webhooks) {
			err = fmt.Errorf("%d of %d deliveries are recorded, %d of them not finished", finished, sent*webhooks, unfinished)
		}
		return err
	})
	duplicates := 0
	for _, rc := range receivers {
		successes := map[string]int{}
		for i, r := range rc.All() {
			if (i+1)%50 != 0 {
				successes[r.Header.Get("Service-Event-Id")]++
			}
		}
		if got := inLogOrder(t, rc.All()); !slices.Equal(got, appended) {
			t.Errorf("%d events came by their positions, want %d in log order", len(got), sent)
		}
		if len(successes) != sent {
			t.Errorf("%d events arrived, want %d", len(successes), sent)
		}
		for _, n := range successes {
			duplicates += n - 1
		}
	}
	// A process that did not run for longer than its lease counts as killed. A message
	// whose answer came after the timeout is sent again by the schedule.
	var leases, unanswered int
	err := b.pool.QueryRow(t.Context(), `
		SELECT (SELECT count(*) FROM webhook_instance),
		       (SELECT count(*) FROM webhook_delivery, jsonb_array_elements(attempts) a WHERE a->>'status' IS NULL)`).Scan(&leases, &unanswered)
	if err != nil {
		t.Fatal(err)
	}
	ended := max(kills, leases-len(children))
	most := ended*webhooks*10 + unanswered
	t.Logf("%d kills, %d leases that ended, %d deliveries, %d attempts without an answer in time, %d duplicates (at most %d)",
		kills, ended, sent*webhooks, unanswered, duplicates, most)
	if duplicates > most {
		t.Errorf("%d duplicates, at most %d were under way", duplicates, most)
	}
}

func total(list []*testkit.Receiver) (n int) {
	for _, r := range list {
		n += r.Count()
	}
	return n
}

// TestTakenOverWithinTheLease kills one of two and one of four processes, which had renewed
// its lease, and appends an event for every webhook. The others leave the dead one's webhooks
// alone while its lease lasts, which is three quarters of the configured one. They have taken
// them over before any of them renews its own lease, an eighth of that, for the third time
// after that: by then the configured time is over.
func TestTakenOverWithinTheLease(t *testing.T) {
	t.Parallel()
	const spaces = 12
	lease := time.Duration(testkit.Scale(8, 24)) * time.Second
	for _, processes := range []int{2, 4} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			t.Parallel()
			b := setup(t, policy.Settings{})
			rc := testkit.NewReceiver(t, nil)
			all, sent := b.oneForEach(rc, spaces)
			victim := b.dispatcherChild(lease, marked)
			for range processes - 1 {
				b.dispatcherChild(lease)
			}
			testkit.Eventually(t, func() error { // each has its share
				all()
				var holders, least int
				err := b.pool.QueryRow(t.Context(), `SELECT count(*), coalesce(min(n), 0) FROM (
					SELECT count(*) AS n FROM webhook_cursor WHERE holder IS NOT NULL GROUP BY holder) h`).Scan(&holders, &least)
				if err == nil && (holders != processes || least < spaces/processes-1) {
					err = fmt.Errorf("%d of %d processes hold webhooks, one of them %d", holders, processes, least)
				}
				return err
			})
			_ = victim.Process.Signal(syscall.SIGKILL)
			_ = victim.Wait()
			left := b.leftBehind(lease)
			for i := range spaces {
				b.appendTo(fmt.Sprintf("w%d", i), "invoice.reversed", 1)
				*sent++
			}
			b.takenOver(left)
			rc.Wait(t, *sent)
			if extra := rc.Count() - *sent; extra > 10*spaces/processes+10 {
				t.Errorf("%d messages more than events", extra)
			}
		})
	}
}

// estate is what a dead process has left: its lease, and webhooks, by name.
type estate struct {
	lease    string
	webhooks []string
}

// leftBehind reads the estate of the process with a second key, which is dead.
func (b *bench) leftBehind(lease time.Duration) (e estate) {
	b.t.Helper()
	var lasts bool
	err := b.pool.QueryRow(b.t.Context(), `
		SELECT i.instance_id, i.lease_until - clock_timestamp() <= $1,
		       (SELECT array_agg(c.webhook_id) FROM webhook_cursor c WHERE c.holder = i.instance_id)
		  FROM webhook_instance i WHERE cardinality(i.secret_keys) = 2 ORDER BY i.lease_until DESC LIMIT 1`, lease*3/4).Scan(&e.lease, &lasts, &e.webhooks)
	if err != nil {
		b.t.Fatal(err)
	}
	if !lasts {
		b.t.Errorf("the dead process's lease lasts longer than three quarters of %v", lease)
	}
	if len(e.webhooks) == 0 {
		b.t.Fatal("the dead process held no webhooks")
	}
	return e
}

// takenOver waits until others hold the webhooks that a dead process has left, and fails the
// test if they come too early or too late. It asks the database alone, so that it does not
// matter how fast the machine is.
func (b *bench) takenOver(e estate) {
	b.t.Helper()
	ends := map[string]time.Time{} // of the others' leases, as last seen
	renewals := map[string]int{}   // that were seen since the dead one's lease is over
	testkit.Eventually(b.t, func() error {
		var lasts bool
		var held int
		var names []string
		var until []time.Time
		err := b.pool.QueryRow(b.t.Context(), `
			SELECT (SELECT lease_until > clock_timestamp() FROM webhook_instance WHERE instance_id = $1),
			       (SELECT count(*) FROM webhook_cursor WHERE webhook_id = ANY ($2) AND holder = $1),
			       array_agg(instance_id), array_agg(lease_until) FROM webhook_instance WHERE instance_id <> $1`, e.lease, e.webhooks).Scan(&lasts, &held, &names, &until)
		if err != nil {
			return err
		}
		if lasts && held < len(e.webhooks) {
			b.t.Fatalf("%d of %d webhooks were taken from a process whose lease lasts", len(e.webhooks)-held, len(e.webhooks))
		}
		for i, name := range names {
			if before, known := ends[name]; known && !lasts && until[i].After(before) {
				renewals[name]++
			}
			ends[name] = until[i]
			if held > 0 && renewals[name] > 2 {
				b.t.Fatalf("%d webhooks are still the dead process's, and another one has renewed its lease %d times since", held, renewals[name])
			}
		}
		if held > 0 {
			return fmt.Errorf("%d webhooks are still the dead process's", held)
		}
		return nil
	})
}

// throwawayServer starts a PostgreSQL that a test can stop, with the schema.
func throwawayServer(t *testing.T) (dir string, server *localpg.Server) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "delivery-restart-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	server = testkit.Must(localpg.Open(t.Context(), localpg.Config{DataDir: dir, Throwaway: true}))(t)
	if _, err := migrations.Up(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	return dir, server
}

// TestBeginsWithoutADatabase: a dispatcher whose database is away when it begins delivers as soon
// as it is there.
func TestBeginsWithoutADatabase(t *testing.T) {
	t.Parallel()
	dir, server := throwawayServer(t)
	defer func() { _ = server.Close(context.WithoutCancel(t.Context())) }()
	b := setupOn(t, testkit.Must(pg.Open(t.Context(), server.URL(), pg.Options{}))(t), policy.Settings{})
	t.Cleanup(b.pool.Close)
	rc := testkit.NewReceiver(t, nil)
	testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.append("invoice.reversed", 1)
	b.dispatcher(func(c *dispatch.Config) {
		c.Renew = 200 * time.Millisecond
		if err := server.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	server = testkit.Must(localpg.Open(t.Context(), localpg.Config{DataDir: dir, Throwaway: true}))(t)
	rc.Wait(t, 1)
}

// TestSurvivesDatabaseRestarts stops and starts PostgreSQL under a running
// dispatcher.
func TestSurvivesDatabaseRestarts(t *testing.T) {
	t.Parallel()
	restarts, webhooks, events := testkit.Scale(2, 10), testkit.Scale(2, 5), testkit.Scale(1500, 10_000)
	dir, server := throwawayServer(t)
	defer func() { _ = server.Close(context.WithoutCancel(t.Context())) }()
	url := server.URL()
	// An attempt that a busy machine cuts off is sent again, and no restart accounts for it.
	b := setupOn(t, testkit.Must(pg.Open(t.Context(), url, pg.Options{}))(t), policy.Settings{Timeout: 30 * time.Second, Schedule: policy.Schedule{50 * time.Millisecond, 50 * time.Millisecond}})
	t.Cleanup(b.pool.Close)
	rc := testkit.NewReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) { testkit.TakeTime(r, time.Millisecond) })
	for i := range webhooks {
		testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: fmt.Sprintf("%s/%d", rc.URL, i), Events: []string{"all"}}))(t)
	}
	b.append("invoice.reversed", events)
	sent := webhooks * events
	// The lease is over with each restart, however long it is. A short one may also be over because
	// the machine is busy, and then messages are sent again that no restart accounts for.
	_, stop := b.dispatcher(func(c *dispatch.Config) { c.Lease = time.Minute })
	for i := range restarts {
		rc.Wait(t, sent*(i+1)/(restarts+2))
		if err := server.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		server = testkit.Must(localpg.Open(t.Context(), localpg.Config{DataDir: dir, Throwaway: true}))(t)
		if server.URL() != url {
			t.Fatalf("the server came back at %s, was at %s", server.URL(), url)
		}
	}
	testkit.Within(t, 3*time.Minute, func() error {
		var n int
		err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_delivery WHERE state = 'succeeded'`).Scan(&n)
		if err == nil && n != sent {
			err = fmt.Errorf("%d delivered, want %d", n, sent)
		}
		return err
	})
	stop()
	seen := map[string]int{}
	for _, r := range rc.All() {
		seen[r.Header.Get("Service-Delivery-Id")]++
	}
	if len(seen) != sent {
		t.Errorf("%d deliveries arrived, want %d", len(seen), sent)
	}
	extra := rc.Count() - sent
	var failed int
	if err := b.pool.QueryRow(t.Context(), `SELECT coalesce(sum(jsonb_array_length(attempts) - 1), 0) FROM webhook_delivery`).Scan(&failed); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d restarts, %d deliveries, %d duplicates (at most %d), %d failed attempts", restarts, sent, extra, 10*webhooks*restarts, failed)
	if extra > 10*webhooks*restarts {
		t.Errorf("%d duplicates, at most %d were under way", extra, 10*webhooks*restarts)
	}
}
