//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// CitusVariable names the nodes of a Citus cluster on which the run makes its database, the
// coordinator first: addresses of the form postgres://account@host:port, separated by commas.
// The account is a superuser. The cluster is not stopped and keeps its data at the end, but
// what it had in a database of the name ledgerfeed is lost.
const CitusVariable = "LEDGERFEED_TEST_CITUS"

// Nodes of a Citus cluster that the run was given, the coordinator first; none: the database is
// one PostgreSQL.
type Nodes []*url.URL

func parseNodes(list string) (found Nodes, err error) {
	for node := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(node)
		if err != nil || u.Scheme != "postgres" || u.Port() == "" || u.User == nil {
			return nil, fmt.Errorf("%s: a node is %q: want postgres://account@host:port", CitusVariable, node)
		}
		found = append(found, u)
	}
	if len(found) < 2 {
		return nil, fmt.Errorf("%s: want a coordinator and at least one worker", CitusVariable)
	}
	return found, nil
}

// workers are the addresses of all nodes but the coordinator, host:port.
func (n Nodes) workers() (list []string) {
	for _, u := range n[min(1, len(n)):] {
		list = append(list, u.Host)
	}
	return list
}

// run runs statements in a database of a node, as the account that the run was given.
func (n Nodes) run(ctx context.Context, i int, database string, statements ...string) (err error) {
	conn, err := pgx.Connect(ctx, n[i].String()+"/"+database+"?sslmode=disable")
	if err != nil {
		return fmt.Errorf("connect to the node %s: %w", n[i].Host, err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s on the node %s: %w", sql, n[i].Host, err)
		}
	}
	return nil
}

// makeDatabase makes the run's account and its database on every node.
func (n Nodes) makeDatabase(ctx context.Context) error {
	for i := range n {
		err := n.run(ctx, i, "postgres", "DROP DATABASE IF EXISTS "+databaseName+" WITH (FORCE)", "CREATE DATABASE "+databaseName, `
			DO $$ BEGIN CREATE ROLE `+databaseName+` SUPERUSER LOGIN PASSWORD '`+password+`'; EXCEPTION WHEN duplicate_object THEN NULL; END $$`)
		if err != nil {
			return err
		}
		if err := n.run(ctx, i, databaseName, "CREATE EXTENSION citus"); err != nil {
			return err
		}
	}
	tell := []string{fmt.Sprintf("SELECT citus_set_coordinator_host('%s', %s)", n[0].Hostname(), n[0].Port())}
	for _, u := range n[1:] {
		tell = append(tell, fmt.Sprintf("SELECT citus_add_node('%s', %s)", u.Hostname(), u.Port()))
	}
	return n.run(ctx, 0, databaseName, tell...)
}

// Workers is how many workers there are; 0: the database is one PostgreSQL.
func (n Nodes) Workers() int { return len(n.workers()) }

// EndSessions ends all sessions at a worker, as when it crashes and is there again at once.
func (n Nodes) EndSessions(ctx context.Context, worker int) error {
	return n.run(ctx, 1+worker, "postgres", `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '`+databaseName+`' AND pid <> pg_backend_pid()`)
}

// MoveShards moves the shards with the rows of a workspace to the worker after theirs.
func (n Nodes) MoveShards(ctx context.Context, workspaceID string) (err error) {
	conn, err := pgx.Connect(ctx, n[0].String()+"/"+databaseName+"?sslmode=disable")
	if err != nil {
		return fmt.Errorf("connect to the coordinator: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var (
		shard    int64
		from     string
		fromPort int
	)
	err = conn.QueryRow(ctx, `
		SELECT p.shardid, n.nodename, n.nodeport FROM pg_dist_placement p JOIN pg_dist_node n ON n.groupid = p.groupid
		 WHERE p.shardid = get_shard_id_for_distribution_column('log_head', $1::text)`, workspaceID).Scan(&shard, &from, &fromPort)
	if err != nil {
		return fmt.Errorf("look for the node of %s: %w", workspaceID, err)
	}
	workers := n.workers()
	to := workers[(1+slices.Index(workers, net.JoinHostPort(from, strconv.Itoa(fromPort))))%len(workers)]
	host, port, err := net.SplitHostPort(to)
	if err != nil {
		return fmt.Errorf("the worker %s: %w", to, err)
	}
	if _, err := conn.Exec(ctx, `SELECT citus_move_shard_placement($1, $2, $3, $4, $5::text::integer)`, shard, from, fromPort, host, port); err != nil {
		return fmt.Errorf("move the shards of %s from %s:%d to %s: %w", workspaceID, from, fromPort, to, err)
	}
	return nil
}
