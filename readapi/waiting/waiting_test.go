package waiting_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/readapi/waiting"
)

// positions stands for the database.
type positions struct {
	mu    sync.Mutex
	at    map[string]int64
	reads [][]string
	fails bool
	held  chan struct{} // nil: a read is answered at once
}

func (p *positions) read(_ context.Context, ids []string) (map[string]int64, error) {
	found, held, err := p.look(ids)
	if held != nil {
		<-held
	}
	return found, err
}

func (p *positions) look(ids []string) (map[string]int64, chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails {
		return nil, nil, errors.New("away")
	}
	p.reads = append(p.reads, slices.Sorted(slices.Values(ids)))
	found := map[string]int64{}
	for _, id := range ids {
		found[id] = p.at[id]
	}
	return found, p.held, nil
}

// hold has reads answered with what they have found when the result is closed.
func (p *positions) hold() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = make(chan struct{})
	return p.held
}

func (p *positions) set(id string, position int64, fails bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[id], p.fails = position, fails
}

// taken returns the reads and forgets them.
func (p *positions) taken() [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	reads := p.reads
	p.reads = nil
	return reads
}

// inBubble runs a test in virtual time, with a Watcher that runs.
func inBubble(t *testing.T, test func(t *testing.T, p *positions, n *eventlog.Notifier, w *waiting.Watcher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &positions{at: map[string]int64{"a": 5, "b": 7}}
		n := eventlog.NewNotifier(nil, slog.New(slog.DiscardHandler))
		w := waiting.New(waiting.Config{Notifier: n, Read: p.read, ReadTimeout: time.Second, Logger: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		test(t, p, n, w)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// outcome is what a wait ended with, and when.
type outcome struct {
	position int64
	err      error
	after    time.Duration
}

func begin(do func() (int64, error)) <-chan outcome {
	out, began := make(chan outcome, 1), time.Now()
	go func() {
		position, err := do()
		out <- outcome{position, err, time.Since(began)}
	}()
	return out
}

// TestWaitsEnd: by a notification, at once if it was missed, by the sweep if it was lost,
// and by their time.
func TestWaitsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reach  bool // a position, rather than a move
		from   int64
		set    int64 // the position after a second; 0: none
		notify bool
		want   outcome
	}{
		"a notification":                  {from: 5, set: 6, notify: true, want: outcome{6, nil, time.Second}},
		"a move just before":              {from: 4, want: outcome{5, nil, 0}},
		"a log that went back":            {from: 5, set: 3, notify: true, want: outcome{3, nil, time.Second}},
		"a notification about nothing":    {from: 5, notify: true, want: outcome{0, context.DeadlineExceeded, 20 * time.Second}},
		"a lost notification":             {from: 5, set: 6, want: outcome{6, nil, 5 * time.Second}},
		"a position":                      {reach: true, from: 9, set: 10, notify: true, want: outcome{10, nil, time.Second}},
		"a position that is there":        {reach: true, from: 5, want: outcome{5, nil, 0}},
		"a position that is not reached":  {reach: true, from: 9, set: 8, notify: true, want: outcome{0, context.DeadlineExceeded, 20 * time.Second}},
		"a position without notification": {reach: true, from: 9, set: 9, want: outcome{9, nil, time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, p *positions, n *eventlog.Notifier, w *waiting.Watcher) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				out := begin(func() (int64, error) {
					if c.reach {
						return w.Reached(ctx, "a", c.from)
					}
					return w.Moved(ctx, "a", c.from)
				})
				<-time.After(time.Second)
				if c.set > 0 {
					p.set("a", c.set, false)
				}
				if c.notify {
					n.Notify(eventlog.TopicProjected, "a", "b")
				}
				got := <-out
				if got.position != c.want.position || !errors.Is(got.err, c.want.err) || got.after < c.want.after || got.after > c.want.after+time.Second {
					t.Errorf("%+v, want %+v", got, c.want)
				}
			})
		})
	}
}

// TestManyWaitsCostOneRead: those of one workspace share it, nobody reads where nobody
// waits, and a reading that fails is made up for.
func TestManyWaitsCostOneRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, p *positions, n *eventlog.Notifier, w *waiting.Watcher) {
		n.Notify(eventlog.TopicProjected, "a")
		synctest.Wait()
		if reads := p.taken(); len(reads) > 0 {
			t.Errorf("%v was read although nobody waits", reads)
		}
		var waits []<-chan outcome
		for range 1000 {
			waits = append(waits, begin(func() (int64, error) { return w.Moved(t.Context(), "a", 5) }))
		}
		waits = append(waits, begin(func() (int64, error) { return w.Moved(t.Context(), "b", 7) }))
		<-time.After(100 * time.Millisecond)
		p.taken()
		p.set("a", 6, true)
		n.Notify(eventlog.TopicProjected, "a", "c")
		<-time.After(100 * time.Millisecond)
		p.set("a", 6, false)
		n.Notify(eventlog.TopicProjected, "a", "c")
		for _, out := range waits[:1000] {
			if got := <-out; got.position != 6 || got.err != nil {
				t.Fatalf("%+v", got)
			}
		}
		if reads := p.taken(); len(reads) != 1 || !slices.Equal(reads[0], []string{"a"}) {
			t.Errorf("read %v", reads)
		}
		w.Drain()
		if got := <-waits[1000]; !errors.Is(got.err, waiting.ErrDrained) {
			t.Errorf("%+v", got)
		}
		if _, err := w.Moved(t.Context(), "b", 7); !errors.Is(err, waiting.ErrDrained) {
			t.Errorf("after draining: %v", err)
		}
	})
}

// TestASweepReadsOnce: where nothing happens, all positions are read every five seconds, and
// those that must be reached every second, however many wait.
func TestASweepReadsOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, p *positions, _ *eventlog.Notifier, w *waiting.Watcher) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		var waits []<-chan outcome
		for range 1000 {
			waits = append(waits, begin(func() (int64, error) { return w.Moved(ctx, "a", 5) }))
		}
		<-time.After(time.Second / 2)
		p.taken() // of the beginning
		<-time.After(50 * time.Second)
		if reads := p.taken(); len(reads) != 10 {
			t.Errorf("%d reads in 50 seconds for what may move", len(reads))
		}
		waits = append(waits, begin(func() (int64, error) { return w.Reached(ctx, "b", 9) }))
		<-time.After(time.Millisecond)
		p.taken()
		<-time.After(20 * time.Second)
		if reads := p.taken(); len(reads) != 20 {
			t.Errorf("%d reads in 20 seconds for what must be reached", len(reads))
		}
		for _, out := range waits {
			if got := <-out; !errors.Is(got.err, context.DeadlineExceeded) {
				t.Fatalf("%+v", got)
			}
		}
	})
}

// TestAReadThatBeganBefore: a wait that has joined while positions were being read may know
// of a later one, and is not woken by what they were.
func TestAReadThatBeganBefore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, p *positions, n *eventlog.Notifier, w *waiting.Watcher) {
		read := p.hold()
		first := begin(func() (int64, error) { return w.Moved(t.Context(), "a", 4) })
		<-time.After(100 * time.Millisecond) // position 5 was read, and is not known yet
		p.set("a", 6, false)
		second := begin(func() (int64, error) { return w.Moved(t.Context(), "a", 6) })
		synctest.Wait()
		close(read)
		if got := <-first; got.position != 5 {
			t.Errorf("the first: %+v", got)
		}
		<-time.After(100 * time.Millisecond)
		p.set("a", 7, false)
		n.Notify(eventlog.TopicProjected, "a")
		if got := <-second; got.position != 7 {
			t.Errorf("one that knew of 6: %+v", got)
		}
	})
}

// TestBounds: each bound holds by itself, and what has left makes room.
func TestBounds(t *testing.T) {
	t.Parallel()
	b := waiting.NewBounds(waiting.Limits{Process: 5, HTTP1: 2, PerWorkspace: 3, PerWorkspaceHTTP1: 1, PerKey: 2})
	enter := func(workspace, key string, http1, want bool) func() {
		t.Helper()
		leave, ok := b.Enter(workspace, key, http1)
		if ok != want {
			t.Errorf("%s of %s over HTTP/1 %v: %v", key, workspace, http1, ok)
		}
		return leave
	}
	first := enter("a", "k1", true, true)
	enter("a", "k1", false, true)
	enter("a", "k1", false, false) // of the key
	enter("a", "k2", true, false)  // of the workspace over HTTP/1
	enter("b", "k1", true, true)   // a key of another workspace
	enter("c", "k2", true, false)  // over HTTP/1
	enter("a", "k2", false, true)
	enter("a", "k3", false, false) // of the workspace
	enter("c", "k1", false, true)
	enter("d", "k1", false, false) // of the process
	if b.Open() != 5 {
		t.Errorf("%d are open", b.Open())
	}
	first()
	first() // counts once
	enter("a", "k1", true, true)
	enter("d", "k1", false, false)

	// However few workspaces take all that they may, one that has nothing finds a place.
	b = waiting.NewBounds(waiting.Limits{Process: 16, HTTP1: 8, PerWorkspace: 16, PerWorkspaceHTTP1: 8, PerKey: 16})
	for n := range 14 {
		enter("a", "k1", n < 7, true)
	}
	enter("a", "k2", false, false)
	enter("a", "k2", true, false)
	enter("b", "k1", true, true)
	enter("b", "k1", false, false)
	enter("c", "k1", false, true)
	enter("d", "k1", false, false)
}
