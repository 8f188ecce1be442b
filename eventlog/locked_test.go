package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// holder has the log of a workspace, "held", locked by a transaction.
type holder struct {
	*bundle
	tx pgx.Tx
}

// held has the log of some workspaces locked, in a database with a pool of a few
// connections.
func held(t *testing.T, conns int32, timeout time.Duration, workspaces ...string) *holder {
	t.Helper()
	url := testkit.NewDatabase(t)
	h := &holder{bundle: &bundle{pool: wide(t, url, conns), clock: testkit.RunningClock()}}
	h.log = newLog(t, eventlog.Config{Pool: h.pool, Clock: h.clock.Now, Batchers: 1, LockTimeout: timeout})
	for _, w := range workspaces {
		h.append(t, client(t, w, "first", "n"))
	}
	h.tx = h.lock(t, workspaces...)
	return h
}

// lock locks workspaces in a transaction on a connection of its own.
func (h *holder) lock(t *testing.T, workspaces ...string) pgx.Tx {
	t.Helper()
	conn := testkit.Must(pgx.Connect(t.Context(), testkit.Direct(h.pool.Config().ConnString())))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx := testkit.Must(conn.Begin(t.Context()))(t)
	for _, w := range workspaces {
		if _, err := tx.Exec(t.Context(), `SELECT FROM log_head WHERE workspace_id = $1 FOR UPDATE`, w); err != nil {
			t.Fatal(err)
		}
	}
	return tx
}

func (h *holder) release(t *testing.T) {
	t.Helper()
	if err := h.tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// soon is a context for what must not wait for a held workspace, which is never released
// before it ends: such a wait would take an hour.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return ctx
}

// waitForLocks waits until statements wait for locks. It looks by a connection of its own: the
// pool may have none left, and to a transaction PostgreSQL lists the same sessions until its end.
func (h *holder) waitForLocks(t *testing.T) {
	t.Helper()
	conn := testkit.OwnerConn(t, h.pool)
	testkit.Eventually(t, func() error {
		n, err := testkit.LocksAwaited(t, conn)
		if err == nil && n == 0 {
			err = errors.New("nothing waits for a lock")
		}
		return err
	})
}

// TestHeldWorkspacesDelayNobody: appends of all forms wait for more workspaces than
// there are connections, and those to others go on, also to new ones.
func TestHeldWorkspacesDelayNobody(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprint("held", i))
	}
	h := held(t, 4, time.Hour, names...)
	h.append(t, client(t, "sound", "first", "n"))
	var waiting sync.WaitGroup
	wait := func(drafts ...domain.Draft) {
		waiting.Go(func() {
			if _, err := h.log.Append(t.Context(), drafts...); err != nil {
				t.Error(err)
			}
		})
	}
	for _, w := range names {
		wait(client(t, w, "a", "n"))
		wait(client(t, w, "b", "n"))
		wait(client(t, w, "c", "n"), client(t, w, "d", "n"))
		wait(client(t, "aside", w, "n"), client(t, w, "e", "n"))
	}
	h.waitForLocks(t)
	var others sync.WaitGroup
	for caller := range 8 {
		others.Go(func() {
			for i := range 20 {
				w := []string{"sound", fmt.Sprint("new", caller, "-", i)}[i%2]
				id := fmt.Sprint("e", caller, "-", i)
				if _, err := h.log.Append(soon(t), client(t, w, id, "n")); err != nil {
					t.Errorf("to %s: %v", w, err)
				}
				if _, err := h.log.Append(soon(t), client(t, w, id+"x", "n"), client(t, "sound", id+"y", "n")); err != nil {
					t.Errorf("to %s and another: %v", w, err)
				}
			}
		})
	}
	others.Wait()
	for _, w := range names {
		if n := len(h.ids(t, w)); n != 1 {
			t.Errorf("%s has %d entries while it is held", w, n)
		}
	}
	h.release(t)
	waiting.Wait()
	for _, w := range names {
		ids := h.ids(t, w)
		slices.Sort(ids)
		if !slices.Equal(ids, []string{"a", "b", "c", "d", "e", "first"}) {
			t.Errorf("%s has %v", w, ids)
		}
		h.soundLog(t, w)
	}
}

// TestHeldWorkspaceHasItsOwnError: every form of an append fails when its own time
// is over, with an error that names the workspace, and appends nothing.
func TestHeldWorkspaceHasItsOwnError(t *testing.T) {
	t.Parallel()
	h := held(t, 4, 300*time.Millisecond, "held")
	calls := map[string]func() error{
		"single": func() error { _, err := h.log.Append(t.Context(), client(t, "held", "a", "n")); return err },
		"batch": func() error {
			_, err := h.log.Append(t.Context(), client(t, "held", "a", "n"), client(t, "held", "b", "n"))
			return err
		},
		"several": func() error {
			_, err := h.log.Append(t.Context(), client(t, "w", "a", "n"), client(t, "held", "a", "n"))
			return err
		},
		"transaction": func() error {
			tx := h.begin(t)
			_, err := h.log.AppendTx(t.Context(), tx, client(t, "held", "a", "n"))
			return err
		},
		"publisher": func() error {
			tx := h.begin(t)
			if _, err := tx.Exec(t.Context(), `SET LOCAL lock_timeout = '100ms'`); err != nil {
				return err
			}
			return publish(t.Context(), tx, h.clock.Now(), client(t, "held", "a", "n"))
		},
	}
	var group sync.WaitGroup
	for name, call := range calls {
		group.Go(func() {
			var e *eventlog.LockedError
			if err := call(); !errors.As(err, &e) || e.WorkspaceID != "held" || !eventlog.Certain(err) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	group.Wait()
	tired := errors.New("tired")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(tired)
	patient := newLog(t, eventlog.Config{Pool: h.pool, Clock: h.clock.Now, LockTimeout: time.Hour})
	for _, drafts := range [][]domain.Draft{{client(t, "held", "a", "n")}, {client(t, "held", "a", "n"), client(t, "w", "b", "n")}} {
		ctx, stop := context.WithTimeoutCause(ctx, 300*time.Millisecond, tired)
		if _, err := patient.Append(ctx, drafts...); !errors.Is(err, tired) && !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that gives up gets %v", err)
		}
		stop()
	}
	h.release(t)
	if got := h.ids(t, "held"); !slices.Equal(got, []string{"first"}) {
		t.Errorf("the log has %v", got)
	}
	h.append(t, client(t, "w", "a", "n"), client(t, "held", "a", "n"))
}

// TestAppendToSeveralHoldsNobody: while an append to several workspaces waits for
// one of them, the others are free.
func TestAppendToSeveralHoldsNobody(t *testing.T) {
	t.Parallel()
	h := held(t, 4, time.Hour, "held")
	done := make(chan error, 1)
	go func() {
		_, err := h.log.Append(t.Context(), client(t, "a", "x", "n"), client(t, "held", "x", "n"), client(t, "z", "x", "n"))
		done <- err
	}()
	h.waitForLocks(t)
	for i := range 40 {
		tx := h.lock(t)
		for _, w := range []string{"a", "z"} {
			if _, err := h.log.AppendTx(soon(t), tx, client(t, w, fmt.Sprint(i), "n")); err != nil {
				t.Fatalf("to %s: %v", w, err)
			}
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	h.release(t)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if ids := h.ids(t, "a"); ids[len(ids)-1] != "x" {
		t.Errorf("the log has %v", ids)
	}
}

// TestTransactionThatHoldsOneWaitsBriefly: a producer's transaction that has
// appended to one workspace does not keep it while it waits for another, and can go
// on.
func TestTransactionThatHoldsOneWaitsBriefly(t *testing.T) {
	t.Parallel()
	h := held(t, 4, time.Hour, "held")
	tx := h.begin(t)
	if _, err := h.log.AppendTx(t.Context(), tx, client(t, "a", "x", "n")); err != nil {
		t.Fatal(err)
	}
	var e *eventlog.LockedError
	if _, err := h.log.AppendTx(soon(t), tx, client(t, "b", "x", "n"), client(t, "held", "x", "n")); !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if _, err := h.log.AppendTx(t.Context(), tx, client(t, "c", "x", "n")); err != nil {
		t.Fatalf("the transaction does not go on: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(h.ids(t, "a")) != 1 || len(h.ids(t, "b")) != 0 || len(h.ids(t, "c")) != 1 {
		t.Error("not what was committed")
	}
}
