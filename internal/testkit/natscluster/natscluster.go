// Package natscluster runs NATS servers with JetStream for tests, each in a process of its
// own, so that one can be killed as a machine is.
package natscluster

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// variable tells a child process which server it is.
const variable = "LEDGERFEED_TEST_NATS_NODE"

// startTimeout is how long a server may take to start.
const startTimeout = time.Minute

// node is what a child process is told.
type node struct {
	Name, Dir   string
	Host        string
	Port        int
	ClusterPort int // 0: it is alone
	Routes      []string
}

// Serve runs a server until the process is killed, if this process was started to be one,
// and reports whether it was. TestMain calls it first.
func Serve() bool {
	text, is := os.LookupEnv(variable)
	if !is {
		return false
	}
	if err := serve(text); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "natscluster:", err)
		os.Exit(1)
	}
	return true
}

func serve(text string) error {
	var n node
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return fmt.Errorf("read %s: %w", variable, err)
	}
	options := &server.Options{
		ServerName: n.Name, Host: n.Host, Port: n.Port, JetStream: true, StoreDir: n.Dir, NoSigs: true, NoLog: true,
	}
	if n.ClusterPort != 0 {
		options.Cluster = server.ClusterOpts{Name: "tests", Host: n.Host, Port: n.ClusterPort}
		for _, r := range n.Routes {
			u, err := url.Parse(r)
			if err != nil {
				return fmt.Errorf("read a route: %w", err)
			}
			options.Routes = append(options.Routes, u)
		}
	}
	s, err := server.NewServer(options)
	if err != nil {
		return fmt.Errorf("make a server: %w", err)
	}
	s.Start()
	s.WaitForShutdown()
	return nil
}

// Cluster is servers that know each other.
type Cluster struct {
	t         testing.TB
	nodes     []node
	processes []*exec.Cmd // nil: killed
}

// Start starts a cluster of n servers, or a single one, which end with the test.
func Start(t testing.TB, n int) *Cluster {
	t.Helper()
	c := &Cluster{t: t, nodes: make([]node, n), processes: make([]*exec.Cmd, n)}
	host, ports := reserve(t, 2*n)
	dir := t.TempDir()
	for i := range c.nodes {
		c.nodes[i] = node{Name: fmt.Sprintf("n%d", i), Dir: filepath.Join(dir, fmt.Sprint(i)), Host: host, Port: ports[i]}
		if n > 1 {
			c.nodes[i].ClusterPort = ports[n+i]
			for k := range n {
				c.nodes[i].Routes = append(c.nodes[i].Routes, fmt.Sprintf("nats://%s:%d", host, ports[n+k]))
			}
		}
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.Kill(i)
		}
	})
	for i := range c.nodes {
		c.Run(i)
	}
	c.ready()
	return c
}

// URL is the address of all servers.
func (c *Cluster) URL() string {
	var hosts []string
	for i := range c.nodes {
		hosts = append(hosts, fmt.Sprintf("%s:%d", c.nodes[i].Host, c.nodes[i].Port))
	}
	return "nats://" + strings.Join(hosts, ",")
}

// Run starts a server that does not run.
func (c *Cluster) Run(i int) {
	c.t.Helper()
	text, err := json.Marshal(c.nodes[i])
	if err != nil {
		c.t.Fatal(err)
	}
	child := testkit.Child(variable + "=" + string(text))
	if err := child.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.processes[i] = child
}

// Kill kills a server, unless that was done.
func (c *Cluster) Kill(i int) {
	if c.processes[i] == nil {
		return
	}
	_ = c.processes[i].Process.Kill()
	_ = c.processes[i].Wait() // it was killed
	c.processes[i] = nil
}

// Index is the number of a server by its name.
func (c *Cluster) Index(name string) int {
	for i := range c.nodes {
		if c.nodes[i].Name == name {
			return i
		}
	}
	c.t.Fatalf("there is no server %s", name)
	return -1
}

// Connect connects to the cluster until the test ends.
func (c *Cluster) Connect() (*nats.Conn, nats.JetStreamContext) {
	c.t.Helper()
	var conn *nats.Conn
	testkit.Within(c.t, startTimeout, func() (err error) {
		conn, err = nats.Connect(strings.ReplaceAll(c.URL(), ",", ",nats://"), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
		if err != nil {
			return fmt.Errorf("connect to NATS: %w", err)
		}
		return nil
	})
	c.t.Cleanup(conn.Close)
	js, err := conn.JetStream()
	if err != nil {
		c.t.Fatal(err)
	}
	return conn, js
}

// ready waits until the cluster can make streams. The stream that it makes stays: a server that
// deletes its last one removes the folder of all streams some time later, and the next one that is
// made at that moment fails.
func (c *Cluster) ready() {
	c.t.Helper()
	_, js := c.Connect()
	testkit.Within(c.t, startTimeout, func() error {
		if _, err := js.AddStream(&nats.StreamConfig{Name: "READY", Replicas: len(c.nodes)}); err != nil {
			return fmt.Errorf("make a stream: %w", err)
		}
		return nil
	})
}

// reserve returns an address of this machine and ports of it that nobody else takes while the
// test runs. A server of a cluster has to know the ports of the others before they start, and
// has the same ones after it was killed, so the kernel cannot choose when it starts.
func reserve(t testing.TB, n int) (host string, ports []int) {
	t.Helper()
	host = testkit.OwnHost(t)
	var config net.ListenConfig
	var open []net.Listener // until all are found, so that none is found twice
	for range n {
		l := testkit.Must(config.Listen(t.Context(), "tcp", host+":0"))(t)
		open = append(open, l)
		address, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			t.Fatalf("listening at %v", l.Addr())
		}
		ports = append(ports, address.Port)
	}
	for _, l := range open {
		_ = l.Close()
	}
	return host, ports
}
