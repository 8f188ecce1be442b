//go:build linux

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/badnetwork"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// Config describes a Cluster.
type Config struct {
	Dir       string // for everything it makes
	Program   string // the ledgerfeed binary
	Processes int    // that serve
	Program0  string // another build that the run begins with; empty: Program
}

// Cluster is PostgreSQL and the processes of the program.
type Cluster struct {
	Processes []*Process
	Links     []*badnetwork.Proxy // to the database, of each process
	Producers *badnetwork.Proxy   // to the database, of producers
	Beside    []*Process          // that AddProcess has added

	cfg     Config
	account account
	bin     string
	disk    *disk
	running sync.WaitGroup
	stop    context.CancelFunc

	mu       sync.Mutex
	settings []string // NAME=value, of every process of the program
	primary  *Server
	replica  *Server // nil: there is none
	others   []*Server
	serial   int // of data directories
}

// New starts PostgreSQL and prepares the processes, which Start starts.
func New(ctx context.Context, cfg Config) (*Cluster, error) {
	c := &Cluster{cfg: cfg, stop: func() {}}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) prepare(ctx context.Context) (err error) {
	if c.account, err = serverAccount(); err != nil {
		return err
	}
	if c.bin, err = findPrograms(ctx, c.account, c.cfg.Dir); err != nil {
		return err
	}
	if c.disk, err = newDisk(filepath.Join(c.cfg.Dir, "disk")); err != nil {
		return err
	}
	if c.primary, err = c.newServer(); err != nil {
		return err
	}
	if err := c.primary.initialize(ctx); err != nil {
		return err
	}
	if c.Producers, err = badnetwork.Listen(ctx, c.primary.Address()); err != nil {
		return err
	}
	for i := range c.cfg.Processes {
		link, err := badnetwork.Listen(ctx, c.primary.Address())
		if err != nil {
			return err
		}
		c.Links = append(c.Links, link)
		p, err := c.newProcess(string(rune('a'+i)), link)
		if err != nil {
			return err
		}
		c.Processes = append(c.Processes, p)
	}
	return nil
}

// newServer prepares a server with a data directory of its own.
func (c *Cluster) newServer() (*Server, error) {
	c.mu.Lock()
	c.serial++
	n := c.serial
	c.mu.Unlock()
	return newServer(c.bin, c.account, filepath.Join(c.disk.dir, "pg"+strconv.Itoa(n)))
}

func (c *Cluster) newProcess(name string, link *badnetwork.Proxy) (*Process, error) {
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = FreePort(); err != nil {
			return nil, err
		}
	}
	address := func(i int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[i])) }
	p := &Process{
		Name: name, API: "http://" + address(0), Admin: "http://" + address(1),
		program: c.cfg.Program, args: []string{"serve"}, log: filepath.Join(c.cfg.Dir, "serve-"+name+".log"), database: link.Address(),
		listen: []string{"LEDGERFEED_LISTEN=" + address(0), "LEDGERFEED_ADMIN_LISTEN=" + address(1), "LEDGERFEED_CONSOLE_LISTEN=" + address(2)},
	}
	if c.cfg.Program0 != "" {
		p.program = c.cfg.Program0
	}
	return p, nil
}

// environment of a process of the program whose database has a URL.
func (c *Cluster) environment(url string, settings ...string) (env []string) {
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "LEDGERFEED_") && !strings.HasPrefix(setting, "DATABASE_URL=") {
			env = append(env, setting)
		}
	}
	env = append(env, "DATABASE_URL="+url, "LEDGERFEED_DATA_DIR="+filepath.Join(c.cfg.Dir, "data"))
	return slices.Concat(env, c.settings, settings)
}

// Configure adds settings, NAME=value, of every process of the program, before the
// first one is started.
func (c *Cluster) Configure(settings ...string) { c.settings = append(c.settings, settings...) }

// Start starts the processes that serve.
func (c *Cluster) Start(ctx context.Context) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	for _, p := range c.Processes {
		p.env = c.environment(urlAt(p.database, databaseName), append(p.listen, "LEDGERFEED_DRAIN_DELAY=0s")...)
	}
	for _, p := range c.All() {
		c.running.Go(func() { p.run(running) })
	}
	c.running.Go(func() {
		every := time.NewTicker(500 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-running.Done():
				return
			case <-every.C:
				for _, p := range c.All() {
					p.sample()
				}
			}
		}
	})
	c.running.Go(func() { c.vacuum(running) })
}

const vacuumEvery = 20 * time.Second

// vacuum does what autovacuum would do if PostgreSQL were not killed every few seconds: at each
// crash it forgets how many dead rows its tables have, and begins to count anew. So in a long run
// no table would ever be vacuumed or analyzed.
func (c *Cluster) vacuum(ctx context.Context) {
	for flow.Sleep(ctx, vacuumEvery) {
		_ = c.Primary().Exec(ctx, "VACUUM (ANALYZE, SKIP_LOCKED)") // or a fault is under way
	}
}

// Command prepares a command of the program, on the database past every proxy, with
// the build that Upgrade last chose.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	return c.CommandAt(ctx, c.Primary().URL(), args...)
}

// ProducersCommand is Command by the way that producers have to the database.
func (c *Cluster) ProducersCommand(ctx context.Context, args ...string) *exec.Cmd {
	return c.CommandAt(ctx, c.ProducersURL(), args...)
}

// CommandAt prepares a command on the database at a URL.
func (c *Cluster) CommandAt(ctx context.Context, url string, args ...string) *exec.Cmd {
	c.mu.Lock()
	program := c.cfg.Program
	if c.cfg.Program0 != "" {
		program = c.cfg.Program0
	}
	c.mu.Unlock()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = c.environment(url)
	return cmd
}

// Output runs a command of the program and returns its standard output. The error
// has what it wrote to standard error.
func (c *Cluster) Output(ctx context.Context, args ...string) ([]byte, error) {
	return output(c.Command(ctx, args...), args)
}

// OutputAt is Output on the database at a URL, with the build that the run ends with.
func (c *Cluster) OutputAt(ctx context.Context, url string, args ...string) ([]byte, error) {
	cmd := c.CommandAt(ctx, url, args...)
	cmd.Path = c.cfg.Program
	return output(cmd, args)
}

func output(cmd *exec.Cmd, args []string) ([]byte, error) {
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("ledgerfeed %s: %w\n%s%s", strings.Join(args, " "), err, out.Bytes(), errOut.Bytes())
	}
	return out.Bytes(), nil
}

// Upgradable tells whether the run began with another build.
func (c *Cluster) Upgradable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg.Program0 != ""
}

// Upgrade makes Config.Program the build of every start from now on.
func (c *Cluster) Upgrade() {
	c.mu.Lock()
	c.cfg.Program0 = ""
	c.mu.Unlock()
	for _, p := range c.Processes {
		p.Replace(c.cfg.Program)
	}
}

// Primary is the server that is written to.
func (c *Cluster) Primary() *Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.primary
}

// Databases are all ways to the database.
func (c *Cluster) Databases() []*badnetwork.Proxy {
	return append(slices.Clone(c.Links), c.Producers)
}

// StopPrograms ends the processes that serve.
func (c *Cluster) StopPrograms() {
	c.stop()
	c.running.Wait()
}

// Close ends everything.
func (c *Cluster) Close() error {
	c.StopPrograms()
	var errs []error
	for _, p := range c.Links {
		errs = append(errs, p.Close())
	}
	if c.Producers != nil {
		errs = append(errs, c.Producers.Close())
	}
	for _, s := range append(c.others, c.replica, c.primary) {
		if s != nil {
			s.Kill()
		}
	}
	if c.disk != nil {
		errs = append(errs, c.disk.close())
	}
	return errors.Join(errs...)
}

// ProducersURL is the database by the way that producers have to it.
func (c *Cluster) ProducersURL() string { return urlAt(c.Producers.Address(), databaseName) }
