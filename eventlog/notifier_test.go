package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// newNotifier listens past a pooler, as programs do that have LEDGERFEED_LISTEN_DATABASE_URL.
func newNotifier(pool testkit.DB) *eventlog.Notifier {
	n := eventlog.NewNotifier(pool, testkit.Discard())
	if pool != nil && testkit.Pooled() {
		if cfg, err := pg.ConnConfig(testkit.Direct(pool.Config().ConnString()), nil); err == nil {
			n.ListenAt(cfg)
		}
	}
	return n
}

// process stands for one process: its pool, notifier and log.
type process struct {
	pool     testkit.DB
	notifier *eventlog.Notifier
	log      *eventlog.Log
}

func newProcess(t *testing.T, url string) *process {
	t.Helper()
	p := &process{pool: wide(t, url, 4)}
	p.notifier = newNotifier(p.pool)
	testkit.AnyClock(t, p.pool)
	p.log = newLog(t, eventlog.Config{Pool: p.pool, Clock: testkit.NewClock(noon).Now, Notify: p.notifier.Notify})
	return p
}

// run runs the notifier, and returns once it hears of others in all of its ways, which it
// shows by a notification that anything may have changed.
func (p *process) run(t *testing.T) {
	t.Helper()
	sub, done := p.notifier.Subscribe(eventlog.TopicProjected)
	defer done()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.notifier.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
	p.connected(t)
	if _, all := taken(t, sub); !all {
		t.Fatal("listening does not begin with a sweep")
	}
}

// connected waits until the notifier hears of others.
func (p *process) connected(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, func() error {
		if l := p.notifier.Listening(); !l.Connected {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})
}

// between is two processes between which notifications go in one of the ways.
type between struct {
	a, b *process
	lose func() // interrupts the way, which comes back
}

// overListen runs a test with two processes that both listen.
func overListen(t *testing.T, test func(t *testing.T, p between)) {
	t.Helper()
	t.Run("LISTEN", func(t *testing.T) {
		t.Parallel()
		url := testkit.NewDatabase(t)
		p := between{a: newProcess(t, url), b: newProcess(t, url)}
		p.lose = func() {
			var killed int
			err := p.a.pool.QueryRow(t.Context(), `
				SELECT count(*) FROM (SELECT pg_terminate_backend(pid, 5000) AS gone FROM pg_stat_activity
				 WHERE datname = current_database() AND query LIKE 'LISTEN%') AS k WHERE gone`).Scan(&killed)
			if err != nil || killed != 2 {
				t.Fatalf("%d listeners killed, error %v", killed, err)
			}
		}
		test(t, p)
	})
}

// taken waits for a notification.
func taken(t *testing.T, w *eventlog.Subscription) (ids []string, all bool) {
	t.Helper()
	testkit.Receive(t, w.C, "a notification")
	ids, all = w.Take()
	slices.Sort(ids)
	return ids, all
}

func TestNotifyInsideTheProcess(t *testing.T) {
	t.Parallel()
	notifier := newNotifier(nil) // without Run the database is not asked
	a, doneA := notifier.Subscribe(eventlog.TopicAppended)
	b, doneB := notifier.Subscribe(eventlog.TopicAppended)
	other, doneOther := notifier.Subscribe(eventlog.TopicProjected)
	defer doneB()
	defer doneOther()
	notifier.Notify(eventlog.TopicAppended, "w", "x")
	notifier.Notify(eventlog.TopicAppended, "w", "y")
	for _, sub := range []*eventlog.Subscription{a, b} {
		if ids, all := taken(t, sub); all || !slices.Equal(ids, []string{"w", "x", "y"}) {
			t.Errorf("notified of %v, all %v", ids, all)
		}
		if ids, all := sub.Take(); len(ids) > 0 || all {
			t.Errorf("notified again: %v, all %v", ids, all)
		}
	}
	doneA()
	notifier.Notify(eventlog.TopicAppended, "z")
	notifier.Notify(eventlog.TopicAppended)
	if ids, _ := taken(t, b); !slices.Equal(ids, []string{"z"}) {
		t.Errorf("notified of %v", ids)
	}
	for name, sub := range map[string]*eventlog.Subscription{"that has ended": a, "to another topic": other} {
		select {
		case <-sub.C:
			t.Errorf("the subscription %s was notified", name)
		default:
		}
	}
}

// TestNotifyAcrossProcesses: an append in one process notifies another, whether it is
// a single one, a batch or in the caller's own transaction.
func TestNotifyAcrossProcesses(t *testing.T) {
	t.Parallel()
	overListen(t, notifyAcrossProcesses)
}

func notifyAcrossProcesses(t *testing.T, p between) {
	a, b := p.a, p.b
	a.run(t)
	b.run(t)
	sub, done := b.notifier.Subscribe(eventlog.TopicAppended)
	defer done()
	for _, how := range []string{"single", "batch", "transaction"} {
		var err error
		switch how {
		case "single":
			_, err = a.log.Append(t.Context(), client(t, how, "1", "n"))
		case "batch":
			_, err = a.log.Append(t.Context(), client(t, how, "1", "n"), client(t, how, "2", "n"))
		case "transaction":
			tx, txErr := a.pool.Begin(t.Context())
			if txErr != nil {
				t.Fatal(txErr)
			}
			if _, err = a.log.AppendTx(t.Context(), tx, client(t, how, "1", "n")); err != nil {
				t.Fatal(err)
			}
			err = tx.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if ids, _ := taken(t, sub); !slices.Equal(ids, []string{how}) {
			t.Errorf("%s notified of %v", how, ids)
		}
	}
}

// TestFollowAcrossProcesses: a follower hears of each entry by a notification, without a
// sweep.
func TestFollowAcrossProcesses(t *testing.T) {
	t.Parallel()
	overListen(t, followAcrossProcesses)
}

func followAcrossProcesses(t *testing.T, p between) {
	a, b := p.a, p.b
	a.run(t)
	b.run(t)
	b.notifier.SweepEvery(time.Hour)
	seen := follower(t, b.log, b.notifier, "w", 0)
	for i := range int64(20) {
		if _, err := a.log.Append(t.Context(), client(t, "w", fmt.Sprint(i), "n")); err != nil {
			t.Fatal(err)
		}
		expect(t, seen, i+1)
	}
}

// TestManyWorkspacesInOneNotification: more ids than one NOTIFY can carry.
func TestManyWorkspacesInOneNotification(t *testing.T) {
	t.Parallel()
	overListen(t, manyWorkspacesInOneNotification)
}

func manyWorkspacesInOneNotification(t *testing.T, p between) {
	a, b := p.a, p.b
	b.run(t)
	sub, done := b.notifier.Subscribe(eventlog.TopicProjected)
	defer done()
	var want []string
	for i := range 500 {
		want = append(want, fmt.Sprintf("%s%03d", strings.Repeat("w", 61), i))
	}
	a.notifier.Notify(eventlog.TopicProjected, want...)
	if err := a.notifier.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for len(got) < len(want) {
		ids, _ := taken(t, sub)
		for _, id := range ids {
			got[id] = true
		}
	}
	for _, id := range want {
		if !got[id] {
			t.Fatalf("no notification of %s", id)
		}
	}
}

// TestLostListenerListensAgain: after the listening connection was lost, every
// subscriber sweeps once, and notifications come as before.
func TestLostListenerListensAgain(t *testing.T) {
	t.Parallel()
	overListen(t, lostListenerListensAgain)
}

func lostListenerListensAgain(t *testing.T, p between) {
	a, b := p.a, p.b
	a.run(t)
	b.run(t)
	sub, done := b.notifier.Subscribe(eventlog.TopicAppended)
	defer done()
	p.lose()
	if _, all := taken(t, sub); !all {
		t.Error("the new connection does not begin with a sweep")
	}
	a.connected(t)
	if _, err := a.log.Append(t.Context(), client(t, "w", "1", "n")); err != nil {
		t.Fatal(err)
	}
	if ids, _ := taken(t, sub); !slices.Equal(ids, []string{"w"}) {
		t.Errorf("notified of %v", ids)
	}
}

// TestASilentListenerListensAgain: a link that takes everything and delivers nothing does not end the
// wait for notifications by itself.
func TestASilentListenerListensAgain(t *testing.T) {
	t.Parallel()
	link, to := testkit.Link(t, testkit.NewDatabase(t))
	p := newProcess(t, to)
	p.notifier.QuietFor(50 * time.Millisecond)
	p.run(t)
	link.Silence()
	testkit.Eventually(t, func() error {
		if p.notifier.Stats().Interrupted == 0 {
			return errors.New("it still waits on the silent connection")
		}
		return nil
	})
	p.connected(t)
}

// TestNotifyWithoutDatabase: a notification that cannot be sent stops nothing.
func TestNotifyWithoutDatabase(t *testing.T) {
	t.Parallel()
	var logged testkit.Buffer
	pool := wide(t, testkit.NewDatabase(t), 4)
	n := eventlog.NewNotifier(pool, logged.Logger())
	pool.Close()
	n.Notify(eventlog.TopicAppended, "w")
	// Either this call or Notify's goroutine sends first, and fails.
	if err := n.Flush(t.Context()); err == nil {
		testkit.Eventually(t, func() error {
			if text := logged.String(); !strings.Contains(text, "cannot notify other processes") {
				return fmt.Errorf("the lost notification is no error: %s", text)
			}
			return nil
		})
	}
	if err := n.Flush(t.Context()); err != nil {
		t.Errorf("nothing to send: %v", err)
	}
}

// TestNothingToListenTo: a program ends when one of its parts ends by itself, so a Notifier that
// can receive nothing runs until it is told to stop.
func TestNothingToListenTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := eventlog.NewNotifier(nil, testkit.Discard())
		n.ListenAt(nil)
		ctx, stop := context.WithCancel(t.Context())
		ended := false
		go func() {
			if err := n.Run(ctx); err != nil {
				t.Error(err)
			}
			ended = true
		}()
		synctest.Wait()
		if ended {
			t.Error("it ended by itself")
		}
		stop()
		synctest.Wait()
		if !ended {
			t.Error("it did not stop")
		}
	})
}
