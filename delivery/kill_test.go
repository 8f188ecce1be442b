package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// Environment of a process of this test program that runs an engine and
// nothing else, so that it can be killed.
const (
	childURL = "DELIVERY_TEST_CHILD_URL"
	childCA  = "DELIVERY_TEST_CHILD_CA"
)

// full asks for the scale of the issue (about two minutes) instead of the
// everyday one: DELIVERY_TEST_FULL=1.
func full() bool { return os.Getenv("DELIVERY_TEST_FULL") != "" }

func childSettings(ca string) Settings {
	return Settings{CAFile: ca, Allow: loopback(), Timeout: 400 * time.Millisecond, Schedule: Schedule{50 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}}
}

// childEngine is the engine of such a process.
func childEngine(ctx context.Context, url, ca string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	logger := slog.New(slog.DiscardHandler)
	wake := eventlog.NewWake(pool, logger)
	go func() { _ = wake.Run(ctx) }()
	keyring, err := NewKeyring("0123456789abcdef")
	if err != nil {
		return err
	}
	e, err := New(Config{
		Pool: pool, Keyring: keyring, Wake: wake, Clock: time.Now, Logger: logger, Settings: childSettings(ca),
		Lease: 700 * time.Millisecond, Sweep: 50 * time.Millisecond,
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
	err := childEngine(ctx, url, os.Getenv(childCA))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child starts one; kill it.
func child(t *testing.T, url, ca string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childURL+"="+url, childCA+"="+ca)
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

// TestKilledLosesNothing kills one of two processes again and again while they
// deliver. Nothing may be lost, and what arrives twice is at most what was
// under way at each kill.
func TestKilledLosesNothing(t *testing.T) {
	t.Parallel()
	kills, webhooks, events := 8, 4, 1500
	if full() {
		kills, events = 100, 12500
	}
	b := setup(t, Settings{})
	receivers := make([]*receiver, webhooks)
	for i := range receivers {
		receivers[i] = newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			<-time.After(time.Millisecond)
			if n%50 == 0 {
				w.WriteHeader(http.StatusInternalServerError) // some have to be tried again
			}
		})
		must(b.store.Create(t.Context(), workspace, receivers[i].URL, []string{"all"}))(t)
	}
	url := b.pool.Config().ConnString()
	children := []*exec.Cmd{child(t, url, b.settings.CAFile), child(t, url, b.settings.CAFile)}
	for k := range kills {
		b.append("invoice.reversed", events/kills)
		want := events / kills * webhooks * k / 2
		eventually(t, func() error { // let it get somewhere
			if n := total(receivers); n < want {
				return fmt.Errorf("%d received, want %d", n, want)
			}
			return nil
		})
		c := children[k%2]
		_ = c.Process.Signal(syscall.SIGKILL)
		_ = c.Wait()
		children[k%2] = child(t, url, b.settings.CAFile)
	}
	sent := events / kills * kills
	deadline := time.Now().Add(3 * time.Minute)
	for {
		var unfinished, finished int
		err := b.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE state <> 'succeeded'), count(DISTINCT (webhook_id, position)) FROM webhook_delivery`).Scan(&unfinished, &finished)
		if err == nil && unfinished == 0 && finished == sent*webhooks {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d deliveries are recorded, %d of them not finished (%v)", finished, sent*webhooks, unfinished, err)
		}
		<-time.After(20 * time.Millisecond)
	}
	duplicates := 0
	for _, rc := range receivers {
		successes := map[string]int{}
		for i, r := range rc.all() {
			if (i+1)%50 != 0 {
				successes[r.eventID()]++
			}
		}
		if len(successes) != sent {
			t.Errorf("%d events arrived, want %d", len(successes), sent)
		}
		for _, n := range successes {
			duplicates += n - 1
		}
	}
	most := kills * webhooks * 10
	t.Logf("%d kills, %d deliveries, %d duplicates (at most %d)", kills, sent*webhooks, duplicates, most)
	if duplicates > most {
		t.Errorf("%d duplicates, at most %d were under way", duplicates, most)
	}
}

func total(list []*receiver) (n int) {
	for _, r := range list {
		r.mu.Lock()
		n += len(r.got)
		r.mu.Unlock()
	}
	return n
}

// TestSurvivesDatabaseRestarts stops and starts PostgreSQL under a running
// engine.
func TestSurvivesDatabaseRestarts(t *testing.T) {
	t.Parallel()
	restarts := 2
	if full() {
		restarts = 10
	}
	dir, err := os.MkdirTemp("/dev/shm", "delivery-restart-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	server := must(localpg.Open(t.Context(), localpg.Config{DataDir: dir, Throwaway: true}))(t)
	defer func() { _ = server.Close(context.WithoutCancel(t.Context())) }()
	url := server.URL()
	if _, err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	b := setupOn(t, must(pgxpool.New(t.Context(), url))(t), Settings{Timeout: time.Second, Schedule: Schedule{50 * time.Millisecond, 50 * time.Millisecond}})
	t.Cleanup(b.pool.Close)
	rc := newReceiver(t, func(_ int, _ http.ResponseWriter, _ *http.Request) { <-time.After(time.Millisecond) })
	w := must(b.store.Create(t.Context(), workspace, rc.URL, []string{"all"}))(t)
	const events = 3000
	b.append("invoice.reversed", events)
	_, stop := b.engine(func(c *Config) { c.Lease = 4 * time.Second })
	for i := range restarts {
		rc.wait(t, events*(i+1)/(restarts+2))
		if err := server.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		server = must(localpg.Open(t.Context(), localpg.Config{DataDir: dir, Throwaway: true}))(t)
		if server.URL() != url {
			t.Fatalf("the server came back at %s, was at %s", server.URL(), url)
		}
	}
	eventually(t, func() error {
		var n int
		err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_delivery WHERE webhook_id = $1 AND state = 'succeeded'`, w.ID).Scan(&n)
		if err == nil && n != events {
			err = fmt.Errorf("%d delivered, want %d", n, events)
		}
		return err
	})
	stop()
	seen := map[string]int{}
	for _, r := range rc.all() {
		seen[r.eventID()]++
	}
	if len(seen) != events {
		t.Errorf("%d events arrived, want %d", len(seen), events)
	}
	if extra := len(rc.all()) - events; extra > 10*restarts {
		t.Errorf("%d duplicates, at most %d were under way", extra, 10*restarts)
	}
}
