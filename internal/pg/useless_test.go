package pg_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// openAll opens all connections of a pool.
func openAll(t *testing.T, url string, o pg.Options) testkit.DB {
	t.Helper()
	pool := testkit.Must(pg.Open(t.Context(), url, o))(t)
	t.Cleanup(pool.Close)
	held := make([]*pgxpool.Conn, o.MaxConns)
	for i := range held {
		held[i] = testkit.Must(pool.Acquire(t.Context()))(t)
	}
	for _, c := range held {
		c.Release()
	}
	return pool
}

// setDefault sets a default of a database for the connections that are opened from now on.
func setDefault(t *testing.T, owner *pgx.Conn, setting string) {
	t.Helper()
	testkit.Must(owner.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I `+setting+`', current_database()); END $$`))(t)
}

// TestPoolsHealFromDefaults: connections that were opened while the database had a default
// with which nothing works are not used again when it has another one.
func TestPoolsHealFromDefaults(t *testing.T) {
	t.Parallel()
	testkit.Unpooled(t, "the server's connections are the pooler's")
	for _, c := range []struct{ name, bad, statement string }{
		{"no writes", "SET default_transaction_read_only = on", `INSERT INTO probe VALUES (1)`},
		{"another search path", "SET search_path = pg_catalog", `SELECT count(*) FROM probe`},
		{"no rights", "SET role = pg_monitor", `SELECT count(*) FROM probe`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			database := testkit.NewDatabase(t)
			owner := testkit.Must(pgx.Connect(t.Context(), testkit.Direct(database)))(t)
			defer owner.Close(t.Context())
			testkit.Must(owner.Exec(t.Context(), `CREATE TABLE probe (n integer)`))(t)
			setDefault(t, owner, c.bad)
			const connections = 4
			pool := openAll(t, database, pg.Options{MaxConns: connections})
			if _, err := pool.Exec(t.Context(), c.statement); err == nil {
				t.Fatal("the default has no effect")
			}
			setDefault(t, owner, "RESET ALL")
			failed := 0
			for range 3 * connections {
				if _, err := pool.Exec(t.Context(), c.statement); err != nil {
					failed++
				}
			}
			if failed > connections {
				t.Errorf("%d statements failed after the default was set right, on %d connections", failed, connections)
			}
		})
	}
}

// TestReadingLeavesReadOnlyConnections: connections on which nothing is written get no error,
// and are replaced all the same, unless the pool is for a server that takes no writes.
func TestReadingLeavesReadOnlyConnections(t *testing.T) {
	t.Parallel()
	testkit.Unpooled(t, "the server's connections are the pooler's")
	database := testkit.NewDatabase(t)
	owner := testkit.Must(pgx.Connect(t.Context(), testkit.Direct(database)))(t)
	defer owner.Close(t.Context())
	setDefault(t, owner, "SET default_transaction_read_only = on")
	pool := openAll(t, database, pg.Options{MaxConns: 4})
	standby := openAll(t, database, pg.Options{MaxConns: 1, Prepare: func(context.Context, *pgx.Conn) (bool, error) { return true, nil }})
	setDefault(t, owner, "RESET ALL")
	show := func(pool testkit.DB) (value string) {
		if err := pool.QueryRow(t.Context(), `SHOW default_transaction_read_only`).Scan(&value); err != nil {
			t.Error(err)
		}
		return value
	}
	testkit.Eventually(t, func() error {
		if show(pool) != "off" {
			return errors.New("the connection takes no writes, though the database does")
		}
		return nil
	})
	if show(standby) != "on" {
		t.Error("the connection of a pool for a standby was replaced")
	}
}

// TestConnectionsWithoutTheirStatements: where something has removed a connection's prepared
// statements, one statement fails and no more.
func TestConnectionsWithoutTheirStatements(t *testing.T) {
	t.Parallel()
	testkit.Unpooled(t, "the server's connections are the pooler's")
	pool := openAll(t, testkit.NewDatabase(t), pg.Options{MaxConns: 1})
	statements := []string{`SELECT 1 WHERE $1`, `SELECT 2 WHERE $1`, `SELECT 3 WHERE $1`} // with values, so that they are prepared
	for _, s := range statements {
		testkit.Must(pool.Exec(t.Context(), s, true))(t)
	}
	testkit.Must(pool.Exec(t.Context(), `DEALLOCATE ALL`, pgx.QueryExecModeSimpleProtocol))(t)
	failed := 0
	for _, s := range statements {
		if _, err := pool.Exec(t.Context(), s, true); err != nil {
			failed++
		}
	}
	if failed > 1 {
		t.Errorf("%d statements failed, want one", failed)
	}
}

// TestConnectionsStay: errors about values and about other transactions cost no connection.
func TestConnectionsStay(t *testing.T) {
	t.Parallel()
	testkit.Unpooled(t, "the server's connections are the pooler's")
	pool := openAll(t, testkit.NewDatabase(t), pg.Options{MaxConns: 1})
	pid := func() (pid int) {
		if err := pool.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
			t.Error(err)
		}
		return pid
	}
	before := pid()
	for _, s := range []string{
		`SELECT 1/0`, `SELECT 'x'::integer`, `DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'LF001'; END $$`,
		`DO $$ BEGIN RAISE unique_violation; END $$`, `DO $$ BEGIN RAISE serialization_failure; END $$`,
		`DO $$ BEGIN RAISE lock_not_available; END $$`, `DO $$ BEGIN RAISE query_canceled; END $$`,
	} {
		if _, err := pool.Exec(t.Context(), s); err == nil {
			t.Errorf("%s: no error", s)
		}
		if pid() != before {
			t.Errorf("%s: the connection was closed", s)
		}
	}
}
