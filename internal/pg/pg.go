// Package pg opens pools and runs transactions.
package pg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options of a pool.
type Options struct {
	// MaxConns is the most connections; 0 leaves pgx's default. A new one that the server
	// refuses because it has too many is waited for, as long as the pool has another.
	MaxConns int32

	// ReadBuffer is the size of each connection's read buffer in bytes; 0
	// leaves the default. Pages of rows want 32 KiB.
	ReadBuffer int

	// Settings are run-time parameters of every connection.
	Settings map[string]string

	// CancelStatements ends the statement of a context that ends on the server,
	// too, and keeps its connection. Otherwise only the connection is closed, and the
	// server goes on until it has something to send.
	CancelStatements bool

	// Tracer is called at each statement; nil: none is.
	Tracer pgx.QueryTracer

	// ConnectTimeout bounds the time to open a connection; 0: that of the URL.
	ConnectTimeout time.Duration

	// Later lets Open succeed although the database does not answer now.
	Later bool

	// Prepare looks at a connection each time before it is used; nil: one to a server that
	// takes no writes is replaced after a second. What it returns means what it does in
	// pgxpool.Config.PrepareConn.
	Prepare func(context.Context, *pgx.Conn) (good bool, err error)
}

// cancelTimeout is how long a connection waits for the end of a statement that it
// has cancelled before it is closed.
const cancelTimeout = time.Second

// Open makes a pool and checks that the database answers, unless Options.Later.
func Open(ctx context.Context, url string, o Options) (*pgxpool.Pool, error) {
	cfg, err := ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if o.MaxConns > 0 {
		cfg.MaxConns = o.MaxConns
	}
	if o.ReadBuffer > 0 {
		cfg.ConnConfig.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
			return pgproto3.NewFrontend(bufio.NewReaderSize(r, o.ReadBuffer), w)
		}
	}
	cfg.PingTimeout = pingTimeout
	if o.ConnectTimeout > 0 {
		cfg.ConnConfig.ConnectTimeout = o.ConnectTimeout
	}
	cfg.ConnConfig.Tracer = o.Tracer
	for name, value := range silentSettings() {
		if cfg.ConnConfig.RuntimeParams[name] == "" {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	if o.CancelStatements {
		cfg.ConnConfig.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: cancelTimeout}
		}
	}
	for name, value := range o.Settings {
		cfg.ConnConfig.RuntimeParams[name] = value
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "ledgerfeed"
	}
	withoutTimeouts(cfg.ConnConfig)
	if err := settle(cfg.ConnConfig); err != nil {
		return nil, err
	}
	dropUseless(cfg, o.Prepare)
	withGate(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if o.Later {
		return pool, nil
	}
	if err := checkSettings(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// pingTimeout bounds the question that a connection is asked before it is used, if it
// was idle for a second. One that went silent does not answer, and is replaced.
const pingTimeout = 2 * time.Second

// silentSettings make the server notice that a client has gone without closing its
// connection, because its machine or the network between failed. Until the server
// does, the client's transaction stays open and its row locks with it: those of a
// projector hold up whole workspaces. A network that still acknowledges what it does
// not deliver is noticed by the first setting alone.
func silentSettings() map[string]string {
	return map[string]string{
		"idle_in_transaction_session_timeout": "30s",
		"tcp_user_timeout":                    "30s",
		"tcp_keepalives_idle":                 "10",
		"tcp_keepalives_interval":             "5",
		"tcp_keepalives_count":                "4",
	}
}

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

// Locked reports whether a statement failed because another transaction holds a
// lock that it did not wait for, or not for longer.
func Locked(err error) bool { return hasCode(err, "55P03") }

// Canceled reports whether a statement was ended by its timeout (the setting
// statement_timeout) or by an operator.
func Canceled(err error) bool { return hasCode(err, "57014") }

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
