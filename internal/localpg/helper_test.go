package localpg

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// testTimeout bounds every wait of the tests: far longer than anything takes.
const testTimeout = 90 * time.Second

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// dataDir is a directory of this test's own that the server's account can
// reach: the parents of t.TempDir have mode 0700 for root.
func dataDir(t *testing.T) string {
	t.Helper()
	base, err := os.MkdirTemp("", "localpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			t.Errorf("remove the test's directory: %v", err)
		}
	})
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	if base, err = filepath.EvalSymlinks(base); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(base, "db")
}

func throwaway(dir string) Config { return Config{DataDir: dir, Throwaway: true} }

// mustOpen opens a server and closes it, if the test has not, at the end.
func mustOpen(t *testing.T, cfg Config) *Server {
	t.Helper()
	return mustOpenWith(t, cfg, defaultOptions())
}

func mustOpenWith(t *testing.T, cfg Config, opts options) *Server {
	t.Helper()
	s, err := open(testContext(t), cfg, opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { mustClose(t, s) })
	return s
}

func mustClose(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// query runs one statement and returns its single value as text.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	ctx := testContext(t)
	conn, err := pg.Connect(ctx, url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(ctx)
	var v any
	if err := conn.QueryRow(ctx, sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return fmt.Sprint(v)
}

func exec1(t *testing.T, url, sql string) {
	t.Helper()
	ctx := testContext(t)
	conn, err := pg.Connect(ctx, url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// wantStopped fails unless the server has stopped.
func wantStopped(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, clusterName, "postmaster.pid")); !os.IsNotExist(err) {
		t.Errorf("the server has not stopped: postmaster.pid: %v", err)
	}
	awaitUnlocked(t, dir)
}

// awaitUnlocked waits until no process of a server, its owner included, is left. A program that
// another test is starting may hold the lock for some milliseconds: Linux closes its copies of this
// process's descriptors after Go has gone on, so syscall.ForkLock is not enough.
func awaitUnlocked(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	await(t, "the server's end", func() bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil })
}

// serverLog is what PostgreSQL wrote.
func serverLog(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, serverLogName))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// postmasterPID reads the id of the running postmaster.
func postmasterPID(t *testing.T, dir string) int {
	t.Helper()
	pid, live := place{dir: dir}.livePostmaster()
	if !live {
		t.Fatal("no postmaster is running")
	}
	return pid
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}

// awaitDone waits for the news that the server went away.
func awaitDone(t *testing.T, s *Server) {
	t.Helper()
	select {
	case <-s.Done():
	case <-testContext(t).Done():
		t.Fatal("Done is not closed")
	}
}

// What turns the test binary into another program.
const (
	openEnv   = "LOCALPG_TEST_OPEN"   // opens a server; the value is its Config
	dialEnv   = "LOCALPG_TEST_DIAL"   // connects to the URL
	listenEnv = "LOCALPG_TEST_LISTEN" // listens on the socket
	readEnv   = "LOCALPG_TEST_READ"   // reads the file
)

// report is what a helper says when it has done what it was started for.
type report struct {
	URL   string
	Owner bool
	Error string
}

// helperMain does what the environment asks for, reports, waits until its input
// ends, and ends.
func helperMain() {
	var (
		r    report
		err  error
		stop = func() error { return nil }
	)
	ctx := context.Background()
	if text, asked := os.LookupEnv(openEnv); asked {
		var cfg Config
		if err := json.Unmarshal([]byte(text), &cfg); err != nil {
			panic(err)
		}
		var s *Server
		if s, err = Open(ctx, cfg); err == nil {
			r.URL, r.Owner = s.URL(), isOwner(s)
			stop = func() error { return s.Close(ctx) }
		}
	} else if url, asked := os.LookupEnv(dialEnv); asked {
		var conn *pgx.Conn
		if conn, err = pg.Connect(ctx, url); err == nil {
			stop = func() error { return conn.Close(ctx) }
		}
	} else if socket, asked := os.LookupEnv(listenEnv); asked {
		_, err = net.Listen("unix", socket)
	} else if path, asked := os.LookupEnv(readEnv); asked {
		_, err = os.ReadFile(path)
	} else {
		return
	}
	if err != nil {
		r.Error = err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(r)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if stop() != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func isOwner(s *Server) bool {
	_, owner := s.hold.(*owned)
	return owner
}

// helper is a process of its own.
type helper struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.Reader
}

// publicSelf is the test binary at a path that every account may execute: go
// test builds it in a directory of mode 0700.
func publicSelf(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return self
	}
	path := filepath.Join(filepath.Dir(dataDir(t)), "user.test")
	// Not copied by this process: a child that it forks meanwhile would have the
	// file open for writing, and then it cannot be executed.
	if out, err := exec.Command("cp", self, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// startHelper starts a process that does what a variable of its environment says,
// under an account (nil: this one), and does not wait for its report.
func startHelper(t *testing.T, variable, value string, as *syscall.Credential) *helper {
	t.Helper()
	h := &helper{cmd: exec.Command(publicSelf(t))}
	h.cmd.Env = append(os.Environ(), variable+"="+value)
	h.cmd.Stderr = os.Stderr
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	stdin, err := h.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.stdin, h.stdout = stdin, stdout
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.cmd.Process.Kill(); _ = h.cmd.Wait() })
	return h
}

// report waits for the helper's.
func (h *helper) report(t *testing.T) (r report) {
	t.Helper()
	line, err := bufio.NewReader(h.stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		t.Fatalf("no report of the helper: %v", err)
	}
	return r
}

// startOpener starts a process that opens a server.
func startOpener(t *testing.T, cfg Config) *helper {
	t.Helper()
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return startHelper(t, openEnv, string(text), nil)
}

// runOpener starts a process that opens a server and waits until it has.
func runOpener(t *testing.T, cfg Config) (*helper, report) {
	t.Helper()
	h := startOpener(t, cfg)
	r := h.report(t)
	if r.Error != "" {
		t.Fatalf("helper: %s", r.Error)
	}
	return h, r
}

// leave lets the helper close its server and end.
func (h *helper) leave(t *testing.T) {
	t.Helper()
	_ = h.stdin.Close()
	if err := h.cmd.Wait(); err != nil {
		t.Errorf("helper: %v", err)
	}
}

// killed ends the helper the hard way.
func (h *helper) killed(t *testing.T) {
	t.Helper()
	kill(t, h.cmd.Process.Pid)
	_ = h.cmd.Wait()
}

// ping connects once.
func ping(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	conn, err := pg.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func wantContains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

// await waits until a condition holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(testTimeout); !ok(); <-again.C {
		if time.Now().After(deadline) {
			t.Fatalf("within %v there was not %s", testTimeout, what)
		}
	}
}

// await waits until the log has a text, and returns the log.
func (l *lines) await(t *testing.T, text string) string {
	t.Helper()
	await(t, "the log to say "+text, func() bool { return strings.Contains(l.String(), text) })
	return l.String()
}
