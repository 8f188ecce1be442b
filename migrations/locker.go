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
		{"SELECT pg_advisory_xact_lock($1)", []any{lock.DefaultLockID}},
	} {
		_, err := conn.Exec(ctx, statement.sql, statement.args...)
		switch {
		case pg.Locked(err):
			return fmt.Errorf("another process has been migrating for %v: %s", lockedFor, err.Error()) // not wrapped: it is not tried again
		case err != nil:
			return fmt.Errorf("take the lock of migrations: %w", err)
		}
	}
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
