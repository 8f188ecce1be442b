package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3/lock"

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
	take := func() error {
		if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "SELECT set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', '0', true)", pg.Milliseconds(lockedFor)); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(lock.DefaultLockID))
		return err
	}
	if err := take(); err != nil {
		if pg.Locked(err) {
			err = fmt.Errorf("another process has been migrating for %v: %s", lockedFor, err.Error()) // not wrapped: it is not tried again
		}
		return errors.Join(fmt.Errorf("take the lock of migrations: %w", err), conn.Close(context.WithoutCancel(ctx)))
	}
	l.conn = conn
	return nil
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
