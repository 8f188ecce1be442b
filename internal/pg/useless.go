package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// dropUseless makes a pool close connections that are of no further use. PostgreSQL gives a
// connection its defaults when it is opened: one that was opened while the database took no
// writes takes none for as long as it lives, and one that was opened with another search_path
// never finds a table. A pool would hand it out again and again. The same is true of a
// connection to a server that was the primary, or has not become it, unless prepare looks at
// connections instead.
func dropUseless(cfg *pgxpool.Config, prepare func(context.Context, *pgx.Conn) (bool, error)) {
	before := cfg.ConnConfig.OnPgError
	cfg.ConnConfig.OnPgError = func(c *pgconn.PgConn, err *pgconn.PgError) bool {
		return before(c, err) && stillGood(err)
	}
	if prepare != nil || cfg.ConnConfig.RuntimeParams[readOnlySetting] != "" {
		cfg.PrepareConn = prepare
		return
	}
	// A connection that only reads gets no such error, and would go on to read from a server
	// that is behind.
	cfg.PrepareConn = func(_ context.Context, c *pgx.Conn) (good bool, err error) {
		return !readOnly(c.PgConn()) || ageOf(c.PgConn()) < readOnlyAge, nil
	}
}

// readOnlyAge is how long a connection is used that was opened while the database took no
// writes. What reads meanwhile must not open a connection for each statement.
const readOnlyAge = time.Second

// readOnlySetting is the setting of a database, an account or a server that takes no writes.
const readOnlySetting = "default_transaction_read_only"

// readOnly reports whether a connection takes no writes. The server says so without being
// asked.
func readOnly(c *pgconn.PgConn) bool {
	return c.ParameterStatus(readOnlySetting) == "on" || c.ParameterStatus("in_hot_standby") == "on"
}

// openedKey is where a connection has when it was first looked at.
const openedKey = "opened"

// ageOf is how long ago a connection was first looked at, just after it was opened.
func ageOf(c *pgconn.PgConn) time.Duration {
	opened, known := c.CustomData()[openedKey].(time.Time)
	if !known {
		opened = time.Now() // not of an injected clock: it spares the server
		c.CustomData()[openedKey] = opened
	}
	return time.Since(opened)
}

// stillGood reports whether a connection is as good as before after an error: because the
// error is about values or about other transactions, or because a function of the schema
// raises it. After any other the next statement is better off on a new connection: it may be
// about the session's settings, its prepared statements, its memory, or the server at its
// other end.
func stillGood(err *pgconn.PgError) bool {
	if len(err.Code) < 2 {
		return false
	}
	switch err.Code[:2] {
	case "21", "22", "23", // of values
		"40", "55", // of other transactions
		"54", // of sizes
		"LF", // of the schema's functions
		"P0": // of functions
		return true
	}
	return err.Code == "57014" // a statement was cancelled
}
