package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// PoolerTransaction is the mode of a pooler that hands a connection to the server out for
// one transaction at a time, such as PgBouncer with pool_mode = transaction. Nothing of a
// session is there in the next transaction: no settings, no prepared statements, no
// temporary tables, no locks, no LISTEN.
const PoolerTransaction = "transaction"

// poolerParameter says in a URL that a pooler in that mode answers there.
const poolerParameter = "pooler"

// ThroughPooler returns the URL of a database, in either form, for a pooler in the mode
// PoolerTransaction: each transaction then begins with its settings, each statement is in a
// transaction, and statements are not prepared.
func ThroughPooler(url string) string {
	parameter := poolerParameter + "=" + PoolerTransaction
	switch {
	case !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://"):
		return strings.TrimSpace(url + " " + parameter)
	case strings.Contains(url, "?"):
		return url + "&" + parameter
	}
	return url + "?" + parameter
}

// IsPooled reports whether connections of a configuration go through a pooler in the mode
// PoolerTransaction.
func IsPooled(cfg *pgx.ConnConfig) bool { return writtenIn(cfg.ConnString(), poolerParameter) != "" }

// writtenIn is a parameter as a URL has it, also one that pgx takes for itself; empty:
// the URL has none.
func writtenIn(url, parameter string) string {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return ""
	}
	return cfg.RuntimeParams[parameter]
}

// A pooler passes these on itself.
func passedOn() []string {
	return []string{"application_name", "client_encoding", "standard_conforming_strings", "DateStyle", "TimeZone"}
}

// These are of sessions: the pooler's own connections to the server have them, and it
// watches its clients itself.
func ofSessions() []string {
	return []string{
		"default_transaction_isolation", // checkPooler looks at it
		"idle_session_timeout", "tcp_user_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count",
	}
}

// settle makes connections of a configuration work through a pooler, if its URL says that
// one answers there, and returns the settings that each transaction needs. No settings can
// be added after it.
func settle(cfg *pgx.ConnConfig) (local map[string]string, err error) {
	if !IsPooled(cfg) {
		return nil, nil
	}
	local = map[string]string{}
	for name, value := range cfg.RuntimeParams {
		switch {
		case slices.Contains(passedOn(), name):
			continue
		case name == "options" && value != "":
			return nil, errors.New("DATABASE_URL: a pooler cannot pass options on (LEDGERFEED_POOLER is set): write its settings as parameters of their own")
		case name == "search_path":
			return nil, errors.New("DATABASE_URL: a pooler cannot pass search_path on (LEDGERFEED_POOLER is set): set it for the account, by ALTER ROLE … SET search_path = …")
		case name == readOnlySetting:
			local["transaction_read_only"] = value
		case name != "options" && !slices.Contains(ofSessions(), name):
			local[name] = value
		}
		delete(cfg.RuntimeParams, name)
	}
	if writtenIn(cfg.ConnString(), "default_query_exec_mode") == "" {
		cfg.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	// PgBouncer before version 1.19 may end itself over a cancelled statement (its issue 801).
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler { return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()} }
	return local, nil
}

// beginQuery begins a transaction with settings.
func beginQuery(o pgx.TxOptions, settings map[string]string) string {
	var b strings.Builder
	b.WriteString("BEGIN")
	if o.IsoLevel != "" {
		b.WriteString(" ISOLATION LEVEL " + string(o.IsoLevel))
	}
	for _, mode := range []string{string(o.AccessMode), string(o.DeferrableMode)} {
		if mode != "" {
			b.WriteString(" " + mode)
		}
	}
	for i, name := range slices.Sorted(maps.Keys(settings)) {
		b.WriteString([]string{"; SELECT ", ", "}[min(i, 1)] + "set_config(" + Literal(name) + ", " + Literal(settings[name]) + ", true)")
	}
	return b.String()
}

// Literal is a text as SQL writes it.
func Literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// PoolerError says that a pooler answers at the address of the database, for which the
// settings of connections are not made.
type PoolerError struct{ err error }

func (e *PoolerError) Error() string {
	return fmt.Sprintf("a connection pooler such as PgBouncer answers at the address of the database, and PostgreSQL does not get the settings of connections (%v): "+
		"set LEDGERFEED_POOLER=transaction, or connect to PostgreSQL itself (docs/operations/pooler.md)", e.err)
}

// Unwrap returns what was answered.
func (e *PoolerError) Unwrap() error { return e.err }

// asPoolerError recognizes the refusal of a pooler to pass a setting on. PostgreSQL's own
// for settings that it does not know has another code.
func asPoolerError(err error) error {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && answer.Code == "08P01" && strings.HasPrefix(answer.Message, "unsupported startup parameter") {
		return &PoolerError{errors.New(answer.Message)}
	}
	return err
}

// checkSettings makes sure that a pool's settings reach the server. A pooler may have been
// told to take them and throw them away.
func checkSettings(ctx context.Context, pool *Pool) error {
	var isolation, timeout string
	conn, err := pool.Acquire(ctx) // which has its own limit, for each address
	if err == nil {
		defer conn.Release()
		err = Within(ctx, pool.AnswerTimeout(), func(ctx context.Context) error {
			return conn.QueryRow(ctx, `SELECT current_setting('transaction_isolation'), current_setting('idle_in_transaction_session_timeout') WHERE $1`, true).Scan(&isolation, &timeout)
		})
	}
	switch {
	case err != nil:
		return fmt.Errorf("look at the settings of a connection: %w", asPoolerError(err))
	case isolation != ownSettings()["default_transaction_isolation"]:
		if !pool.pooled {
			return &PoolerError{errors.New("default_transaction_isolation is " + isolation)}
		}
		return fmt.Errorf("transactions begin as %q, and a pooler passes no other level on: ALTER ROLE … SET default_transaction_isolation = 'read committed'", isolation)
	case timeout == "0" && pool.Config().ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] != "0":
		return &PoolerError{errors.New("idle_in_transaction_session_timeout is 0")}
	}
	return nil
}
