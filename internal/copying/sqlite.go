package copying

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// sqlite keeps the copy in a file. It has no decimal numbers: a column of that type would round
// them to floating point, so amounts and hours are text, exactly as the API writes them.
type sqlite struct{}

// sqliteValues is how many values one statement inserts, at most.
const sqliteValues = 400

func openSQLite(file string) (*Database, error) {
	settings := url.Values{"_pragma": {
		"journal_mode(WAL)", // others read while the copy changes
		"synchronous(NORMAL)", "busy_timeout(60000)", "cache_size(-65536)",
	}}
	pool, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+settings.Encode())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", file, err)
	}
	pool.SetMaxOpenConns(1) // SQLite has one writer
	return &Database{pool: pool, dialect: sqlite{}}, nil
}

func (sqlite) begin(time.Duration) string { return "BEGIN IMMEDIATE" }

func (sqlite) prepare() []string { return nil }

func (sqlite) temporary(name string) string { return "temp." + quoted(name) }

func (sqlite) table(name string) string { return quoted(name) }

func (sqlite) typeOf(k kind) string {
	if k == integer || k == boolean {
		return "INTEGER"
	}
	return "TEXT"
}

func (sqlite) columns(ctx context.Context, conn *sql.Conn, table string) ([]string, error) {
	return column1(ctx, conn, "SELECT name FROM pragma_table_info($1)", table)
}

// column1 reads the texts in the first column of a result.
func column1(ctx context.Context, conn *sql.Conn, query string, args ...any) (values []string, err error) {
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it is about
	}
	defer rows.Close()
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, rows.Err()
}

func (sqlite) insert(ctx context.Context, conn *sql.Conn, into string, columns []column, cells []cell) error {
	width := len(columns)
	row := "(?" + strings.Repeat(",?", width-1) + ")"
	insert := "INSERT INTO " + into + " (" + quotedAll(names(columns)) + ") VALUES " + row
	for len(cells) > 0 {
		each := min(max(1, sqliteValues/width), len(cells)/width) // rows in a statement
		now := len(cells) / width / each * each * width
		if err := insertRows(ctx, conn, insert+strings.Repeat(","+row, each-1), each, columns, cells[:now]); err != nil {
			return err
		}
		cells = cells[now:]
	}
	return nil
}

// insertRows runs a statement that inserts some rows, until all cells are inserted.
func insertRows(ctx context.Context, conn *sql.Conn, insert string, each int, columns []column, cells []cell) error {
	statement, err := conn.PrepareContext(ctx, insert) //nolint:sqlclosecheck // closed below
	if err != nil {
		return err //nolint:wrapcheck // the caller names the table
	}
	defer statement.Close()
	args := make([]any, each*len(columns))
	for some := range slices.Chunk(cells, len(args)) {
		for i, c := range some {
			args[i] = sqliteValue(columns[i%len(columns)].kind, c)
		}
		if _, err := statement.ExecContext(ctx, args...); err != nil {
			return err //nolint:wrapcheck // the caller names the table
		}
	}
	return nil
}

// sqliteValue is a value as the driver takes it.
func sqliteValue(k kind, c cell) any {
	switch {
	case c == nil:
		return nil
	case k == boolean:
		return string(c) == "true"
	}
	return string(c) // SQLite makes an integer of it where the column is one
}

func (sqlite) change(ctx context.Context, conn *sql.Conn, action string, columns []string, keys []cell) error {
	statement, err := conn.PrepareContext(ctx, action+" WHERE "+strings.ReplaceAll(quotedAll(columns), ", ", " = ? AND ")+" = ?")
	if err != nil {
		return err //nolint:wrapcheck // the caller names the table
	}
	defer statement.Close()
	args := make([]any, len(columns))
	for at := 0; at < len(keys); at += len(columns) {
		for i := range columns {
			args[i] = string(keys[at+i])
		}
		if _, err := statement.ExecContext(ctx, args...); err != nil {
			return err //nolint:wrapcheck // the caller names the table
		}
	}
	return nil
}

func (sqlite) indexOf(table, name string) string {
	return "temp." + quoted(table+"_"+name) + " ON " + quoted(table)
}

func (sqlite) shown(c column) string {
	if c.kind == boolean {
		return "CASE " + quoted(c.name) + " WHEN 1 THEN 'true' WHEN 0 THEN 'false' END"
	}
	return "CAST(" + quoted(c.name) + " AS TEXT)"
}
