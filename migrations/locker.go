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

// lockedFor is how long a migration waits for each of its two locks, which the migrations of other
// processes may hold.
const lockedFor = 5 * time.Minute

// locker is the migration lock. It holds the lock in its own transaction, which stays open. A
// session lock, as goose takes it, would be lost or left behind if a pooler lent the session to
// other clients in between. The two kinds of lock exclude each other.
type locker struct {
	url  string
	conn *pgx.Conn
}

var _ lock.SessionLocker = (*locker)(nil)

// SessionLock implements lock.SessionLocker.
func (l *locker) SessionLock(ctx context.Context, _ *sql.Conn) (err error) {
	conn, err := pg.Connect(ctx, l.url)
	if err != nil {
		return fmt.Errorf("connect for the migration lock: %w", err)
	}
	if err := take(ctx, conn); err != nil {
		return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	l.conn = conn
	return nil
}

// take takes the lock in a transaction that may stay idle for as long as the migrations take.
func take(ctx context.Context, conn *pgx.Conn) error {
	for _, statement := range []struct {
		sql  string
		args []any
	}{
		{"BEGIN", nil},
		{"SELECT set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', '0', true)", []any{pg.Milliseconds(lockedFor)}},
	} {
		err := atOnce(ctx, conn, func(ctx context.Context) error {
			_, err := conn.Exec(ctx, statement.sql, statement.args...)
			return err //nolint:wrapcheck // wrapped below
		})
		if err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
	}
	if err := takeAdvisory(ctx, conn); err != nil {
		return err
	}
	// An account that cannot migrate may hold the advisory lock, so migrators also lock the goose
	// table to exclude each other. Only its owner can lock it in this mode, and rows can still be
	// added to it.
	err := pg.Within(ctx, lockedFor+conn.Config().ConnectTimeout, func(ctx context.Context) error {
		var there bool
		err := conn.QueryRow(ctx, "SELECT to_regclass('goose_db_version') IS NOT NULL").Scan(&there)
		if err == nil && there {
			_, err = conn.Exec(ctx, "LOCK TABLE goose_db_version IN SHARE UPDATE EXCLUSIVE MODE")
		}
		return err //nolint:wrapcheck // wrapped below
	})
	switch {
	case pg.Locked(err):
		return errMigrating(err.Error())
	case err != nil:
		return fmt.Errorf("take the migration lock: %w", err)
	}
	return nil
}

// errMigrating does not wrap the lock error, so that upTo does not retry.
func errMigrating(reason string) error {
	return fmt.Errorf("another process has been migrating for %v: %s", lockedFor, reason)
}

// lockPoll is the pause between two attempts to take the lock.
const lockPoll = 200 * time.Millisecond

// takeAdvisory takes the advisory lock. It continues without the lock if only accounts that cannot
// migrate hold it.
func takeAdvisory(ctx context.Context, conn *pgx.Conn) error {
	outsiders := pg.OutsidersHold(`has_schema_privilege(a.usesysid, current_schema(), 'CREATE')`)
	for deadline := time.Now().Add(lockedFor); ; {
		var taken, outside bool
		err := atOnce(ctx, conn, func(ctx context.Context) error {
			err := conn.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, lock.DefaultLockID).Scan(&taken)
			if err == nil && !taken {
				err = conn.QueryRow(ctx, `SELECT `+outsiders, lock.DefaultLockID).Scan(&outside)
			}
			return err
		})
		switch {
		case err != nil:
			return fmt.Errorf("take the migration lock: %w", err)
		case taken || outside:
			return nil
		case time.Now().After(deadline):
			return errMigrating("it holds the lock of migrations")
		case !flow.Sleep(ctx, lockPoll):
			return fmt.Errorf("take the migration lock: %w", context.Cause(ctx))
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

// unlockTimeout limits how long releasing the lock may take. The server also releases it when the
// connection is gone.
const unlockTimeout = 5 * time.Second
