package localpg

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience bounds every wait of the tests: far longer than anything takes.
const patience = 90 * time.Second

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// query runs one statement and returns its single value as text.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	ctx := testContext(t)
	conn, err := pgx.Connect(ctx, url)
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
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// isLocked tells whether any process of a server, keeper included, is left.
func isLocked(t *testing.T, dir string) bool {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

// awaitUnlocked blocks until every process of the server is gone.
func awaitUnlocked(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		defer f.Close()
		got <- syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}()
	select {
	case err := <-got:
		if err != nil {
			t.Fatalf("lock: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the server's processes do not end")
	}
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
	pid, live := livePostmaster(filepath.Join(dir, clusterName))
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
	case <-time.After(patience):
		t.Fatal("Done is not closed")
	}
}

// What turns the test binary into another program.
const (
	helperEnv    = "LOCALPG_TEST_HELPER"    // a user; the value is its Config
	forgetfulEnv = "LOCALPG_TEST_FORGETFUL" // one that does not call RunKeeperIfAsked; the value is a directory
)

// forgetfulMain opens a server without ever having been a keeper.
func forgetfulMain() {
	dir, asked := os.LookupEnv(forgetfulEnv)
	if !asked {
		return
	}
	_, err := Open(context.Background(), throwaway(dir))
	fmt.Println(err)
	os.Exit(1)
}

// helperReport is what a helper says once it is in.
type helperReport struct {
	URL    string
	Keeper int
	Error  string
}

// helperMain turns the test binary into a user process: it opens the server
// named in its environment, reports, waits until its input ends, and leaves.
func helperMain() {
	text, asked := os.LookupEnv(helperEnv)
	if !asked {
		return
	}
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		panic(err)
	}
	var report helperReport
	s, err := Open(context.Background(), cfg)
	if err != nil {
		report.Error = err.Error()
	} else {
		report.URL, report.Keeper = s.URL(), s.keeper
	}
	_ = json.NewEncoder(os.Stdout).Encode(report)
	_, _ = io.Copy(io.Discard, os.Stdin)
	status := 0
	if s != nil {
		if err := s.Close(context.Background()); err != nil {
			status = 1
		}
	}
	os.Exit(status)
}

// helper is a user process of its own.
type helper struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	report helperReport
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
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := writeFile(path, in, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// startHelper starts a user process and does not wait for it.
func startHelper(t *testing.T, cfg Config, attr *syscall.SysProcAttr) (*helper, func() helperReport) {
	t.Helper()
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := &helper{cmd: exec.Command(publicSelf(t))}
	h.cmd.Env = append(os.Environ(), helperEnv+"="+string(text))
	h.cmd.Stderr = os.Stderr
	h.cmd.SysProcAttr = attr
	stdin, err := h.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.stdin = stdin
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.cmd.Process.Kill(); _ = h.cmd.Wait() })
	return h, func() helperReport {
		line, err := bufio.NewReader(stdout).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &h.report)
		}
		if err != nil {
			h.report.Error = "no report: " + err.Error()
		}
		return h.report
	}
}

// runHelper starts a user process and waits until it is in.
func runHelper(t *testing.T, cfg Config) *helper {
	t.Helper()
	h, report := startHelper(t, cfg, nil)
	if r := report(); r.Error != "" {
		t.Fatalf("helper: %s", r.Error)
	}
	return h
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

// awaitLog reads the keeper's log until it says something so many times.
func awaitLog(t *testing.T, dir, part string, times int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for strings.Count(fileTail(filepath.Join(dir, keeperLogName), 0), part) < times {
		if time.Now().After(deadline) {
			t.Fatalf("the keeper's log does not say %q", part)
		}
		runtime.Gosched()
	}
}

// ping connects once.
func ping(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
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
