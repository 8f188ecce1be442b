package instancebench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/deliverbench"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

// program is what is measured.
const program = "ledgerfeed"

// served is a process of ledgerfeed serve.
type served struct {
	cmd       *exec.Cmd
	addresses map[string]string // by listener, host:port
}

// start runs a process with roles and more settings, and waits until it listens.
func start(ctx context.Context, db *measure.Database, roles string, webhooks *deliverbench.Subscriptions, settings ...string) (*served, error) {
	path, err := cli.FindSibling(program)
	if err != nil {
		return nil, err
	}
	s := &served{addresses: map[string]string{}}
	s.cmd = &exec.Cmd{Path: path, Args: []string{program, "serve", "--roles", roles}}
	s.cmd.Env = append(os.Environ(),
		"DATABASE_URL="+db.URL, "LEDGERFEED_SECRET_KEY="+webhooks.Key, "LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8", "LEDGERFEED_WEBHOOK_CA_FILE="+webhooks.CAFile,
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
// which is the one for operators.
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
