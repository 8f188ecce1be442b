// Package pg opens pools, shares their connections fairly, and runs transactions.
package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// rollbackTimeout bounds a rollback, which does not end with its caller's context.
const rollbackTimeout = 5 * time.Second

// beginner is a pool or a connection.
type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// InTx runs do in a transaction and commits it, or rolls it back when do fails or
// panics.
func InTx(ctx context.Context, b beginner, do func(pgx.Tx) error) error {
	tx, err := b.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	committed := false
	defer func() {
		if !committed {
			Rollback(ctx, tx)
		}
	}()
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	committed = true
	return nil
}

// rolledBackTurns is how often Again runs a transaction: at a level at which one of several
// beside one another succeeds, the last needs as many turns.
const rolledBackTurns = 30

// Again runs a transaction, and, a moment later each time, again if the database rolled it back
// because of others beside it.
func Again(ctx context.Context, run func() error) error {
	for turn := 1; ; turn++ {
		err := run()
		if !RolledBack(err) || turn == rolledBackTurns {
			return err
		}
		later := time.NewTimer(time.Duration(turn) * time.Millisecond)
		select {
		case <-ctx.Done():
			later.Stop()
			return err
		case <-later.C:
		}
	}
}

// Rollback rolls a transaction back, also when ctx has ended. When that fails the
// connection is broken; it is closed, so that the pool drops it.
func Rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if err := tx.Rollback(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		_ = tx.Conn().Close(ctx)
	}
}

// RolledBack reports whether the database rolled a transaction back because of
// others beside it (a serialization failure or a deadlock): nothing of it was done,
// and it can be run again as it is.
func RolledBack(err error) bool { return hasCode(err, "40001") || hasCode(err, "40P01") }

// Refused reports whether the server refused a statement for what it is or has (its values, a
// constraint, a right, a transaction that takes no writes), so that nothing of its transaction
// was done. Other errors can come when a commit is over, such as a connection that is ended.
func Refused(err error) bool {
	of, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || of.Severity == "FATAL" || of.Severity == "PANIC" || len(of.Code) < 2 {
		return false
	}
	return of.Code == "57014" || slices.Contains([]string{"0A", "21", "22", "23", "25", "28", "2F", "3D", "3F", "42", "53", "54", "55", "P0"}, of.Code[:2])
}

// Unstorable reports whether err says that a value cannot be stored in its column, such as a text with a
// zero byte, or that it breaks a constraint.
func Unstorable(err error) bool {
	of, ok := errors.AsType[*pgconn.PgError](err)
	return ok && len(of.Code) == 5 && (of.Code[:2] == "22" || of.Code[:2] == "23")
}

// Locked reports whether a statement failed because another transaction holds a
// lock that it did not wait for, or not for longer.
func Locked(err error) bool { return hasCode(err, "55P03") }

// Canceled reports whether a statement was ended by its timeout (the setting
// statement_timeout) or by an operator.
func Canceled(err error) bool { return hasCode(err, "57014") }

// TakesNoWrites reports whether a statement failed because its transaction may only read, or the
// disk of the database is full.
func TakesNoWrites(err error) bool { return hasCode(err, "25006") || hasCode(err, "53100") }

// Forbidden reports whether a statement failed because its account lacks a right.
func Forbidden(err error) bool { return hasCode(err, "42501") }

// TooMany reports whether a server refused a new connection because it has as many as it
// may have: in all, of the account, of the database, or of a pooler's clients.
func TooMany(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == "53300" || strings.HasPrefix(pgErr.Message, "no more connections allowed"))
}

// CannotConnect reports whether a server could not be connected to.
func CannotConnect(err error) bool {
	_, cannot := errors.AsType[*pgconn.ConnectError](err)
	return cannot
}

func hasCode(err error, code string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == code
}

// LimitLocks limits how long each further statement of a transaction waits for a
// lock; Locked reports the error.
func LimitLocks(ctx context.Context, tx pgx.Tx, limit time.Duration) error {
	if err := SetLocal(ctx, tx, "lock_timeout", Milliseconds(limit)); err != nil {
		return fmt.Errorf("limit the wait for locks: %w", err)
	}
	return nil
}

// SetLocal sets a run-time parameter for the rest of a transaction.
func SetLocal(ctx context.Context, tx pgx.Tx, name, value string) error {
	_, err := tx.Exec(ctx, `SET LOCAL `+name+` = `+Literal(value), pgx.QueryExecModeExec)
	return err //nolint:wrapcheck // the caller says what it is for
}

// InLimitedTx is InTx in a transaction that waits for each lock no longer than limit. The
// limit comes before everything else, because preparing a statement waits for locks, too.
func InLimitedTx(ctx context.Context, b beginner, limit time.Duration, do func(pgx.Tx) error) error {
	return InTx(ctx, b, func(tx pgx.Tx) error {
		if err := LimitLocks(ctx, tx, limit); err != nil {
			return err
		}
		return do(tx)
	})
}

// Milliseconds writes a duration as PostgreSQL's settings take it.
func Milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// OutsidersHold is SQL: whether the advisory lock with the key $1 is held, and by no session whose
// account fulfils a condition on its id, a.usesysid. Any account of the database can take an
// advisory lock, and must not hold up by it what only some accounts do.
func OutsidersHold(condition string) string {
	return `(SELECT count(*) > 0 AND NOT coalesce(bool_or(` + condition + `), false)
		   FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		  WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
		    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
		    AND l.classid::bigint = ($1::bigint >> 32) AND l.objid::bigint = ($1::bigint & 4294967295))`
}

// Querier is a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Collect returns the rows of a query, each as scan reads it.
func Collect[T any](ctx context.Context, db Querier, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// ForEach scans each row of a query into the same variables and calls each after every row.
func ForEach(ctx context.Context, db Querier, sql string, args, into []any, each func() error) error {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, each)
	return err //nolint:wrapcheck // the caller says what it reads
}

// OldestServer is the oldest major version of PostgreSQL that the schema is tested with.
const OldestServer = 15

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// ServerVersion returns a server's major version, and the version as it names it.
func ServerVersion(ctx context.Context, q querier) (major int, text string, err error) {
	err = q.QueryRow(ctx, `SELECT current_setting('server_version_num')::integer / 10000, current_setting('server_version')`).Scan(&major, &text)
	if err != nil {
		return 0, "", fmt.Errorf("read the version of PostgreSQL: %w", err)
	}
	return major, text, nil
}

// encoding is the one that a database has to have.
const encoding = "UTF8"

// EncodingError says that a database cannot keep every character.
type EncodingError struct{ Database, Encoding string }

// Error says what to do.
func (e *EncodingError) Error() string {
	return fmt.Sprintf("the database %s has the encoding %s, which cannot keep every character of the log, so nothing was made in it: %s", e.Database, e.Encoding, e.Do())
}

// Do is how to make a database that fits. The locale C goes with every encoding, and the
// tables sort by bytes whatever the locale.
func (e *EncodingError) Do() string {
	name := strings.TrimSuffix(e.Database, "_utf8") + "_utf8"
	return fmt.Sprintf("make another database with CREATE DATABASE %s ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0; and name it in DATABASE_URL", pgx.Identifier{name}.Sanitize())
}

// CheckEncoding returns an *EncodingError where the encoding of a database is not UTF8.
func CheckEncoding(ctx context.Context, q querier) error {
	var database, is string
	if err := q.QueryRow(ctx, `SELECT current_database(), current_setting('server_encoding')`).Scan(&database, &is); err != nil {
		return fmt.Errorf("read the encoding of the database: %w", err)
	}
	if is != encoding {
		return &EncodingError{database, is}
	}
	return nil
}
