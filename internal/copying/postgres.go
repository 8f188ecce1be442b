package copying

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// postgres keeps the copy in a schema.
type postgres struct{ schema string }

// DefaultSchema holds the copy in PostgreSQL.
const DefaultSchema = "ledgerfeed"

// idleTimeout is how long the server waits for a copier that has gone silent. Until it ends the
// transaction, no other one can change that list.
const idleTimeout = 30 * time.Second

// pingTimeout bounds the question that a connection is asked before it is used again.
const pingTimeout = 2 * time.Second

// postgresConnections is how many lists can change at the same time.
const postgresConnections = 4

func openPostgres(address, schema string) (*Database, error) {
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("the address of the copy: %w", err)
	}
	for name, value := range map[string]string{"application_name": "ledgerfeed-reader", "client_min_messages": "warning"} {
		if _, given := cfg.RuntimeParams[name]; !given {
			cfg.RuntimeParams[name] = value
		}
	}
	pg.NoticeSilence(&cfg.Config)
	if schema == "" {
		schema = DefaultSchema
	}
	pool := stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(set), stdlib.OptionResetSession(answers), stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false }))
	pool.SetMaxOpenConns(postgresConnections)
	return &Database{pool: pool, dialect: postgres{schema}}, nil
}

// set makes the server notice that the copier has gone. It is told after the connection is there,
// because a server or a pooler that does not know a setting can do without.
func set(ctx context.Context, conn *pgx.Conn) error {
	given := conn.Config().RuntimeParams
	return pg.Within(ctx, conn.Config().ConnectTimeout, func(ctx context.Context) error {
		for name, value := range pg.SilentSettings(idleTimeout) {
			if given[name] != "" {
				continue
			}
			_, err := conn.Exec(ctx, "SET "+name+" = "+pg.Literal(value))
			if _, refused := errors.AsType[*pgconn.PgError](err); err != nil && !refused {
				return err //nolint:wrapcheck // as of opening the connection
			}
		}
		return nil
	})
}

// answers asks a connection before it is used again. One that has gone silent is replaced.
func answers(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		return driver.ErrBadConn
	}
	return nil
}

func (postgres) begin(idle time.Duration) string {
	return "BEGIN; SET LOCAL idle_in_transaction_session_timeout = " + pg.Literal(pg.Milliseconds(idle))
}

func (p postgres) prepare() []string {
	return []string{"CREATE SCHEMA IF NOT EXISTS " + quoted(p.schema)}
}

func (postgres) temporary(name string) string { return "pg_temp." + quoted(name) }

func (p postgres) table(name string) string { return quoted(p.schema) + "." + quoted(name) }

func (postgres) typeOf(k kind) string {
	switch k {
	case numeric:
		return "numeric"
	case integer:
		return "bigint"
	case boolean:
		return "boolean"
	case date:
		return "date"
	case moment:
		return "timestamptz"
	case text, document:
	}
	return "text"
}

func (p postgres) columns(ctx context.Context, conn *sql.Conn, table string) ([]string, error) {
	return column1(ctx, conn, "SELECT column_name::text FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2", p.schema, table)
}

// insert inserts with COPY, which is several times as fast as INSERT.
func (postgres) insert(ctx context.Context, conn *sql.Conn, into string, columns []column, cells []cell) error {
	var lines bytes.Buffer
	for i, c := range cells {
		if c == nil {
			lines.WriteString(`\N`)
		} else {
			escapeCopy(&lines, c)
		}
		if (i+1)%len(columns) == 0 {
			lines.WriteByte('\n')
		} else {
			lines.WriteByte('\t')
		}
	}
	return conn.Raw(func(driver any) error { //nolint:wrapcheck // the caller names the table
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return errors.New("the driver is not pgx")
		}
		_, err := c.Conn().PgConn().CopyFrom(ctx, &lines, "COPY "+into+" ("+quotedAll(names(columns))+") FROM STDIN")
		return err //nolint:wrapcheck // the caller names the table
	})
}

// escapeCopy writes a value in the text format of COPY.
func escapeCopy(to *bytes.Buffer, value []byte) {
	for {
		at := bytes.IndexAny(value, "\\\t\n\r")
		if at < 0 {
			to.Write(value)
			return
		}
		to.Write(value[:at])
		to.WriteByte('\\')
		switch c := value[at]; c {
		case '\t':
			to.WriteByte('t')
		case '\n':
			to.WriteByte('n')
		case '\r':
			to.WriteByte('r')
		default:
			to.WriteByte(c)
		}
		value = value[at+1:]
	}
}

func (postgres) change(ctx context.Context, conn *sql.Conn, action string, columns []string, keys []cell) error {
	from := " USING "
	if strings.HasPrefix(action, "UPDATE ") {
		from = " FROM "
	}
	args := make([]any, len(columns))
	var arrays, names, equal []string
	for i, c := range columns {
		values := make([]string, 0, len(keys)/len(columns))
		for at := i; at < len(keys); at += len(columns) {
			values = append(values, string(keys[at]))
		}
		n := strconv.Itoa(i + 1)
		args[i] = values
		arrays, names = append(arrays, "$"+n+"::text[]"), append(names, "key"+n)
		equal = append(equal, quoted(c)+" = wanted.key"+n)
	}
	statement := action + from + "unnest(" + strings.Join(arrays, ", ") + ") AS wanted (" + strings.Join(names, ", ") + ") WHERE " + strings.Join(equal, " AND ") //nolint:gosec // of names alone, which are quoted
	_, err := conn.ExecContext(ctx, statement, args...)
	return err //nolint:wrapcheck // the caller names the table
}

func (p postgres) indexOf(table, name string) string {
	return quoted(table+"_"+name) + " ON " + p.temporary(table)
}

func (postgres) shown(c column) string {
	switch c.kind {
	case moment:
		return "to_char(" + quoted(c.name) + ` AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
	case date:
		return "to_char(" + quoted(c.name) + ", 'YYYY-MM-DD')"
	case text, numeric, integer, boolean, document:
	}
	return quoted(c.name) + "::text"
}
