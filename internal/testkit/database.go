package testkit

import (
	"context"
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// current holds the process's server. It is the one package variable here:
// the testing package gives TestMain no other way to hand something to tests.
// Main sets it once, before any test runs, and nothing changes it after.
var current *server //nolint:gochecknoglobals // see above

// stopTimeout bounds what happens outside of any test's own time.
const stopTimeout = time.Minute

// RoleVariable names the role of PostgreSQL under which the tests of MainAs run;
// without it, they run as the owner of the tables, who is a superuser.
const RoleVariable = "LEDGERFEED_TEST_ROLE"

// Option of Main and MainAs.
type Option func(*server)

// Waits says that tests of a package mostly wait: for PostgreSQL, for a notification or for a
// time that has to pass. Twice as many as there are processors run at once then, which is not
// more work at a time. The flag -parallel still decides.
func Waits(*server) {
	if flag.Parsed() {
		return // a TestMain that reads flags of its own says itself what it wants
	}
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		_, _ = os.Stderr.WriteString("testkit: " + err.Error() + "\n")
	}
}

// Main runs the tests of a package and exits. A TestMain calls it and nothing
// else. The function migrate brings the schema into the database at url and
// says what it applied: migrations.Up, which nothing in internal may import.
func Main(m *testing.M, migrate migration, options ...Option) { run(m, newServer(migrate), options) }

// MainAs is Main for a package whose tests can run under a role. The function grant
// makes the roles and gives them their rights: migrations.ApplyGrants.
func MainAs(m *testing.M, migrate migration, grant func(ctx context.Context, url string) error, options ...Option) {
	s := newServer(migrate)
	if role := os.Getenv(RoleVariable); role != "" {
		s.grant, s.role = grant, role
	}
	run(m, s, options)
}

func run(m *testing.M, s *server, options []Option) {
	for _, option := range options {
		option(s)
	}
	current = s
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
	return asRole(t, create(t, (*server).template))
}

// FilledDatabase is NewDatabase with what a function has put into one, which is called at the
// first use of a name in the process, in the test that comes first. What many tests begin with
// is written once so, and copied. The function must end its connections.
func FilledDatabase(t testing.TB, name string, put func(url string)) string {
	t.Helper()
	return asRole(t, create(t, func(s *server, _ context.Context) (string, error) {
		return s.fill(name, func(url string) { put(asRole(t, url)) })
	}))
}

// asRole is the address of a database for the role of the tests.
func asRole(t testing.TB, url string) string {
	t.Helper()
	if current.role != "" {
		url += roleParameter + current.role
		mustBe(t, url, current.role)
	}
	return throughPooler(t, url)
}

// mustBe fails the test if an address is not for a role: tests that run as the owner
// instead prove nothing about the role's rights.
func mustBe(t testing.TB, url, role string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("testkit: connect as %s: %v", role, err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var user string
	if err := conn.QueryRow(t.Context(), `SELECT current_user`).Scan(&user); err != nil || user != role {
		t.Fatalf("testkit: the test runs as %q, want %s: %v", user, role, err)
	}
}

// roleParameter ends a database's address that is for a role.
const roleParameter = "&role="

// EmptyDatabase is NewDatabase without the schema: a database for tests of the migrations.
func EmptyDatabase(t testing.TB) string {
	t.Helper()
	return create(t, func(*server, context.Context) (string, error) { return "template0", nil })
}

// OwnerConn connects to the database of a pool as the owner of the tables, for what a
// program must not be able to do, such as damage. It is closed when the test ends.
func OwnerConn(t testing.TB, of pg.DB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), ownerURL(of))
	if err != nil {
		t.Fatalf("testkit: connect as the owner: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// ownerURL lacks requirepeer, too, which pgx does not know, for a server that a test has
// of its own.
func ownerURL(of pg.DB) string {
	url, _, _ := strings.Cut(Direct(pg.ConfigOf(of).ConnString()), roleParameter)
	url, _, _ = strings.Cut(url, "&requirepeer=")
	return url
}

// AsOwner executes SQL, without arguments also several statements, as OwnerConn may. What it
// read and wrote is in the statistics of the server when it returns: a connection that idles
// reports that up to ten seconds later, while a test may count what something else reads.
func AsOwner(t testing.TB, of pg.DB, sql string, args ...any) {
	t.Helper()
	conn := OwnerConn(t, of)
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("testkit: %s: %v", sql, err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
		t.Fatalf("testkit: report the statistics of the owner: %v", err)
	}
}

// GrantAgain gives the role of MainAs its rights on tables that a test has made as the
// owner.
func GrantAgain(t testing.TB, of pg.DB) {
	t.Helper()
	if current.grant == nil {
		return
	}
	if err := current.grant(t.Context(), ownerURL(of)); err != nil {
		t.Fatalf("testkit: %v", err)
	}
}

// Pool is NewDatabase with a pool of connections, closed when the test ends.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return OpenPool(t, NewDatabase(t), 0)
}

// create clones what source names and registers the drop.
func create(t testing.TB, source func(*server, context.Context) (string, error)) string {
	t.Helper()
	if current == nil {
		t.Fatal("testkit: the package's TestMain must call testkit.Main")
	}
	// go test answers from its cache where the variables that tests read are as they were. What
	// TestMain reads before they run does not count.
	_ = os.Getenv(RoleVariable)
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
