package testkit

import (
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// PoolerVariable set to pg.PoolerTransaction makes the pools of tests go through a
// PgBouncer in transaction mode. What tests do as the owner of the tables goes past it.
const PoolerVariable = "LEDGERFEED_TEST_POOLER"

// Pooled reports whether tests go through a pooler, which keeps nothing of a session from
// one transaction to the next and passes no notifications on.
func Pooled() bool { return os.Getenv(PoolerVariable) == pg.PoolerTransaction }

// Unpooled skips a test that cannot hold through a pooler, and says why.
func Unpooled(t testing.TB, why string) {
	t.Helper()
	if Pooled() {
		t.Skip("through a pooler in transaction mode: " + why)
	}
}

// throughPooler is the address of a database by way of the pooler, if tests go through one.
func throughPooler(t testing.TB, address string) string {
	t.Helper()
	if !Pooled() {
		return address
	}
	b, err := current.pooled()
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	return pg.ThroughPooler(withHost(address, b.Dir))
}

// Direct is the address of a database of NewDatabase past the pooler, for what a test does
// to the server itself. The address of a server that a test has of its own is that already.
func Direct(address string) string {
	if !Pooled() {
		return address
	}
	cfg, err := pgx.ParseConfig(address)
	if err != nil || !pg.IsPooled(cfg) {
		return address
	}
	server, err := current.started()
	if err != nil {
		return address // and connecting to it fails
	}
	at, err := url.Parse(server.URL())
	if err != nil {
		return address
	}
	return withHost(address, at.Query().Get("host"))
}

// withHost is an address with another directory of the socket, and without a pooler's mode.
func withHost(address, dir string) string {
	at, err := url.Parse(address)
	if err != nil {
		return address
	}
	query := at.Query()
	query.Set("host", dir)
	query.Del("pooler")
	if query.Get("options") == "" {
		query.Del("options")
	}
	at.RawQuery = query.Encode()
	return at.String()
}

// OpenPool opens a pool as pgxpool.New does, or as a program does that goes through a pooler.
func OpenPool(t testing.TB, address string, most int32) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatalf("testkit: open a pool: %v", err)
	}
	if most > 0 {
		cfg.MaxConns = most
	}
	if Pooled() && pg.IsPooled(cfg.ConnConfig) {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		delete(cfg.ConnConfig.RuntimeParams, "pooler")
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatalf("testkit: open a pool: %v", err)
	}
	t.Cleanup(pool.Close) // before the drop: cleanups run last in, first out
	return pool
}

// AsPool is a pool that was handed on as what it can do.
func AsPool(db pg.DB) DB { return db.(DB) } //nolint:forcetypeassert // a test's own pool

// DB is a pool of either kind.
type DB interface {
	pg.DB

	Close()
	Reset()
	Config() *pgxpool.Config
	Stat() *pgxpool.Stat
}
