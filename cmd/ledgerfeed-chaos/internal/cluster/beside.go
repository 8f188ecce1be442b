//go:build linux

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"
)

// NewServer starts another PostgreSQL beside the cluster's own, with databases; Close of the
// cluster kills it.
func NewServer(ctx context.Context, c *Cluster, databases ...string) (*Server, error) {
	s, err := c.newServer()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.others = append(c.others, s)
	c.mu.Unlock()
	if err := s.initialize(ctx); err != nil {
		return nil, err
	}
	for _, name := range databases {
		if err := s.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// URLOf is the address of one of the server's databases.
func (s *Server) URLOf(database string) string { return urlAt(s.Address(), database) }

// ProcessConfig describes a process that is not one of Processes.
type ProcessConfig struct {
	Name     string
	Program  string // empty: the program, of the build that the run ends with
	Args     []string
	URL      string   // of its database
	Settings []string // NAME=value
}

// AddProcess prepares a process beside Processes. Start starts it with them.
func AddProcess(c *Cluster, cfg ProcessConfig) (*Process, error) {
	p := &Process{
		Name: cfg.Name, program: cmp.Or(cfg.Program, c.cfg.Program), args: cfg.Args, log: filepath.Join(c.cfg.Dir, "serve-"+cfg.Name+".log"),
	}
	for _, setting := range []string{"LEDGERFEED_LISTEN", "LEDGERFEED_ADMIN_LISTEN", "LEDGERFEED_CONSOLE_LISTEN"} {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		p.listen = append(p.listen, fmt.Sprintf("%s=127.0.0.1:%d", setting, port))
	}
	p.env = c.environment(cfg.URL, slices.Concat(p.listen, []string{"LEDGERFEED_DRAIN_DELAY=0s"}, cfg.Settings)...)
	c.Beside = append(c.Beside, p)
	return p, nil
}

// All are Processes, and the ones that AddProcess has added.
func (c *Cluster) All() []*Process { return slices.Concat(c.Processes, c.Beside) }
