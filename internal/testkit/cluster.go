package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// CitusVariable names the nodes of a Citus cluster on which the tests of packages with
// OnCitusToo make their databases, the coordinator first: addresses of the form
// postgres://account@host:port, separated by commas. The account is a superuser on all.
const CitusVariable = "LEDGERFEED_TEST_CITUS"

// Option of Main and MainAs.
type Option func(*server)

// OnCitusToo says that a package's tests hold on distributed tables as well. Where
// CitusVariable is set, they run there instead of on a server of their own. Without it, a
// line says that they were not run there.
func OnCitusToo(s *server) {
	list := os.Getenv(CitusVariable)
	if list == "" {
		_, _ = os.Stdout.WriteString("testkit: not run on Citus: " + CitusVariable + " names no cluster\n")
		return
	}
	c := &cluster{nodes: strings.Split(list, ",")}
	for _, node := range c.nodes {
		if u, err := url.Parse(node); err != nil || u.Scheme != "postgres" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			c.err = fmt.Errorf("%s names the node %q: want postgres://account@host:port", CitusVariable, node)
		}
	}
	s.cluster = c
}

// cluster is a Citus cluster that tests are given. Its databases are one on each node, of
// the same name.
type cluster struct {
	nodes []string
	err   error
}

// url is the address of a database on a node.
func (c *cluster) url(node int, database string) string {
	return strings.TrimSuffix(c.nodes[node], "/") + "/" + database + "?sslmode=disable"
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
	return map[string]string{}
}

// skipOnCitus skips a test that cannot hold on the cluster that the tests run on.
func skipOnCitus(t testing.TB) {
	t.Helper()
	if current == nil || current.cluster == nil {
		return
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	if reason := notOnCitus()[name]; reason != "" {
		t.Skip("cannot hold on Citus: " + reason)
	}
}
