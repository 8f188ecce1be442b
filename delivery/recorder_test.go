package delivery

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestWhenResultsAreRecorded: each statement is a commit, so results wait for more
// of their kind, unless somebody waits for them.
func TestWhenResultsAreRecorded(t *testing.T) {
	t.Parallel()
	const bound = 2
	for _, test := range []struct {
		name     string
		results  int
		queued   int // messages of the webhook that wait for a place
		taken    int // of its places
		underWay int // in the process
		failing  bool
		closed   bool
		want     time.Duration // after the first of them; 0: at once
	}{
		{name: "nothing", want: 0},
		{name: "a webhook at rest", results: 1, taken: 1, want: patience},
		{name: "all its places taken, and nothing waits", results: 1, taken: 2, underWay: 100, want: patience},
		{name: "a place is free for what waits", results: 1, queued: 1, taken: 1, underWay: 100, want: patience},
		{name: "something waits for a place", results: 1, queued: 1, taken: 2, want: 0},
		{name: "something waits, others are about to come", results: 1, queued: 1, taken: 2, underWay: gatherFrom, want: gather},
		{name: "something waits for a receiver that fails", results: 1, queued: 1, taken: 2, underWay: gatherFrom, failing: true, want: patience},
		{name: "enough for a statement", results: gathered, taken: 1, want: 0},
		{name: "the end", results: 1, taken: 1, closed: true, want: 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(time.Now, Policy{}, bound, 1000, 1)
			l := newLane(key{workspace, "wh_1"})
			l.hook, l.unrecorded, d.underWay, d.closed = &hook{on: true}, test.taken, test.underWay, test.closed
			if test.failing {
				l.health.FailingSince = time.Now()
			}
			for range test.queued {
				l.queue[fresh] = append(l.queue[fresh], &job{lane: l})
			}
			for range test.results {
				d.ended(&job{lane: l})
			}
			if got := d.gathers(); got != test.want {
				t.Errorf("results may gather for %v, want %v", got, test.want)
			}
		})
	}
}

// TestGatheringEndsWhenItIsUrgent: results that gather are written down as soon as
// somebody waits for them.
func TestGatheringEndsWhenItIsUrgent(t *testing.T) {
	t.Parallel()
	const bound = 1
	d := newDesk(time.Now, Policy{}, bound, 1000, 1)
	l := newLane(key{workspace, "wh_1"})
	l.hook, l.unrecorded = &hook{on: true}, bound
	d.ended(&job{lane: l})
	d.firstResult = time.Now().Add(time.Hour) // it would gather for as long
	written := make(chan struct{})
	go func() {
		d.letGather(nil)
		close(written)
	}()
	d.mu.Lock()
	l.queue[fresh] = append(l.queue[fresh], &job{lane: l})
	d.offer(l) // its place is taken
	d.mu.Unlock()
	select {
	case <-written:
	case <-time.After(time.Minute):
		t.Error("a message waits for a place, and the results gather on")
	}
}

// TestEventsDoNotWaitForClaims: what comes for a webhook that is held is sent
// although nothing can be claimed.
func TestEventsDoNotWaitForClaims(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{})
	rc := newReceiver(t, nil)
	testkit.Must(b.store.Create(t.Context(), workspace, rc.URL, []string{"all"}))(t)
	b.engine()
	b.append("invoice.reversed", 1)
	rc.wait(t, 1)

	lock := testkit.Must(b.pool.Begin(t.Context()))(t)
	defer func() { _ = lock.Rollback(t.Context()) }()
	testkit.Must(lock.Exec(t.Context(), `LOCK TABLE webhook_cursor IN EXCLUSIVE MODE`))(t)
	b.append("invoice.reversed", 1)
	testkit.Eventually(t, func() error { return b.waitsFor("WITH wanted AS") })
	b.append("invoice.reversed", 1)
	testkit.Within(t, statementPatience/3, func() error { // the claim gives up after all of it
		if n := rc.count(); n != 3 {
			return fmt.Errorf("%d messages arrived, want 3", n)
		}
		return nil
	})
}

// waitsFor complains unless a statement with such a text waits for a lock.
func (b *bench) waitsFor(text string) error {
	var n int
	err := b.pool.QueryRow(b.t.Context(), `
		SELECT count(*) FROM pg_stat_activity
		 WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, $1) > 0`, text).Scan(&n)
	if err == nil && n == 0 {
		err = errors.New("no claim waits for the lock")
	}
	return err
}
