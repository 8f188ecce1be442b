package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// batcher is a log with a single batcher, whose first transaction waits before it
// begins: for the clock.
type batcher struct {
	*bundle
	gate    chan struct{} // the clock stands behind it
	entered chan struct{} // somebody asks for the time
	armed   atomic.Bool   // the clock panics once
	calls   chan error
	group   sync.WaitGroup

	mu       sync.Mutex
	receipts []eventlog.Receipt
}

// blockedBatcher returns with one append ("leader") waiting.
func blockedBatcher(t *testing.T) *batcher {
	t.Helper()
	l := &batcher{bundle: setup(t), calls: make(chan error, 100), gate: make(chan struct{}), entered: make(chan struct{}, 100)}
	l.append(t, client(t, "w", "first", "n"))
	l.log = newLog(t, eventlog.Config{Pool: l.pool, Clock: l.now, Batchers: 1})
	l.call(t.Context(), client(t, "w", "leader", "n"))
	<-l.entered
	return l
}

func (l *batcher) now() time.Time {
	armed := l.armed.CompareAndSwap(true, false)
	l.entered <- struct{}{}
	<-l.gate
	if armed {
		panic(errBomb)
	}
	return l.clock.Now()
}

var errBomb = errors.New("the clock went off")

// call appends in a goroutine of its own.
func (l *batcher) call(ctx context.Context, d domain.Draft) {
	l.group.Go(func() {
		receipts, err := l.log.Append(ctx, d)
		if err != nil {
			err = fmt.Errorf("%s: %w", d.ID, err)
		}
		l.mu.Lock()
		l.receipts = append(l.receipts, receipts...)
		l.mu.Unlock()
		l.calls <- err
	})
}

// release lets the leader go on and returns all errors.
func (l *batcher) release(t *testing.T) []error {
	t.Helper()
	close(l.gate)
	l.group.Wait()
	close(l.calls)
	var errs []error
	for err := range l.calls {
		if err != nil {
			errs = append(errs, err)
		}
	}
	held := map[string][]string{}
	for _, r := range l.receipts {
		found := false
		for _, w := range []string{"w", "x", "sound"} {
			if held[w] == nil {
				held[w] = l.ids(t, w)
			}
			found = found || (r.Position <= int64(len(held[w])) && held[w][r.Position-1] == r.ID)
		}
		if !found {
			t.Errorf("receipt %+v names a position where the entry is not", r)
		}
	}
	return errs
}

// waiting waits until n callers wait for the next transaction.
func (l *batcher) waiting(t *testing.T, n int) {
	t.Helper()
	testkit.Eventually(t, func() error {
		if got := waitingCallers(); got < n {
			return fmt.Errorf("%d callers wait, want %d", got, n)
		}
		return nil
	})
}

// waitingCallers counts goroutines of this process that wait in a Coalescer.
// Waiting leaves no other trace that a test could look at.
func waitingCallers() int {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	n := 0
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		header, frames, _ := strings.Cut(stack, "\n")
		if strings.Contains(header, "[select") && strings.HasPrefix(frames, "github.com/ledgerfeed/ledgerfeed/internal/flow.(*Coalescer[...]).Do(") {
			n++
		}
	}
	return n
}

// TestOneRefusedAmongMany: a refusal does not affect the other entries of the
// transaction.
func TestOneRefusedAmongMany(t *testing.T) {
	// Not parallel: waiting counts goroutines of the whole process.
	l := blockedBatcher(t)
	nowMS := noon.Truncate(time.Millisecond)
	l.call(t.Context(), at(client(t, "w", "old", "n"), nowMS.AddDate(-1, 0, 0)))
	l.waiting(t, 1)
	l.call(t.Context(), client(t, "w", "good", "n"))
	l.call(t.Context(), client(t, "w", "first", "other"))
	l.call(t.Context(), at(client(t, "w", "far", "n"), nowMS.AddDate(1, 0, 0)))
	l.call(t.Context(), client(t, "w", "first", "n"))
	l.call(t.Context(), client(t, "x", "elsewhere", "n"))
	l.waiting(t, 6)
	errs := l.release(t)
	reasons := map[string]error{"old:": eventlog.ErrBeforeNewest, "first:": eventlog.ErrOtherContent, "far:": eventlog.ErrAhead}
	for _, err := range errs {
		name := strings.Fields(err.Error())[0]
		if !errors.Is(err, reasons[name]) {
			t.Errorf("unexpected: %v", err)
		}
		delete(reasons, name)
	}
	if len(reasons) > 0 {
		t.Errorf("not refused: %v", reasons)
	}
	ids := l.ids(t, "w")
	if len(ids) != 3 || ids[0] != "first" || ids[1] != "leader" || ids[2] != "good" || len(l.ids(t, "x")) != 1 {
		t.Errorf("the log holds %v", ids)
	}
	l.soundLog(t, "w")
}

// TestCoalescedTwins: the same entry from two callers at once is appended once, and
// one with the same id but other content is refused.
func TestCoalescedTwins(t *testing.T) {
	l := blockedBatcher(t)
	l.call(t.Context(), client(t, "w", "twin", "n"))
	l.waiting(t, 1)
	l.call(t.Context(), client(t, "w", "twin", "n"))
	l.call(t.Context(), client(t, "w", "twin", "other"))
	l.waiting(t, 3)
	errs := l.release(t)
	if len(errs) != 1 || !errors.Is(errs[0], eventlog.ErrOtherContent) {
		t.Errorf("errors %v", errs)
	}
	if ids := l.ids(t, "w"); len(ids) != 3 {
		t.Errorf("the log holds %v", ids)
	}
}

// TestCoalescing: appends that wait share one transaction.
func TestCoalescing(t *testing.T) {
	l := blockedBatcher(t)
	const entries = 20
	for i := range entries {
		l.call(t.Context(), client(t, "w", fmt.Sprint("e", i), "n"))
	}
	l.waiting(t, entries)
	if errs := l.release(t); len(errs) > 0 {
		t.Fatal(errs)
	}
	var transactions int
	err := l.pool.QueryRow(t.Context(), `
		SELECT count(DISTINCT xmin::text) FROM event_log WHERE workspace_id = 'w' AND id LIKE 'e%'`).Scan(&transactions)
	if err != nil || transactions != 1 {
		t.Errorf("%d transactions for %d entries, error %v", transactions, entries, err)
	}
	l.soundLog(t, "w")
}

// TestGivingUpWhileWaiting: the entry of a caller whose context ends before its
// transaction begins is not appended, and the others are.
func TestGivingUpWhileWaiting(t *testing.T) {
	l := blockedBatcher(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	tired := errors.New("tired")
	l.call(ctx, client(t, "w", "tired", "n"))
	l.waiting(t, 1)
	l.call(t.Context(), client(t, "w", "patient", "n"))
	l.waiting(t, 2)
	cancel(tired)
	if err := <-l.calls; !errors.Is(err, tired) || !strings.Contains(err.Error(), "not begun") {
		t.Errorf("gave up with %v", err)
	}
	if errs := l.release(t); len(errs) > 0 {
		t.Fatal(errs)
	}
	if ids := l.ids(t, "w"); len(ids) != 3 || ids[2] != "patient" {
		t.Errorf("the log holds %v", ids)
	}
}

// TestLeadersContextIsItsOwn: the leader's caller gives up, which does not affect
// the entries of others in the same transaction.
func TestLeadersContextIsItsOwn(t *testing.T) {
	l := blockedBatcher(t)
	ctx, cancel := context.WithCancel(t.Context())
	l.call(ctx, client(t, "w", "next-leader", "n"))
	l.waiting(t, 1)
	l.call(t.Context(), client(t, "w", "passenger", "n"))
	l.waiting(t, 2)
	close(l.gate)
	cancel()
	l.group.Wait()
	close(l.calls)
	for err := range l.calls {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	ids := l.ids(t, "w")
	if last := ids[len(ids)-1]; last != "passenger" {
		t.Errorf("the log holds %v", ids)
	}
	l.soundLog(t, "w")
}

func TestEndedContextAppendsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.log.Append(ctx, client(t, "w", "a", "n")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if ids := b.ids(t, "w"); len(ids) != 0 {
		t.Errorf("the log holds %v", ids)
	}
}

// TestPanicLeavesNobodyWaiting: after a panic every caller of the transaction
// gets it, and learns that the outcome is unknown. Later appends work.
func TestPanicLeavesNobodyWaiting(t *testing.T) {
	l := blockedBatcher(t)
	l.call(t.Context(), client(t, "w", "unlucky-leader", "n"))
	l.waiting(t, 1)
	l.call(t.Context(), client(t, "w", "passenger-1", "n"))
	l.call(t.Context(), client(t, "x", "passenger-2", "n"))
	l.waiting(t, 3)
	l.armed.Store(true)
	errs := l.release(t)
	for _, err := range errs {
		if !errors.Is(err, errBomb) || !strings.Contains(err.Error(), "outcome unknown") {
			t.Error(err)
		}
	}
	if len(errs) != 3 {
		t.Errorf("errors %v", errs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if receipts, err := l.log.Append(ctx, client(t, "w", "after", "n")); err != nil || receipts[0].Skipped {
		t.Errorf("after the panic: %v, %v", receipts, err)
	}
	l.soundLog(t, "w")
}

// bomb is a NotifyFunc that panics once.
type bomb struct{ armed atomic.Bool }

func (b *bomb) Notify(eventlog.Topic, ...string) {
	if b.armed.CompareAndSwap(true, false) {
		panic(errBomb)
	}
}

// TestPanicAfterTheCommit: a NotifyFunc that panics does not undo what is
// committed, nor stop later appends.
func TestPanicAfterTheCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	notifier := &bomb{}
	notifier.armed.Store(true)
	b.log = newLog(t, eventlog.Config{Pool: b.pool, Clock: b.clock.Now, Notify: notifier.Notify, Batchers: 1})
	if _, err := b.log.Append(t.Context(), client(t, "w", "a", "n")); !errors.Is(err, errBomb) {
		t.Errorf("got %v", err)
	}
	if again := b.append(t, client(t, "w", "a", "n"))[0]; !again.Skipped {
		t.Errorf("appended again: %+v", again)
	}
	b.soundLog(t, "w")
}

// TestBrokenWorkspaceLeavesOthersAlone: when a transaction for several
// workspaces fails, each is tried alone.
func TestBrokenWorkspaceLeavesOthersAlone(t *testing.T) {
	l := blockedBatcher(t)
	elsewhere := newLog(t, eventlog.Config{Pool: l.pool, Clock: l.clock.Now})
	if _, err := elsewhere.Append(t.Context(), client(t, "broken", "first", "n")); err != nil {
		t.Fatal(err)
	}
	// The database refuses every further entry of one workspace.
	l.exec(t, `ALTER TABLE event_log ADD CONSTRAINT broken CHECK (workspace_id <> 'broken' OR position <= 1)`)
	l.call(t.Context(), client(t, "broken", "x", "n"))
	l.waiting(t, 1)
	l.call(t.Context(), client(t, "sound", "y", "n"))
	l.call(t.Context(), client(t, "w", "z", "n"))
	l.waiting(t, 3)
	errs := l.release(t)
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "x: append to broken") {
		t.Errorf("errors %v", errs)
	}
	if len(l.ids(t, "sound")) != 1 || len(l.ids(t, "w")) != 3 || len(l.ids(t, "broken")) != 1 {
		t.Error("the others were not appended")
	}
}
