package pg

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Timeouts are the settings by which PostgreSQL ends a statement or a session that takes too
// long.
func Timeouts() []string {
	return []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", transactionTimeout}
}

const (
	// transactionTimeout came with PostgreSQL 17. An older server refuses a connection that
	// names it, so that it is set when the server's version is known.
	transactionTimeout   = "transaction_timeout"
	transactionTimeoutIn = 17
)

// withoutTimeouts takes the timeouts off connections that the database, the account or the
// server's configuration would give them, unless the address or the caller sets them. They
// are meant for other programs: a migration, a rebuild and maintenance take as long as they
// take, and what must end sooner here sets its own.
func withoutTimeouts(cfg *pgx.ConnConfig) {
	for _, name := range Timeouts() {
		if cfg.RuntimeParams[name] == "" && name != transactionTimeout {
			cfg.RuntimeParams[name] = "0"
		}
	}
	if cfg.RuntimeParams[transactionTimeout] != "" || IsPooled(cfg) {
		return
	}
	before := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		if before != nil {
			if err := before(ctx, c); err != nil {
				return err
			}
		}
		version := c.ParameterStatus("server_version") // such as 17.4 (Debian 17.4-1) or 18beta1
		digits := len(version) - len(strings.TrimLeft(version, "0123456789"))
		if major, _ := strconv.Atoi(version[:digits]); major < transactionTimeoutIn {
			return nil
		}
		err := Within(ctx, cfg.ConnectTimeout, func(ctx context.Context) error {
			_, err := c.Exec(ctx, "SET "+transactionTimeout+" = 0").ReadAll()
			return err //nolint:wrapcheck // wrapped below
		})
		if err != nil {
			return fmt.Errorf("set %s: %w", transactionTimeout, err)
		}
		return nil
	}
}

// ConnectAsOthers opens a connection that has the timeouts that another program of this
// account has.
func ConnectAsOthers(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if _, err := settle(cfg.ConnConfig); err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	return conn, asPoolerError(err)
}
