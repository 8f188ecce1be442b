package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// shortTimeout is how long a producer's transaction may take when much else is going on.
const shortTimeout = 10 * time.Second

// timeout is a timeout of connections that do not set their own.
type timeout struct {
	name, source string
	lasts        time.Duration
}

// checkTimeouts says which timeouts the account's connections have that do not set their own,
// as the program's do.
func checkTimeouts(ctx context.Context, x *examination) ([]Finding, error) {
	list, err := readTimeouts(ctx, x.db.URL)
	if pg.Canceled(err) {
		return []Finding{timeoutFinding(&timeout{name: "statement_timeout"})}, nil
	}
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for i := range list {
		findings = append(findings, timeoutFinding(&list[i]))
	}
	if len(findings) == 0 {
		return ok("none is set for this account or database"), nil
	}
	return findings, nil
}

func readTimeouts(ctx context.Context, url string) (list []timeout, err error) {
	conn, err := pg.ConnectAsOthers(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect as another program: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	// If a timeout is too short even for this statement, the statement's error names it.
	rows, err := conn.Query(ctx, `
		SELECT name, CASE source WHEN 'database' THEN 'of the database' WHEN 'user' THEN 'of the account' WHEN 'database user' THEN 'of the account in this database'
		       WHEN 'client' THEN 'of DATABASE_URL' ELSE 'of the server' END, setting::bigint
		  FROM pg_settings WHERE name = ANY ($1) AND setting <> '0' ORDER BY name`, pg.Timeouts())
	if err != nil {
		return nil, fmt.Errorf("read the timeouts: %w", err)
	}
	list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t timeout, err error) {
		var milliseconds int64
		err = row.Scan(&t.name, &t.source, &milliseconds)
		t.lasts = time.Duration(milliseconds) * time.Millisecond
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the timeouts: %w", err)
	}
	return list, nil
}

// timeoutFinding says what a timeout does. The program itself sets its own on its connections.
func timeoutFinding(t *timeout) Finding {
	does := map[string]string{
		"statement_timeout":                   "PostgreSQL ends each statement that takes longer",
		"lock_timeout":                        "PostgreSQL ends each statement that waits longer for a lock",
		"idle_in_transaction_session_timeout": "PostgreSQL closes a connection that does nothing in a transaction for longer",
		"transaction_timeout":                 "PostgreSQL closes a connection whose transaction takes longer",
	}[t.name]
	lasts := "too short to be read"
	if t.lasts > 0 {
		lasts = fmt.Sprintf("%v (%s)", t.lasts, t.source)
	}
	f := Finding{Level: OK, Text: fmt.Sprintf("%s is %s: %s. Ledgerfeed sets its own; producers that append in SQL, and psql, have this one", t.name, lasts, does)}
	if t.lasts < shortTimeout {
		f.Level = Warning
		f.Do = fmt.Sprintf("raise it: ALTER ROLE … SET %s = '1min', or ALTER DATABASE … where it is the database's; a producer's appends may fail under load", t.name)
	}
	return f
}
