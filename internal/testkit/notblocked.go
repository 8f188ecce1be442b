package testkit

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// NotBlocked runs work while the session holder (a backend's pid, see PID) has locks, and
// fails the test if a session of the database comes to wait for them meanwhile, directly or
// behind another session. Sessions that wait already when work begins are expected to. It
// takes the place of a limit in seconds, which a busy machine breaks and a quiet one hides
// behind.
func NotBlocked(t testing.TB, of pg.DB, holder uint32, work func()) {
	t.Helper()
	conn := OwnerConn(t, of)
	expected, err := blockedBy(t.Context(), conn, holder)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	type verdict struct {
		blocked string
		err     error
	}
	seen := make(chan verdict, 1)
	go func() {
		again := time.NewTicker(notBlockedEvery)
		defer again.Stop()
		for {
			now, err := blockedBy(context.WithoutCancel(ctx), conn, holder)
			for pid, query := range now {
				if _, known := expected[pid]; !known {
					seen <- verdict{blocked: query}
					return
				}
			}
			if err != nil || ctx.Err() != nil { // looked once more after the end
				seen <- verdict{err: err}
				return
			}
			select {
			case <-again.C:
			case <-ctx.Done():
			}
		}
	}()
	work()
	stop()
	switch v := <-seen; {
	case v.err != nil:
		t.Errorf("testkit: look for sessions that wait: %v", v.err)
	case v.blocked != "":
		t.Errorf("a session waits for what is locked: %s", v.blocked)
	}
}

// notBlockedEvery is often enough to see every wait that a person would notice.
const notBlockedEvery = 10 * time.Millisecond

// blockedBy returns the sessions that wait behind a session, by pid, each with its statement.
func blockedBy(ctx context.Context, conn *pgx.Conn, holder uint32) (map[int32]string, error) {
	found := map[int32]string{}
	var pid int32
	var query string
	err := pg.ForEach(ctx, conn, `
		WITH RECURSIVE waiting AS MATERIALIZED (
			SELECT pid, pg_blocking_pids(pid) AS blockers, query FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'
		), behind(pid) AS (
			SELECT $1::integer
			UNION
			SELECT waiting.pid FROM waiting JOIN behind ON behind.pid = ANY (waiting.blockers)
		)
		SELECT pid, query FROM waiting WHERE pid IN (SELECT pid FROM behind)`, []any{int32(holder)}, []any{&pid, &query}, func() error {
		found[pid] = strings.Join(strings.Fields(query), " ")
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read who waits: %w", err)
	}
	return found, nil
}

// PID returns the backend of a session, as NotBlocked takes it.
func PID(t testing.TB, session interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (pid uint32) {
	t.Helper()
	if err := session.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatalf("testkit: %v", err)
	}
	return pid
}
