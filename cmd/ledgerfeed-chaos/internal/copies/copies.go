//go:build linux

// Package copies is readers who keep copies of a workspace's lists over the API with
// ledgerfeed-reader sync: one in SQLite, one in a PostgreSQL of its own. Their keys change.
package copies

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/cluster"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// Config describes Copies.
type Config struct {
	Cluster    *cluster.Cluster
	Findings   *check.Findings
	Dir        string
	Program    string                          // ledgerfeed-reader
	Workspaces []string                        // that producers write to
	Keys       func(workspace string) []string // with different permissions
}

// Copies are the copies, with what keeps them.
type Copies struct {
	List     []*Copy
	Server   *cluster.Server // PostgreSQL
	InServer *Copy           // the copy that is there

	cfg Config
}

// Copy is a copy of the lists of one workspace.
type Copy struct {
	*cluster.Process

	args    []string // of sync
	keyFile string

	mu   sync.Mutex
	keys []string // the first one is in use
}

// New prepares the processes, which start with the cluster's.
func New(ctx context.Context, cfg Config) (c *Copies, err error) {
	c = &Copies{cfg: cfg}
	if c.Server, err = cluster.NewServer(ctx, cfg.Cluster, "copy"); err != nil {
		return nil, err
	}
	targets := []struct{ name, to string }{
		{"copy-sqlite", "sqlite:" + filepath.Join(cfg.Dir, "copy.db")},
		{"copy-postgres", c.Server.URLOf("copy")},
	}
	for i, target := range targets {
		one := &Copy{keyFile: filepath.Join(cfg.Dir, target.name+".key"), keys: cfg.Keys(cfg.Workspaces[i%len(cfg.Workspaces)])}
		if err := one.writeKey(); err != nil {
			return nil, err
		}
		served := cfg.Cluster.Processes[i%len(cfg.Cluster.Processes)]
		one.args = []string{"sync", "--url", served.API, "--key-file", one.keyFile, "--to", target.to}
		one.Process, err = cluster.AddProcess(cfg.Cluster, cluster.ProcessConfig{Name: target.name, Program: cfg.Program, Args: one.args})
		if err != nil {
			return nil, err
		}
		c.List, c.InServer = append(c.List, one), one // the last one
	}
	return c, nil
}

// writeKey replaces the file: a process that starts meanwhile reads one key or the other.
func (c *Copy) writeKey() error {
	next := c.keyFile + ".next"
	if err := os.WriteFile(next, []byte(c.keys[0]+"\n"), 0o600); err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	if err := os.Rename(next, c.keyFile); err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	return nil
}

// ChangeKey gives the copy a key with other permissions and starts its process again.
func (c *Copy) ChangeKey() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = append(c.keys[1:], c.keys[0])
	if err := c.writeKey(); err != nil {
		return err
	}
	c.Terminate()
	return nil
}

const (
	// settleTimeout is how long after the last append a copy may take to have everything: a process
	// waits a minute at most between two tries.
	settleTimeout = 2 * time.Minute
	checkEvery    = 2 * time.Second
)

// Check waits until each copy equals the API, which ledgerfeed-reader sync --check tells.
func (c *Copies) Check(ctx context.Context) {
	var all sync.WaitGroup
	for _, one := range c.List {
		all.Go(func() {
			deadline := time.Now().Add(settleTimeout)
			for {
				said, err := one.check(ctx, c.cfg.Program)
				if err == nil {
					return
				}
				if time.Now().After(deadline) || !flow.Sleep(ctx, checkEvery) {
					c.cfg.Findings.Add(check.RuleCopies, "%s %v after the last append: %v\n%s", one.Name, settleTimeout, err, said)
					return
				}
			}
		})
	}
	all.Wait()
}

// check compares the copy with the API, and returns what the command said.
func (c *Copy) check(ctx context.Context, program string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, append(c.args, "--check")...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}

// StartedAgain is how often lists were copied again from their start.
func (c *Copies) StartedAgain() (times int, err error) {
	for _, one := range c.List {
		log, err := os.ReadFile(one.LogFile())
		if err != nil {
			return 0, fmt.Errorf("read the log of a copy: %w", err)
		}
		times += bytes.Count(log, []byte("a list is copied again from its start"))
	}
	return times, nil
}
