package eventlog_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// closing closes and opens heads.
func closing(t *testing.T, h *holder, sql string) {
	t.Helper()
	if _, err := h.pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// Appends wait while a workspace is fenced for a move, and go through when that is over;
// neighbours in the same group do not wait.
func TestAppendWaitsForAMove(t *testing.T) {
	t.Parallel()
	h := held(t, 6, 10*time.Second)
	h.append(t, client(t, "moving", "first", "n"))
	h.append(t, client(t, "other", "first", "n"))
	closing(t, h, `UPDATE log_head SET closed_until = statement_timestamp() + interval '1 hour' WHERE workspace_id = 'moving'`)
	var group sync.WaitGroup
	errs := make([]error, 5)
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		group.Go(func() { _, errs[i] = h.log.Append(t.Context(), client(t, "moving", id, "n")) })
	}
	for range 20 {
		soonest, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if _, err := h.log.Append(soonest, client(t, "other", "", "n")); err != nil {
			t.Errorf("a neighbour: %v", err)
		}
		cancel()
	}
	if entries := h.soundLog(t, "moving"); len(entries) != 1 {
		t.Errorf("%d entries behind the fence", len(entries))
	}
	closing(t, h, `UPDATE log_head SET closed_until = statement_timestamp() WHERE workspace_id = 'moving'`)
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if entries := h.soundLog(t, "moving"); len(entries) != 6 {
		t.Errorf("%d entries", len(entries))
	}
}

// Where the workspace has moved, appends are refused at once with the place, alone and
// beside others; a fence that lasts is an error that says so.
func TestAppendToAMovedWorkspace(t *testing.T) {
	t.Parallel()
	h := held(t, 6, 300*time.Millisecond)
	h.append(t, client(t, "gone", "first", "n"))
	closing(t, h, `UPDATE log_head SET closed_until = statement_timestamp() + interval '1 hour' WHERE workspace_id = 'gone'`)
	_, err := h.log.Append(t.Context(), client(t, "gone", "late", "n"))
	if m, ok := errors.AsType[*eventlog.MovedError](err); !ok || m.Away || !eventlog.Certain(err) {
		t.Errorf("behind a fence: %v", err)
	}
	closing(t, h, `UPDATE log_head SET closed_until = 'infinity' WHERE workspace_id = 'gone'`)
	closing(t, h, `UPDATE workspace SET move = 'moved', moved_to = 'https://there' WHERE workspace_id = 'gone'`)
	for name, appends := range map[string]func() error{
		"single": func() error { _, err := h.log.Append(t.Context(), client(t, "gone", "x", "n")); return err },
		"several": func() error {
			_, err := h.log.Append(t.Context(), client(t, "gone", "x", "n"), client(t, "other", "y", "n"))
			return err
		},
		"in a transaction": func() error {
			return pgx.BeginFunc(t.Context(), h.pool, func(tx pgx.Tx) error {
				_, err := h.log.AppendTx(t.Context(), tx, client(t, "gone", "x", "n"))
				return err
			})
		},
	} {
		err := appends()
		if m, ok := errors.AsType[*eventlog.MovedError](err); !ok || !m.Away || m.To != "https://there" || m.WorkspaceID != "gone" || !eventlog.Certain(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A producer's transaction that began before the fence, with a snapshot of its own, does not
// pass it.
func TestAnOlderSnapshotDoesNotPassAFence(t *testing.T) {
	t.Parallel()
	h := held(t, 6, time.Second)
	h.append(t, client(t, "moving", "first", "n"))
	tx := testkit.Must(h.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))(t)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM log_head`))(t)
	closing(t, h, `UPDATE log_head SET closed_until = 'infinity' WHERE workspace_id = 'moving'`)
	if _, err := h.log.AppendTx(t.Context(), tx, client(t, "moving", "late", "n")); err == nil {
		t.Error("it was appended")
	}
}

// The owner may delete the log of one workspace, and only in a transaction that names it.
func TestOneLogCanBeRemoved(t *testing.T) {
	t.Parallel()
	h := held(t, 6, time.Second)
	h.append(t, client(t, "gone", "first", "n"))
	h.append(t, client(t, "other", "first", "n"))
	remove := func(named, deleted string) error {
		return pgx.BeginFunc(t.Context(), h.pool, func(tx pgx.Tx) error {
			if err := pg.SetLocal(t.Context(), tx, "ledgerfeed.removes", named); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), `DELETE FROM event_log WHERE workspace_id = $1`, deleted)
			return err
		})
	}
	for _, c := range [][2]string{{"", "gone"}, {"gone", "other"}} {
		err := remove(c[0], c[1])
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != "42501" {
			t.Errorf("%q removes %q: %v", c[0], c[1], err)
		}
	}
	if err := remove("gone", "gone"); err != nil {
		t.Error(err)
	}
	if entries := h.soundLog(t, "other"); len(entries) != 1 {
		t.Errorf("%d entries of a neighbour", len(entries))
	}
}
