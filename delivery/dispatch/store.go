package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// store holds the dispatcher's SQL.
type store struct {
	pool      *pgxpool.Pool
	keyring   *keyring.Keyring
	leaseTime time.Duration
}

const (
	// statementTimeout bounds a statement, whose connection may have died without
	// notice.
	statementTimeout = 30 * time.Second

	// lockTimeout is how long a statement waits for a lock of another transaction,
	// such as that of a person at psql. What it would hold up is done without the
	// webhook whose row is locked.
	lockTimeout = 100 * time.Millisecond

	// retryPause is the pause after a statement failed, because the database may be
	// away. Where it grows, it doubles up to maxRetryPause.
	retryPause    = 250 * time.Millisecond
	maxRetryPause = 2 * time.Second
)

// holds is true of a lease i that is not over. A lease is of one run of the database
// server, and of one table, because a dump can be restored into a server that runs on:
// after a failover or the restore of a backup the log may be an older one than the one
// whose positions the process remembers, so it has to load its webhooks again.
const holds = `(i.workspace_id = '*' AND i.lease_until > clock_timestamp() AND i.server_start = pg_postmaster_start_time()
	AND i.of_table = i.tableoid)`

// split returns the two columns of keys, for unnest.
func split(keys []scheduler.Key) (workspaces, webhooks []string) {
	workspaces, webhooks = make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		workspaces[i], webhooks[i] = k.WorkspaceID, k.WebhookID
	}
	return workspaces, webhooks
}

// limited runs a statement that waits for locks no longer than lockTimeout; pg.Locked
// reports that error.
func (s *store) limited(ctx context.Context, sql string, args ...any) error {
	b := &pgx.Batch{}
	b.Queue(`SELECT set_config('lock_timeout', $1, true)`, pg.Milliseconds(lockTimeout))
	b.Queue(sql, args...)
	err := s.pool.SendBatch(ctx, b).Close()
	return err
}

// keys returns the webhooks that a statement names; doing is for the error.
func (s *store) keys(ctx context.Context, doing, sql string, args ...any) ([]scheduler.Key, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[scheduler.Key])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return keys, nil
}
