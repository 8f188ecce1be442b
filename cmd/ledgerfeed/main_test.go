package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/readers"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/natscluster"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// asProgram makes this test binary the program itself, so that tests can run
// it as a process, with the race detector if they have it.
const asProgram = "LEDGERFEED_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if natscluster.Serve() {
		os.Exit(0)
	}
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
		"LEDGERFEED_DRAIN_DELAY=0s", "LEDGERFEED_CREATE_WORKSPACES=true",
		"LEDGERFEED_DATA_DIR="+t.TempDir())
	if url != "" {
		c.Env = append(c.Env, "DATABASE_URL="+url, "LEDGERFEED_SECRET_KEY=a key for all processes of a test")
	}
	return c
}

// result is the exit status and the output of a command.
type result struct {
	code        int
	out, errOut string
}

// String is what a failing test shows.
func (r result) String() string {
	return fmt.Sprintf("exit %d\nstandard output:\n%s\nmessages:\n%s", r.code, r.out, r.errOut)
}

// runCommand runs a command to its end, in this process where that makes no difference:
// starting one takes longer than most commands.
func runCommand(t *testing.T, c *exec.Cmd) result {
	t.Helper()
	environ, here := callable(t, c)
	if !here {
		return runProcess(t, c)
	}
	var out, errOut testkit.Buffer
	env := &operate.Env{Env: cli.Env{In: c.Stdin, Out: &out, ErrOut: &errOut, Clock: time.Now, Environ: environ}}
	if env.In == nil {
		env.In = strings.NewReader("")
	}
	if env.Getenv(asProgram) == asNextProgram {
		env.Rules = nextRules()
	}
	code := env.Execute(t.Context(), rootCommand(env), c.Args[1:])
	return result{code, out.String(), errOut.String()}
}

// runReader runs ledgerfeed-reader, in this process and without settings.
func runReader(t *testing.T, args ...string) result {
	t.Helper()
	var out, errOut testkit.Buffer
	env := &cli.Env{In: strings.NewReader(""), Out: &out, ErrOut: &errOut, Clock: time.Now, Environ: []string{}}
	code := env.Execute(t.Context(), readers.Root(env), args)
	return result{code, out.String(), errOut.String()}
}

// callable tells whether a command does in this process what it does in one of its own, and
// returns its environment. It does unless it has something of a process: another program,
// account, directory or standard stream, a service, or variables that others than the program
// read.
func callable(t *testing.T, c *exec.Cmd) (environ []string, here bool) {
	t.Helper()
	if c.Path != testkit.Must(os.Executable())(t) || c.Dir != "" || c.SysProcAttr != nil || c.Stdout != nil || c.Stderr != nil {
		return nil, false
	}
	if len(c.Args) > 1 && (c.Args[1] == "serve" || c.Args[1] == "demo" || c.Args[1] == "bench") {
		return nil, false
	}
	own := map[string]bool{}
	for _, s := range os.Environ() {
		own[s] = true
	}
	for _, s := range c.Env {
		if !own[s] && !strings.HasPrefix(s, "LEDGERFEED_") && !strings.HasPrefix(s, "DATABASE_URL=") {
			return nil, false
		}
	}
	return slices.Clone(c.Env), c.Env != nil
}

// runProcess runs a command to its end in a process of its own.
func runProcess(t *testing.T, c *exec.Cmd) result {
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

// process is the program running while a test does other things.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *testkit.Buffer // both streams
	done chan struct{}   // closed when the process has ended and log is complete
}

func startProcess(t *testing.T, c *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: c, log: &testkit.Buffer{}, done: make(chan struct{})}
	c.Stdout, c.Stderr = p.log, p.log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = c.Wait()
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
	return p.wait()
}

// stopLimit is long enough for a machine that has much else to do.
const stopLimit = 3 * time.Minute

// wait waits until the process ends by itself, and returns its exit status.
func (p *process) wait() int {
	limit, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	select {
	case <-p.done:
	case <-limit.Done():
		p.t.Errorf("the process did not stop within %v:\n%s", stopLimit, p.log)
		p.kill()
	}
	return p.cmd.ProcessState.ExitCode()
}

// await waits until the output has a line with the text, and returns the rest of
// that line.
func (p *process) await(text string) (rest string) {
	p.t.Helper()
	testkit.Eventually(p.t, func() error {
		ended := false
		select {
		case <-p.done:
			ended = true
		default:
		}
		if _, after, found := strings.Cut(p.log.String(), text); found {
			if line, _, complete := strings.Cut(after, "\n"); complete {
				rest = line
				return nil
			}
		}
		if ended {
			p.t.Fatalf("the process ended without %q in its output:\n%s", text, p.log)
		}
		return fmt.Errorf("the output does not have %q:\n%s", text, p.log)
	})
	return rest
}
