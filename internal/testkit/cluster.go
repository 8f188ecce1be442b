package testkit

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
	"golang.org/x/sync/errgroup"
)

// cluster is a Citus cluster that tests are given. Its databases are one on each node, of
// the same name.
type cluster struct {
	nodes []string
	err   error
}

// newCluster is the cluster of a list of nodes.
func newCluster(list string) *cluster {
	c := &cluster{nodes: strings.Split(list, ",")}
	for _, node := range c.nodes {
		if u, err := url.Parse(node); err != nil || u.Scheme != "postgres" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			c.err = fmt.Errorf("a cluster's node is %q: want postgres://account@host:port", node)
		}
	}
	return c
}

// url is the address of a database on a node.
func (c *cluster) url(node int, database string) string {
	return strings.TrimSuffix(c.nodes[node], "/") + "/" + database + "?sslmode=disable"
}

// has reports whether the server of a connection is a node. Some tests start servers of their own.
func (c *cluster) has(server *pgx.ConnConfig) bool {
	address := net.JoinHostPort(server.Host, strconv.Itoa(int(server.Port)))
	return slices.ContainsFunc(c.nodes, func(node string) bool {
		u, err := url.Parse(node)
		return err == nil && u.Host == address
	})
}

// each runs statements on every node, outside of the tests' databases.
func (c *cluster) each(ctx context.Context, statements ...string) error {
	if c.err != nil {
		return c.err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range c.nodes {
		group.Go(func() error { return c.run(ctx, i, maintenanceName, statements...) })
	}
	return group.Wait()
}

// run runs statements in a database of a node. Citus would say of some that they are
// for this node alone.
func (c *cluster) run(ctx context.Context, node int, database string, statements ...string) (err error) {
	conn, err := pgx.Connect(ctx, c.url(node, database))
	if err != nil {
		return fmt.Errorf("connect to node %d of the cluster: %w", node, err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for _, sql := range append([]string{"SET client_min_messages = warning"}, statements...) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s on node %d of the cluster: %w", sql, node, err)
		}
	}
	return nil
}

// makeTemplate makes an empty database with the extension on every node, and tells the
// coordinator of the workers.
func (c *cluster) makeTemplate(ctx context.Context, name string) error {
	if err := c.each(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return err
	}
	var tell []string
	for i, node := range c.nodes {
		if err := c.run(ctx, i, name, "CREATE EXTENSION citus"); err != nil {
			return err
		}
		u, err := url.Parse(node)
		if err != nil {
			return fmt.Errorf("read the address of a node: %w", err)
		}
		function := "citus_add_node"
		if i == 0 {
			function = "citus_set_coordinator_host"
		}
		tell = append(tell, fmt.Sprintf("SELECT %s('%s', %s)", function, u.Hostname(), u.Port()))
	}
	return c.run(ctx, 0, name, tell...)
}

// notOnCitus are the tests that cannot hold on Citus, and why.
func notOnCitus() map[string]string {
	return map[string]string{
		"TestCostsLittleAtFullLoad":                    "the bound is of statements for many webhooks, which one PostgreSQL alone can plan",
		"TestEventsDoNotWaitForClaims":                 "a trigger of the test waits for an advisory lock, which is of one node",
		"TestLockedTracesDelayNobody":                  "a trigger of the test writes into another table, which no shard can",
		"TestADumpRestoredIntoARunningServerIsNoticed": "a dump of one database is not how a cluster is restored",
		"TestSurvivesDatabaseRestarts":                 "it restarts a server of its own",
		"TestConditionsOfWholeLists":                   "it counts what is read on the connections to one server; lists are read at the node of their workspace",
		"TestAWholeListOverHTTP2":                      "it ends statements on one server; lists are read at the node of their workspace",
		"TestAWholeListOverHTTP2WaitsForTheDatabase":   "it counts connections to one server; lists are read at the node of their workspace",
		"TestAWholeListThatIsBrokenOff":                "it ends statements on one server; lists are read at the node of their workspace",
		"TestRowsThatAreReadTogether":                  "it counts statements on the connections to one server; rows are read at the node of their workspace",
		"TestTilesAtTheEdgeAreWrittenAboutOnceASecond": "a trigger of the test writes into another table, which no shard can",
		"TestPlans":               "plans of a cluster are those of its nodes, in another form",
		"TestPagesReadFewEntries": "plans of a cluster are those of its nodes, in another form",
		"TestLogIsReadByItsKeys":  "it counts what is read on the connections to one server",
	}
}

// maintenanceName is a database that no test uses.
const maintenanceName = "postgres"

// allNodes is the address of a database with all nodes as hosts.
func (c *cluster) allNodes(database string) string {
	all := c.url(0, database)
	for _, node := range c.nodes[1:] {
		if u, err := url.Parse(node); err == nil {
			first, rest, _ := strings.Cut(all, "/"+database)
			all = first + "," + u.Host + "/" + database + rest
		}
	}
	return all
}
