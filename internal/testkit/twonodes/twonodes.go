//go:build unix

// Package twonodes runs two PostgreSQL servers that say of themselves what the nodes of a
// Citus cluster say: who they are, and where workspaces are. They know nothing of each other,
// so that a statement shows where it went by the rows that it finds.
package twonodes

import (
	"fmt"
	"log/slog"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/entrance"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgserver"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// Cluster is the two servers. The workspaces with ids that begin with a are at the
// coordinator, all others at the worker.
type Cluster struct {
	Coordinator, Worker *pgserver.Server
}

// Entered is a Cluster with connections to it: to the coordinator, and by the entrances of Set.
type Entered struct {
	*Cluster
	CoordinatorPool *pgxpool.Pool
	Set             *entrance.Set
	Pools           *entrance.Pools
}

// Enter starts a Cluster and connects to it, by pools with options.
func Enter(t testing.TB, logger *slog.Logger, o pg.Options) *Entered {
	t.Helper()
	e := &Entered{Cluster: Start(t)}
	e.CoordinatorPool = testkit.Must(pg.Open(t.Context(), e.URL(), o))(t)
	t.Cleanup(e.CoordinatorPool.Close)
	e.Set = testkit.Must(entrance.New(t.Context(), entrance.Config{URL: e.URL(), Coordinator: e.CoordinatorPool, Logger: logger}))(t)
	e.Pools = e.Open(t, o)
	return e
}

// Open opens further pools to the entrances.
func (e *Entered) Open(t testing.TB, o pg.Options) *entrance.Pools {
	t.Helper()
	pools := testkit.Must(e.Set.Open(t.Context(), o))(t)
	t.Cleanup(pools.Close)
	return pools
}

const database = "ledgerfeed"

// Start starts the servers, each with the tables of the program.
func Start(t testing.TB) *Cluster {
	t.Helper()
	host := pgserver.NewHost(t)
	c := &Cluster{host.Server("coordinator", "fsync=off"), host.Server("worker", "fsync=off")}
	for group, s := range []*pgserver.Server{c.Coordinator, c.Worker} {
		s.Initialize()
		s.Begin()
		s.Execute("postgres", "CREATE DATABASE "+database)
		if _, err := migrations.Up(t.Context(), c.At(s)); err != nil {
			t.Fatal(err)
		}
		s.Execute(database, fmt.Sprintf(`
			SET allow_system_table_mods = on;
			INSERT INTO pg_extension SELECT 1, 'citus', 10, 11, false, '0' FROM pg_database LIMIT 1;
			CREATE TABLE pg_catalog.pg_dist_local_group AS SELECT %d AS groupid;
			CREATE FUNCTION pg_catalog.worker_hash(w text) RETURNS integer LANGUAGE sql AS 'SELECT ascii(w)';
			CREATE TABLE pg_catalog.pg_dist_shard (logicalrelid regclass, shardid bigint, shardminvalue text, shardmaxvalue text);
			INSERT INTO pg_catalog.pg_dist_shard VALUES ('log_head', 1, '-2147483648', '97'), ('log_head', 2, '98', '2147483647');
			CREATE TABLE pg_catalog.pg_dist_placement (shardid bigint, groupid integer, shardstate integer);
			INSERT INTO pg_catalog.pg_dist_placement VALUES (1, 0, 1), (2, 1, 1);
			CREATE FUNCTION pg_catalog.get_shard_id_for_distribution_column(t text, w text) RETURNS bigint LANGUAGE sql AS 'SELECT CASE WHEN ascii(w) <= 97 THEN 1 ELSE 2 END::bigint'`, group))
	}
	return c
}

// URL names both servers, the worker first.
func (c *Cluster) URL() string {
	dir := url.QueryEscape(c.Worker.Dir)
	return fmt.Sprintf("postgres:///%s?host=%s,%s&port=%s,%s&user=%s", database, dir, dir, c.Worker.Port, c.Coordinator.Port, pgserver.Administrator)
}

// At is the address of one of the servers.
func (c *Cluster) At(s *pgserver.Server) string { return s.URL(pgserver.Administrator, database) }

// Move says at both servers that the worker's workspaces are at the coordinator, or at the
// worker again.
func (c *Cluster) Move(toCoordinator bool) {
	group := 1
	if toCoordinator {
		group = 0
	}
	for _, s := range []*pgserver.Server{c.Coordinator, c.Worker} {
		s.Execute(database, fmt.Sprintf(`SET allow_system_table_mods = on; UPDATE pg_catalog.pg_dist_placement SET groupid = %d WHERE shardid = 2`, group))
	}
}
