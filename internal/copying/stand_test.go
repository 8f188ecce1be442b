package copying_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that the tests read with

	"github.com/ledgerfeed/ledgerfeed/internal/copying"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

// place is a database that a test copies to, and reads as a reader does.
type place struct {
	to, schema string
	sql        *sql.DB
}

// inBoth runs a test with each kind of database.
func inBoth(t *testing.T, test func(t *testing.T, p *place)) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "a copy.db")
		p := &place{to: "sqlite:" + file, sql: testkit.Must(sql.Open("sqlite", file))(t)}
		t.Cleanup(func() { _ = p.sql.Close() })
		test(t, p)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		url := testkit.EmptyDatabase(t)
		p := &place{to: url, schema: "billing", sql: testkit.Must(sql.Open("pgx", url+"&search_path=billing&timezone=Asia/Tokyo"))(t)}
		t.Cleanup(func() { _ = p.sql.Close() })
		test(t, p)
	})
}

// copier makes a copier with its own connections.
func (p *place) copier(t testing.TB, address, key string, change ...func(*copying.Config)) (*copying.Copier, *testkit.Buffer) {
	t.Helper()
	said := &testkit.Buffer{}
	database := testkit.Must(copying.Open(t.Context(), p.to, p.schema))(t)
	t.Cleanup(func() { _ = database.Close() })
	cfg := copying.Config{
		API:      testkit.Must(client.New(client.Config{URL: address, Key: key}))(t),
		Database: database, Once: true, Clock: time.Now, Pause: flow.Sleep, Logger: said.Logger(),
	}
	for _, f := range change {
		f(&cfg)
	}
	return copying.New(cfg), said
}

// copy copies once, and returns what was said.
func (p *place) copy(t testing.TB, address, key string, change ...func(*copying.Config)) string {
	t.Helper()
	c, said := p.copier(t, address, key, change...)
	if err := c.Run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return said.String()
}

// check returns what differs from the API.
func (p *place) check(t testing.TB, address, key string) (rows int, differences []string) {
	t.Helper()
	c, _ := p.copier(t, address, key)
	err := c.Check(t.Context(), func(found *copying.Checked) error {
		rows += found.Rows
		for _, d := range found.Differences {
			differences = append(differences, found.List+" "+d.String())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows, differences
}

// equals fails the test if the copy is not as the API.
func (p *place) equals(t testing.TB, address, key string) {
	t.Helper()
	if rows, differences := p.check(t, address, key); rows == 0 || len(differences) > 0 {
		t.Errorf("%d rows; %v", rows, differences)
	}
}

// texts reads rows as text. NULL is null.
func (p *place) texts(t testing.TB, query string) (names []string, rows [][]string) {
	t.Helper()
	result, err := p.sql.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	names = testkit.Must(result.Columns())(t)
	types := testkit.Must(result.ColumnTypes())(t)
	values, targets := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		targets[i] = &values[i]
	}
	for result.Next() {
		if err := result.Scan(targets...); err != nil {
			t.Fatal(err)
		}
		row := make([]string, len(values))
		for i, v := range values {
			switch v := v.(type) {
			case nil:
				row[i] = "null"
			case time.Time:
				if row[i] = v.UTC().Format("2006-01-02T15:04:05.000Z"); types[i].DatabaseTypeName() == "DATE" {
					row[i] = v.Format(time.DateOnly)
				}
			default:
				row[i] = fmt.Sprint(v)
			}
		}
		rows = append(rows, row)
	}
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	return names, rows
}

// value reads one value as text.
func (p *place) value(t testing.TB, query string) string {
	t.Helper()
	_, rows := p.texts(t, query)
	if len(rows) != 1 {
		t.Fatalf("%s: %d rows, want one", query, len(rows))
	}
	return rows[0][0]
}

// change changes the copy behind the copier's back.
func (p *place) change(t testing.TB, statement string) {
	t.Helper()
	if p.schema == "" {
		statement = "PRAGMA busy_timeout = 60000; " + statement // a copier may be writing
	}
	if _, err := p.sql.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// running runs a copier until the returned function is called.
func running(t testing.TB, c *copying.Copier) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.Run(ctx); ctx.Err() == nil {
			t.Errorf("the copier ended by itself: %v", err)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
