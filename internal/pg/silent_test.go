package pg_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// A connection that has gone silent while nobody used it is asked before it is used,
// and replaced; without that the query would wait as long as its caller.
func TestSilentConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	link, url := testkit.Link(t, testkit.NewDatabase(t))
	opened := testkit.Must(pg.Open(t.Context(), url, pg.Options{MaxConns: 4}))(t)
	cfg := opened.Config()
	opened.Close()
	// As all are that were idle for a second.
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	pool := testkit.Must(pgxpool.NewWithConfig(t.Context(), cfg))(t)
	defer pool.Close()
	defer func() { _ = link.Close() }()
	testkit.Must(pool.Exec(t.Context(), "SELECT"))(t)
	link.Silence()
	asking, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := pool.Exec(asking, "SELECT"); err != nil {
		t.Error(err)
	}
}

// A transaction whose client went silent is ended by the server, and its locks with
// it; every connection of a pool asks for that.
func TestServerEndsSilentTransactions(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	pool, err := pg.Open(t.Context(), database, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var shown string
	if err := pool.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&shown); err != nil || shown != "30s" {
		t.Errorf("idle_in_transaction_session_timeout is %q, %v", shown, err)
	}
	link, url := testkit.Link(t, database)
	short, err := pg.Open(t.Context(), url, pg.Options{Settings: map[string]string{"idle_in_transaction_session_timeout": "200ms"}})
	if err != nil {
		t.Fatal(err)
	}
	defer short.Close()
	defer func() { _ = link.Close() }()
	if _, err := pool.Exec(t.Context(), "CREATE TABLE held (id int); INSERT INTO held VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	tx, err := short.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM held FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	link.Silence()
	locking, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := pool.Exec(locking, "SELECT FROM held FOR UPDATE"); err != nil {
		t.Errorf("the row of a silent client stays locked: %v", err)
	}
	pg.Rollback(t.Context(), tx)
}
