package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// asProgram makes this test binary the program itself, so that tests can run
// it as a process, with the race detector if they have it.
const asProgram = "LEDGERFEED_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "":
	case asNextProgram:
		os.Exit(nextProgram())
	default:
		main()
		return
	}
	testkit.Main(m, migrations.Up)
}

// command prepares the program as a process on the database at url (empty: its
// own, wherever the arguments say).
func command(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, args...)
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "LEDGERFEED_") && !strings.HasPrefix(setting, "DATABASE_URL=") {
			c.Env = append(c.Env, setting)
		}
	}
	c.Env = append(c.Env, asProgram+"=1", "LEDGERFEED_LISTEN=127.0.0.1:0", "LEDGERFEED_CONSOLE_LISTEN=127.0.0.1:0", "LEDGERFEED_ADMIN_LISTEN=127.0.0.1:0",
		"LEDGERFEED_DRAIN_DELAY=0s",
		"LEDGERFEED_DATA_DIR="+t.TempDir())
	if url != "" {
		c.Env = append(c.Env, "DATABASE_URL="+url)
	}
	return c
}

// result is what a command that ended left.
type result struct {
	code        int
	out, errOut string
}

func runCommand(t *testing.T, c *exec.Cmd) result {
	t.Helper()
	var out, errOut bytes.Buffer
	c.Stdout, c.Stderr = &out, &errOut
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{c.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// succeed runs a command that must succeed, and returns its standard output.
func succeed(t *testing.T, url string, args ...string) string {
	t.Helper()
	r := runCommand(t, command(t, url, args...))
	if r.code != cli.ExitDone {
		t.Fatalf("%v: exit %d\n%s%s", args, r.code, r.out, r.errOut)
	}
	return r.out
}

// process is the program running beside a test.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *outputLog
	done chan struct{}
}

func startProcess(t *testing.T, c *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: c, log: newOutputLog(), done: make(chan struct{})}
	c.Stdout, c.Stderr = p.log, p.log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = c.Wait()
		p.log.end()
	}()
	t.Cleanup(p.kill)
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop ends the process as an operator does, and returns its exit status.
func (p *process) stop() int {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.t.Errorf("the process did not stop within a minute:\n%s", p.log)
		p.kill()
	}
	return p.cmd.ProcessState.ExitCode()
}

// await waits until the output has the text, and returns the rest of its line.
func (p *process) await(text string) string {
	p.t.Helper()
	rest, ok := p.log.await(text, time.Minute)
	if !ok {
		p.t.Fatalf("the output never had %q:\n%s", text, p.log)
	}
	return rest
}

// outputLog collects what a process writes.
type outputLog struct {
	mu     sync.Mutex
	text   strings.Builder
	ended  bool
	change chan struct{} // closed and replaced at every change
}

func newOutputLog() *outputLog { return &outputLog{change: make(chan struct{})} }

func (l *outputLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	close(l.change)
	l.change = make(chan struct{})
	return len(p), nil
}

func (l *outputLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	close(l.change)
	l.change = make(chan struct{})
}

func (l *outputLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *outputLog) await(text string, patience time.Duration) (string, bool) {
	late := time.After(patience)
	for {
		l.mu.Lock()
		whole, ended, change := l.text.String(), l.ended, l.change
		l.mu.Unlock()
		if _, rest, found := strings.Cut(whole, text); found {
			if line, _, complete := strings.Cut(rest, "\n"); complete {
				return line, true
			}
		}
		if ended {
			return "", false
		}
		select {
		case <-change:
		case <-late:
			return "", false
		}
	}
}
