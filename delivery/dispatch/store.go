package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// store holds the dispatcher's SQL.
type store struct {
	pool      pg.DB
	lease     pg.DB // for statements about the lease; nil: pool
	keyring   *keyring.Keyring
	leaseTime time.Duration
}

const (
	// statementTimeout bounds a statement, because its connection may have died unnoticed.
	statementTimeout = 30 * time.Second

	// lockTimeout is how long a statement waits for a lock of another transaction, such as a psql
	// session. The work then goes on without the webhook whose row is locked.
	lockTimeout = 100 * time.Millisecond

	// retryPause is the pause after a failed statement, because the database may be away. Callers
	// that back off double it, up to maxRetryPause.
	retryPause    = 250 * time.Millisecond
	maxRetryPause = 2 * time.Second
)

// holds is an SQL condition: lease i has not ended. A lease is valid for one run of the database
// server only, because after a failover or the restore of a backup the log may be older than the
// positions that a process remembers, so the process must load its webhooks again. A lease is valid
// for one table only, because a dump can be restored into a running server.
//
// The time is that at which the statement began, because nothing volatile may change rows. A lease can
// end while a statement waits. Where that matters, an earlier statement locks the row (renewLease), or
// webhook_lease reads the clock.
const holds = `(i.workspace_id = '*' AND i.lease_until > statement_timestamp() AND i.server_start = pg_postmaster_start_time()
	AND i.of_table = 'webhook_instance'::regclass)`

// leases returns the connections for statements about the lease. They do not wait for other
// statements.
func (s *store) leases() pg.DB { return cmp.Or(s.lease, s.pool) }

// split returns the two columns of keys, for unnest.
func split(keys []scheduler.Key) (workspaces, webhooks []string) {
	workspaces, webhooks = make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		workspaces[i], webhooks[i] = k.WorkspaceID, k.WebhookID
	}
	return workspaces, webhooks
}

// limited runs a statement that waits for locks no longer than lockTimeout. pg.Locked reports
// whether the error is about such a lock.
func (s *store) limited(ctx context.Context, sql string, args ...any) error {
	b := &pgx.Batch{}
	b.Queue(`SELECT set_config('lock_timeout', $1, true)`, pg.Milliseconds(lockTimeout))
	b.Queue(sql, args...)
	err := s.pool.SendBatch(ctx, b).Close()
	return err
}

// keys returns the webhooks that a statement selects. doing describes the statement in errors.
func (s *store) keys(ctx context.Context, doing, sql string, args ...any) ([]scheduler.Key, error) {
	keys, err := pg.Collect(ctx, s.pool, pgx.RowToStructByPos[scheduler.Key], sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return keys, nil
}

// A process whose clock is wrong does not deliver. If its clock is ahead, every event and every day
// of the history is past the retention, the retries that it records wait for years, and receivers
// refuse its signatures.

// clockError says that the process's clock and the database's are more than 5 minutes
// apart.
type clockError struct{ *eventlog.ClockError }

func (e *clockError) Error() string {
	return e.Difference() + ": nothing is delivered by this process until they are right"
}

func isClockError(err error) bool {
	_, ok := errors.AsType[*clockError](err)
	return ok
}

// checkClock returns a *clockError unless the process's clock is right.
func (s *store) checkClock(ctx context.Context, now time.Time) error {
	err := eventlog.CheckClock(ctx, s.pool, now)
	if wrong, ok := errors.AsType[*eventlog.ClockError](err); ok {
		return &clockError{wrong}
	}
	return err
}

// Lag is how far a webhook is behind the visible position of its workspace.
type Lag struct {
	WorkspaceID string `json:"workspace_id"`
	WebhookID   string `json:"webhook_id"`
	State       string `json:"state"`    // on, off or paused
	Position    int64  `json:"position"` // everything up to it had a first attempt; may be a second old
	Visible     int64  `json:"visible"`
	Entries     int64  `json:"lag_entries"` // entries between them, whether or not they are for this webhook

	// Seconds is how long ago the entry after Position was appended, by the database's
	// clock; 0 when there is none.
	Seconds float64 `json:"lag_seconds"`

	Waiting int64 `json:"waiting"` // deliveries that will be tried again
	Held    bool  `json:"held"`    // a process delivers to it
	Failing bool  `json:"failing"` // it is on, and has had no success since its failures began
}

// Shown returns the state for people, in the words of the metrics and the console.
func (l *Lag) Shown() string {
	if l.Failing {
		return "failing"
	}
	return l.State
}

// ReadStatus returns the lag of every webhook in a workspace, or in all if workspaceID is empty.
// Webhooks that are off have no lag.
func ReadStatus(ctx context.Context, pool pg.DB, workspaceID string) ([]Lag, error) {
	list, err := pg.Collect(ctx, pool, func(row pgx.CollectableRow) (l Lag, err error) {
		var waiting *float64
		err = row.Scan(&l.WorkspaceID, &l.WebhookID, &l.State, &l.Position, &l.Visible, &l.Entries, &waiting, &l.Waiting, &l.Held, &l.Failing)
		if waiting != nil {
			l.Seconds = max(*waiting, 0)
		}
		return l, err
	}, `
		SELECT w.workspace_id, w.webhook_id, w.state, c.position, v.position,
		       CASE WHEN w.state <> 'off' THEN greatest(v.position - c.position, 0) ELSE 0 END,
		       (SELECT extract(epoch FROM clock_timestamp() - coalesce(e.appended_at, e.created_at))::float8 FROM event_log e
		         WHERE w.state <> 'off' AND v.position > c.position
		           AND e.workspace_id = w.workspace_id AND e.position = c.position + 1),
		       (SELECT count(*) FROM webhook_waiting q WHERE q.workspace_id = w.workspace_id AND q.webhook_id = w.webhook_id),
		       NOT `+free+`, w.state = 'on' AND w.failing_since IS NOT NULL
		  FROM webhook w
		  JOIN webhook_cursor c ON c.workspace_id = w.workspace_id AND c.webhook_id = w.webhook_id
		  JOIN log_checkpoint v ON v.workspace_id = w.workspace_id AND v.consumer = 'read_models'
		 WHERE $1 IN ('', w.workspace_id)
		 ORDER BY w.workspace_id, w.created_at, w.webhook_id`, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("read the status of webhooks: %w", err)
	}
	return list, nil
}
