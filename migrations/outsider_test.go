//go:build unix

package migrations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgserver"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// TestOutsidersHoldNoMigration: an account that may not migrate cannot hold up those that may,
// though it can take the advisory lock of migrations.
func TestOutsidersHoldNoMigration(t *testing.T) {
	t.Parallel()
	server := pgserver.NewHost(t).Server("outsider", "fsync=off")
	server.Initialize()
	server.Begin()
	server.Execute("postgres", "CREATE DATABASE ledgerfeed")
	server.Execute("postgres", "CREATE ROLE outsider LOGIN")
	outsider := testkit.Must(pgx.Connect(t.Context(), server.URL("outsider", "ledgerfeed")))(t)
	defer outsider.Close(context.WithoutCancel(t.Context()))
	const migrationLock = 4097083626 // of goose
	testkit.Must(outsider.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, migrationLock))(t)
	if _, err := migrations.Up(t.Context(), server.URL(pgserver.Administrator, "ledgerfeed")); err != nil {
		t.Error(err)
	}
	var held bool
	if err := outsider.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())`).Scan(&held); err != nil || !held {
		t.Errorf("the lock was not held all the time: %v, %v", held, err)
	}
}
