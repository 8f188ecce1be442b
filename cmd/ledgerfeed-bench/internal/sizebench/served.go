package sizebench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/deliverbench"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/internal/sibling"
	"github.com/ledgerfeed/ledgerfeed/internal/sizing"
)

// program is what is measured.
const program = "ledgerfeed"

// served is a process of ledgerfeed serve.
type served struct {
	db        *measure.Database
	cmd       *exec.Cmd
	name      string            // of its connections to the database
	addresses map[string]string // by listener, host:port
}

// start runs a process with a role, several, or all, and more settings, and waits until it
// listens.
func start(ctx context.Context, db *measure.Database, role string, webhooks *deliverbench.Subscriptions, settings ...string) (*served, error) {
	path, err := sibling.Find(program)
	if err != nil {
		return nil, fmt.Errorf("%w (--only disk,wal does without)", err)
	}
	s := &served{db: db, name: "size-" + role, addresses: map[string]string{}}
	roles := role
	if role == sizing.AllRoles {
		roles = strings.Join([]string{sizing.RoleAPI, sizing.RoleProject, sizing.RoleDeliver, sizing.RoleConsole}, ",")
	}
	s.cmd = &exec.Cmd{Path: path, Args: []string{program, "serve", "--roles", roles}}
	s.cmd.Env = append(os.Environ(),
		"DATABASE_URL="+db.URL, "PGAPPNAME="+s.name, "LEDGERFEED_SECRET_KEY="+webhooks.Key, "LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8", "LEDGERFEED_WEBHOOK_CA_FILE="+webhooks.CAFile,
		"LEDGERFEED_LISTEN=127.0.0.1:0", "LEDGERFEED_CONSOLE_LISTEN=127.0.0.1:0", "LEDGERFEED_ADMIN_LISTEN=127.0.0.1:0", "LEDGERFEED_DRAIN_DELAY=0s")
	s.cmd.Env = append(s.cmd.Env, settings...)
	log, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", program, err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", program, err)
	}
	context.AfterFunc(ctx, func() { _ = s.cmd.Process.Signal(os.Interrupt) })
	if err := s.awaitListening(log); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// awaitListening reads the log of the process until it has named its last listener,
// which is that of operators.
func (s *served) awaitListening(log io.Reader) error {
	lines := bufio.NewScanner(log)
	said := ""
	for lines.Scan() {
		said = lines.Text()
		name, address, found := strings.Cut(said, " url=http://")
		if !found {
			continue
		}
		_, name, _ = strings.Cut(name, "for=")
		s.addresses[name] = strings.TrimSpace(address)
		if name == "admin" {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return nil
		}
	}
	return fmt.Errorf("%s ended: %s", program, said)
}

// address is the host and port of a listener.
func (s *served) address(listener string) string { return s.addresses[listener] }

// stop ends the process.
func (s *served) stop() error {
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cannot stop %s: %w", program, err)
	}
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("%s failed: %w", program, err)
	}
	return nil
}

// connections is how many connections to the database the process has. The names of some
// have its roles before its own.
func (s *served) connections(ctx context.Context) (n int, err error) {
	if err := s.db.Pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE right(application_name, length($1)) = $1`, s.name).Scan(&n); err != nil {
		return 0, fmt.Errorf("cannot count connections: %w", err)
	}
	return n, nil
}

// watch counts the connections of the process until the function that it returns is
// called, which returns the most of them.
func (s *served) watch(ctx context.Context) func() (int, error) {
	var (
		group  sync.WaitGroup
		most   int
		failed error
	)
	ended := make(chan struct{})
	group.Go(func() {
		poll := time.NewTicker(20 * time.Millisecond)
		defer poll.Stop()
		for {
			n, err := s.connections(ctx)
			if err != nil {
				failed = err
				return
			}
			most = max(most, n)
			select {
			case <-ended:
				return
			case <-poll.C:
			}
		}
	})
	return func() (int, error) {
		close(ended)
		group.Wait()
		return most, failed
	}
}

// memory reads how much memory the process has.
func (s *served) memory() (measure.Memory, error) {
	return measure.MemoryOf(strconv.Itoa(s.cmd.Process.Pid))
}

// times are the processor times of the process and of the database's server so far.
func (s *served) times(ctx context.Context) (process, server time.Duration, err error) {
	if process, err = processTime(s.cmd.Process.Pid); err != nil {
		return 0, 0, err
	}
	server, err = serverTime(ctx, s.db)
	return process, server, err
}
