package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3/lock"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// lockedFor is how long a migration waits for those of other processes.
const lockedFor = 5 * time.Minute

// locker is the lock under which migrations are made, in a transaction of its own that
// stays open. A lock of a session, as goose takes it, would be lost or left over through a
// pooler, whose sessions others use in between; both exclude each other.
type locker struct {
	url  string
	conn *pgx.Conn
}

var _ lock.SessionLocker = (*locker)(nil)

// SessionLock implements lock.SessionLocker.
func (l *locker) SessionLock(ctx context.Context, _ *sql.Conn) (err error) {
	conn, err := pg.Connect(ctx, l.url)
	if err != nil {
		return fmt.Errorf("connect for the lock of migrations: %w", err)
	}
	if err := take(ctx, conn); err != nil {
		return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	l.conn = conn
	return nil
}

// take takes the lock in a transaction that may do nothing for as long as migrations take.
func take(ctx context.Context, conn *pgx.Conn) error {
	for _, statement := range []struct {
		sql  string
		args []any
	}{
		{"BEGIN", nil},
		{"SELECT set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', '0', true)", []any{pg.Milliseconds(lockedFor)}},
	} {
		if _, err := conn.Exec(ctx, statement.sql, statement.args...); err != nil {
			return fmt.Errorf("take the lock of migrations: %w", err)
		}
	}
	if err := takeAdvisory(ctx, conn); err != nil {
		return err
	}
	// An outsider may hold the advisory lock, so migrators also exclude each other by the table.
	// Nobody but the owner can lock it in this way, and rows can be added to it meanwhile.
	var there bool
	err := conn.QueryRow(ctx, "SELECT to_regclass('goose_db_version') IS NOT NULL").Scan(&there)
	if err == nil && there {
		_, err = conn.Exec(ctx, "LOCK TABLE goose_db_version IN SHARE UPDATE EXCLUSIVE MODE")
	}
	switch {
	case pg.Locked(err):
		return errMigrating(err.Error())
	case err != nil:
		return fmt.Errorf("take the lock of migrations: %w", err)
	}
	return nil
}

// errMigrating is not wrapped: it is not tried again.
func errMigrating(reason string) error {
	return fmt.Errorf("another process has been migrating for %v: %s", lockedFor, reason)
}

// lockPoll is the pause between two attempts to take the lock.
const lockPoll = 200 * time.Millisecond

// takeAdvisory takes the advisory lock, or does without it where accounts hold it that cannot
// migrate.
func takeAdvisory(ctx context.Context, conn *pgx.Conn) error {
	outsiders := pg.OutsidersHold(`has_schema_privilege(a.usesysid, current_schema(), 'CREATE')`)
	for deadline := time.Now().Add(lockedFor); ; {
		var taken, outside bool
		err := conn.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, lock.DefaultLockID).Scan(&taken)
		if err == nil && !taken {
			err = conn.QueryRow(ctx, `SELECT `+outsiders, lock.DefaultLockID).Scan(&outside)
		}
		switch {
		case err != nil:
			return fmt.Errorf("take the lock of migrations: %w", err)
		case taken || outside:
			return nil
		case time.Now().After(deadline):
			return errMigrating("it holds the lock of migrations")
		case !flow.Pause(ctx, lockPoll):
			return fmt.Errorf("take the lock of migrations: %w", context.Cause(ctx))
		}
	}
}

// SessionUnlock implements lock.SessionLocker.
func (l *locker) SessionUnlock(ctx context.Context, _ *sql.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	_, err := l.conn.Exec(ctx, "ROLLBACK")
	if err := errors.Join(err, l.conn.Close(ctx)); err != nil {
		return fmt.Errorf("give up the lock of migrations: %w", err)
	}
	return nil
}

// unlockTimeout bounds giving up the lock; the server does that, too, when the connection
// is gone.
const unlockTimeout = 5 * time.Second
