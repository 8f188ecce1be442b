package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// patience is how long a test waits for what must come: long enough for a
// machine that has much else to do.
const patience = time.Minute

// waitUntil polls a condition that another process (the database) brings about.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testkit.Eventually(t, func() error {
		if !holds() {
			return errors.New(what)
		}
		return nil
	})
}

// lane is a log with a single lane, whose first flush can be held up by a
// lock on the head of workspace "w".
type lane struct {
	*bundle
	block pgx.Tx
	armed atomic.Bool // the clock panics, once
	calls chan error
	group sync.WaitGroup

	mu       sync.Mutex
	receipts []eventlog.Receipt
}

// blockedLane returns with the lock held and one append ("driver") stuck in it.
func blockedLane(t *testing.T) *lane {
	t.Helper()
	l := &lane{bundle: setup(t), calls: make(chan error, 100)}
	l.log = newLog(t, eventlog.Config{Pool: l.pool, Clock: l.now, Batchers: 1})
	l.append(t, client(t, "w", "first", "n"))
	l.block = l.begin(t)
	if _, err := l.block.Exec(t.Context(), `SELECT FROM log_head WHERE workspace_id = 'w' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	l.call(t.Context(), client(t, "w", "driver", "n"))
	waitUntil(t, "the driver waits for the lock", func() bool {
		var waiting int
		err := l.pool.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity
			 WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		return err == nil && waiting == 1
	})
	return l
}

func (l *lane) now() time.Time {
	if l.armed.CompareAndSwap(true, false) {
		panic(errBomb)
	}
	return l.clock.Now()
}

var errBomb = errors.New("the clock went off")

// call appends in a goroutine of its own.
func (l *lane) call(ctx context.Context, d domain.Draft) {
	l.group.Go(func() {
		receipts, err := l.recovering(ctx, d)
		if err != nil {
			err = fmt.Errorf("%s: %w", d.ID, err)
		}
		l.mu.Lock()
		l.receipts = append(l.receipts, receipts...)
		l.mu.Unlock()
		l.calls <- err
	})
}

// recovering makes an error of a panic, as callers with a Recoverer do.
func (l *lane) recovering(ctx context.Context, d domain.Draft) (receipts []eventlog.Receipt, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %w", p.(error))
		}
	}()
	return l.log.Append(ctx, d)
}

// release lets the driver go on and returns all errors.
func (l *lane) release(t *testing.T) []error {
	t.Helper()
	if err := l.block.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.group.Wait()
	close(l.calls)
	var errs []error
	for err := range l.calls {
		if err != nil {
			errs = append(errs, err)
		}
	}
	places := map[string][]string{}
	for _, r := range l.receipts {
		found := false
		for _, w := range []string{"w", "x", "sound"} {
			if places[w] == nil {
				places[w] = l.ids(t, w)
			}
			found = found || (r.Position <= int64(len(places[w])) && places[w][r.Position-1] == r.ID)
		}
		if !found {
			t.Errorf("receipt %+v names a place where the entry is not", r)
		}
	}
	return errs
}

// queued waits until n callers stand in the lane. Their number shows only in
// what they wait in, so it asks for goroutines parked in the lane.
func (l *lane) queued(t *testing.T, n int) {
	t.Helper()
	waitUntil(t, fmt.Sprintf("%d callers wait in the lane", n), func() bool { return parkedInLane() >= n })
}

// TestOneRefusedAmongMany: entries that happen to share a transaction have
// nothing to do with each other.
func TestOneRefusedAmongMany(t *testing.T) {
	// Not parallel: queued counts goroutines of the whole process.
	l := blockedLane(t)
	nowMS := noon.Truncate(time.Millisecond)
	l.call(t.Context(), at(client(t, "w", "old", "n"), nowMS.AddDate(-1, 0, 0)))
	l.queued(t, 1)
	l.call(t.Context(), client(t, "w", "good", "n"))
	l.call(t.Context(), client(t, "w", "first", "other"))
	l.call(t.Context(), at(client(t, "w", "far", "n"), nowMS.AddDate(1, 0, 0)))
	l.call(t.Context(), client(t, "w", "first", "n"))
	l.call(t.Context(), client(t, "x", "elsewhere", "n"))
	l.queued(t, 6)
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
	if len(ids) != 3 || ids[0] != "first" || ids[1] != "driver" || ids[2] != "good" || len(l.ids(t, "x")) != 1 {
		t.Errorf("the log holds %v", ids)
	}
	l.soundLog(t, "w")
}

// TestCoalescedTwins: the same entry from two callers at once is appended
// once, and an entry of the same id but other content is refused.
func TestCoalescedTwins(t *testing.T) {
	l := blockedLane(t)
	l.call(t.Context(), client(t, "w", "twin", "n"))
	l.queued(t, 1)
	l.call(t.Context(), client(t, "w", "twin", "n"))
	l.call(t.Context(), client(t, "w", "twin", "other"))
	l.queued(t, 3)
	errs := l.release(t)
	if len(errs) != 1 || !errors.Is(errs[0], eventlog.ErrOtherContent) {
		t.Errorf("errors %v", errs)
	}
	if ids := l.ids(t, "w"); len(ids) != 3 {
		t.Errorf("the log holds %v", ids)
	}
}

// TestCoalescing: what waits for the lane goes into one transaction.
func TestCoalescing(t *testing.T) {
	l := blockedLane(t)
	const waiting = 20
	for i := range waiting {
		l.call(t.Context(), client(t, "w", fmt.Sprint("e", i), "n"))
	}
	l.queued(t, waiting)
	if errs := l.release(t); len(errs) > 0 {
		t.Fatal(errs)
	}
	var transactions int
	err := l.pool.QueryRow(t.Context(), `
		SELECT count(DISTINCT xmin::text) FROM event_log WHERE workspace_id = 'w' AND id LIKE 'e%'`).Scan(&transactions)
	if err != nil || transactions != 1 {
		t.Errorf("%d transactions for %d entries, error %v", transactions, waiting, err)
	}
	l.soundLog(t, "w")
}

// TestGivingUpInTheLane: a caller whose context ends before its turn is not
// appended, and those behind it are.
func TestGivingUpInTheLane(t *testing.T) {
	l := blockedLane(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	tired := errors.New("tired")
	l.call(ctx, client(t, "w", "tired", "n"))
	l.queued(t, 1)
	l.call(t.Context(), client(t, "w", "patient", "n"))
	l.queued(t, 2)
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

// TestDriversContextIsItsOwn: the caller who drives gives up, and the entries
// of others in the same transaction do not notice.
func TestDriversContextIsItsOwn(t *testing.T) {
	l := blockedLane(t)
	ctx, cancel := context.WithCancel(t.Context())
	l.call(ctx, client(t, "w", "next-driver", "n"))
	l.queued(t, 1)
	l.call(t.Context(), client(t, "w", "passenger", "n"))
	l.queued(t, 2)
	if err := l.block.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
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

// TestPanicLeavesNobodyWaiting: after a panic everyone who shared the
// transaction learns of it, and that their outcome is unknown; later appends
// work.
func TestPanicLeavesNobodyWaiting(t *testing.T) {
	l := blockedLane(t)
	l.call(t.Context(), client(t, "w", "unlucky-driver", "n"))
	l.queued(t, 1)
	l.call(t.Context(), client(t, "w", "passenger-1", "n"))
	l.call(t.Context(), client(t, "x", "passenger-2", "n"))
	l.queued(t, 3)
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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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

// TestPanicAfterTheCommit: an announcer that panics does not undo what is
// committed, nor stop the lane.
func TestPanicAfterTheCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	notifier := &bomb{}
	notifier.armed.Store(true)
	l := &lane{bundle: b}
	b.log = newLog(t, eventlog.Config{Pool: b.pool, Clock: b.clock.Now, Notify: notifier.Notify, Batchers: 1})
	if _, err := l.recovering(t.Context(), client(t, "w", "a", "n")); !errors.Is(err, errBomb) {
		t.Errorf("got %v", err)
	}
	if again := b.append(t, client(t, "w", "a", "n"))[0]; !again.Skipped {
		t.Errorf("appended again: %+v", again)
	}
	b.soundLog(t, "w")
}

// TestBrokenWorkspaceLeavesOthersAlone: when a transaction for several
// workspaces fails, each is tried for itself.
func TestBrokenWorkspaceLeavesOthersAlone(t *testing.T) {
	l := blockedLane(t)
	l.append2(t, "broken")
	// The database refuses every further entry of one workspace.
	l.exec(t, `ALTER TABLE event_log ADD CONSTRAINT broken CHECK (workspace_id <> 'broken' OR position <= 1)`)
	l.call(t.Context(), client(t, "broken", "x", "n"))
	l.queued(t, 1)
	l.call(t.Context(), client(t, "sound", "y", "n"))
	l.call(t.Context(), client(t, "w", "z", "n"))
	l.queued(t, 3)
	errs := l.release(t)
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "x: append to broken") {
		t.Errorf("errors %v", errs)
	}
	if len(l.ids(t, "sound")) != 1 || len(l.ids(t, "w")) != 3 || len(l.ids(t, "broken")) != 1 {
		t.Error("the others were not appended")
	}
}

// append2 appends outside of the lane, which is blocked.
func (l *lane) append2(t *testing.T, workspaceID string) {
	t.Helper()
	if _, err := l.log.AppendExpecting(t.Context(), workspaceID, 0, client(t, workspaceID, "first", "n")); err != nil {
		t.Fatal(err)
	}
}
