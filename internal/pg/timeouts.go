package pg

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

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

// answerTimeout limits how long opening a connection may take, and how long a question may take that
// a server answers at once. The address may have another connect_timeout. A link may go on taking
// what is sent and deliver nothing: without a limit, a process that starts would wait for good.
const answerTimeout = 30 * time.Second

// NoticeSilence makes connections of a configuration notice that nothing answers. While a statement
// runs that has arrived, which may take as long as it likes, they notice within 30 seconds that the
// server's host has gone.
func NoticeSilence(cfg *pgconn.Config) {
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = answerTimeout
	}
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}}
	cfg.DialFunc = dialer.DialContext
}

// SilentSettings make the server notice that a client has gone without closing its
// connection, because its machine or the network between failed. Until the server
// does, the client's transaction stays open and its row locks with it: those of a
// projector hold up whole workspaces. A network that still acknowledges what it does
// not deliver is noticed by the first setting alone: idle is how long a transaction may wait for
// its client.
func SilentSettings(idle time.Duration) map[string]string {
	return map[string]string{
		"idle_in_transaction_session_timeout": Milliseconds(idle),
		"tcp_user_timeout":                    "30s",
		"tcp_keepalives_idle":                 "10",
		"tcp_keepalives_interval":             "5",
		"tcp_keepalives_count":                "4",
	}
}

// SilentError says that a database, or something in front of it, accepted what was sent and did not
// answer in time.
type SilentError struct {
	After time.Duration
	err   error
}

func (e *SilentError) Error() string {
	return fmt.Sprintf("the database, or something in front of it, accepted what was sent and did not answer within %v: %v", e.After, e.err)
}

// Unwrap returns how the wait ended.
func (e *SilentError) Unwrap() error { return e.err }

// Within calls ask with a context that ends after most. It returns a *SilentError if that limit, and
// not ctx, ended the call.
func Within(ctx context.Context, most time.Duration, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := ask(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return &SilentError{most, err}
	}
	return err
}
