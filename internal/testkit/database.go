package testkit

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// current holds the process's server. It is the one package variable here:
// the testing package gives TestMain no other way to hand something to tests.
// Main sets it once, before any test runs, and nothing changes it after.
var current *server //nolint:gochecknoglobals // see above

// stopTimeout bounds what happens outside of any test's own time.
const stopTimeout = time.Minute

// Main runs the tests of a package and exits. A TestMain calls it and nothing
// else. The function migrate brings the schema into the database at url and
// says what it applied: migrations.Up, which nothing in internal may import.
func Main(m *testing.M, migrate migration) {
	current = newServer(migrate)
	code := m.Run()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	err := current.stop(ctx)
	cancel() // os.Exit runs no deferred calls
	if err != nil {
		_, _ = os.Stderr.WriteString("testkit: " + err.Error() + "\n")
		code = max(code, 1)
	}
	os.Exit(code)
}

// NewDatabase returns the URL of a fresh, migrated database that belongs to this test
// alone. It is dropped when the test ends, and connections to it are cut.
func NewDatabase(t testing.TB) string {
	t.Helper()
	return create(t, (*server).template)
}

// EmptyDatabase is NewDatabase without the schema: a database for tests of the migrations.
func EmptyDatabase(t testing.TB) string {
	t.Helper()
	return create(t, func(*server, context.Context) (string, error) { return "template0", nil })
}

// Pool is NewDatabase with a pool of connections, closed when the test ends.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), NewDatabase(t))
	if err != nil {
		t.Fatalf("testkit: open a pool: %v", err)
	}
	t.Cleanup(pool.Close) // before the drop: cleanups run last in, first out
	return pool
}

// create clones what source names and registers the drop.
func create(t testing.TB, source func(*server, context.Context) (string, error)) string {
	t.Helper()
	if current == nil {
		t.Fatal("testkit: the package's TestMain must call testkit.Main")
	}
	template, err := source(current, t.Context())
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	name, err := current.clone(t.Context(), template, t.Name())
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	t.Cleanup(func() {
		// Not t.Context(): that one is cancelled before cleanups run.
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := current.drop(ctx, name); err != nil {
			t.Errorf("testkit: %v", err)
		}
	})
	return current.url(name)
}
