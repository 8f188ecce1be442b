package localpg

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestKilledKeeper(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := mustOpen(t, Config{DataDir: dir})
	exec1(t, s.URL(), "create table kept as select 7 as v")
	kill(t, s.keeper)
	awaitDone(t, s)
	if s.Err() == nil {
		t.Error("Done is closed, but Err is nil")
	}
	// At once: the orphan is shutting down, and Open waits for it.
	again := mustOpen(t, Config{DataDir: dir})
	if got := query(t, again.URL(), "select v from kept"); got != "7" {
		t.Errorf("read %s back, want 7", got)
	}
	log := serverLog(t, dir)
	wantContains(t, log, "received fast shutdown request", "database system is shut down")
	if strings.Contains(log, "not properly shut down") {
		t.Errorf("the orphan was not shut down cleanly:\n%s", log)
	}
}

func TestKilledPostmaster(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := mustOpen(t, Config{DataDir: dir})
	exec1(t, s.URL(), "create table kept as select 7 as v")
	kill(t, postmasterPID(t, dir))
	awaitDone(t, s)
	wantContains(t, s.Err().Error(), "PostgreSQL ended unexpectedly", "killed", serverLogName)
	mustClose(t, s)

	began := time.Now()
	again := mustOpen(t, Config{DataDir: dir})
	t.Logf("start after a kill of the postmaster %v", time.Since(began))
	if got := query(t, again.URL(), "select v from kept"); got != "7" {
		t.Errorf("read %s back, want 7", got)
	}
	wantContains(t, serverLog(t, dir), "automatic recovery in progress")
}

// TestKilledEverything is a machine that loses power, as far as a process can
// tell: nobody cleaned anything up.
func TestKilledEverything(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	h := runHelper(t, Config{DataDir: dir})
	exec1(t, h.report.URL, "create table kept as select 7 as v")
	postmaster := postmasterPID(t, dir)
	for _, pid := range []int{h.report.Keeper, postmaster} {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil { // so that neither sees the other die
			t.Fatal(err)
		}
	}
	kill(t, postmaster)
	kill(t, h.report.Keeper)
	h.killed(t)
	s := mustOpen(t, Config{DataDir: dir})
	if got := query(t, s.URL(), "select v from kept"); got != "7" {
		t.Errorf("read %s back, want 7", got)
	}
}

func TestSignalledKeeperLetsUsersFinish(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := mustOpen(t, throwaway(dir))
	if err := syscall.Kill(s.keeper, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitLog(t, dir, "asked to end, waiting", 1) // or it may hear of the last user's end first
	query(t, s.URL(), "select 1")
	mustClose(t, s)
	if s.Err() != nil {
		t.Errorf("Err = %v after an orderly end", s.Err())
	}

	s = mustOpen(t, throwaway(dir))
	for _, wait := range []func(){
		func() { awaitLog(t, dir, "asked to end, waiting", 2) }, // two signals at once would be one
		func() { awaitDone(t, s) },
	} {
		if err := syscall.Kill(s.keeper, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		wait()
	}
	wantContains(t, s.Err().Error(), "asked twice to end")
	wantContains(t, serverLog(t, dir), "database system is shut down")
}

func TestStartupErrorQuotesTheLog(t *testing.T) {
	t.Parallel()
	cfg := throwaway(dataDir(t))
	cfg.Settings = map[string]string{"shared_buffers": "a lot"}
	_, err := Open(testContext(t), cfg)
	if err == nil {
		t.Fatal("a senseless setting was accepted")
	}
	wantContains(t, err.Error(), "PostgreSQL did not start", "shared_buffers", serverLogName)
	if isLocked(t, cfg.DataDir) {
		t.Error("a failed start leaves the directory locked")
	}
	cfg.Settings = nil
	query(t, mustOpen(t, cfg).URL(), "select 1") // nothing is spoilt
}

func TestOtherMajorIsRefusedAndSpared(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	mustClose(t, mustOpen(t, throwaway(dir)))
	version := filepath.Join(dir, clusterName, "PG_VERSION")
	own, err := os.ReadFile(version)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		version string
		want    []string
	}{
		{"99\n", []string{"made by PostgreSQL 99", "nothing was changed", "postgresql-99", "PostgreSQL " + strings.TrimSpace(string(own)) + " in "}},
		{"9.6\n", []string{`"9.6"`, "nothing was changed"}},
		{"14\n", []string{`"14"`, "nothing was changed"}},
	} {
		if err := os.WriteFile(version, []byte(c.version), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(testContext(t), throwaway(dir))
		if err == nil {
			t.Fatalf("data of version %q was accepted", c.version)
		}
		wantContains(t, err.Error(), c.want...)
	}
	if err := os.WriteFile(version, own, 0o600); err != nil {
		t.Fatal(err)
	}
	query(t, mustOpen(t, throwaway(dir)).URL(), "select 1")

	strange := dataDir(t)
	if err := os.MkdirAll(filepath.Join(strange, clusterName, "holiday"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(testContext(t), throwaway(strange)); err == nil {
		t.Fatal("a directory that is no cluster was accepted")
	}
	wantContains(t, err.Error(), "does not look like PostgreSQL's data", "nothing was changed")
}

func TestStalePostmasterFile(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	mustClose(t, mustOpen(t, throwaway(dir)))
	// After a restart of a container, the old process id belongs to somebody.
	stale := filepath.Join(dir, clusterName, "postmaster.pid")
	text := strconv.Itoa(os.Getpid()) + "\n" + filepath.Join(dir, clusterName) + "\n1700000000\n5432\n\n\n\n"
	if err := os.WriteFile(stale, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	query(t, mustOpen(t, throwaway(dir)).URL(), "select 1")
}

func TestServerStartedByHandIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	mustClose(t, mustOpen(t, throwaway(dir)))
	p, err := defaultRootRules().resolve(dir)
	if err != nil {
		t.Fatal(err)
	}
	p.Sockets = dir
	progs, err := findPrograms(testContext(t), defaultSearch(), p, 0, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	byHand := serverCommand(testContext(t), p, progs.postgres, []string{
		"-D", p.cluster(), "-c", "listen_addresses=", "-c", "unix_socket_directories=" + p.runDir(), "-c", "shared_buffers=16MB"})
	if err := byHand.Start(); err != nil {
		t.Fatal(err)
	}
	pm := &postmaster{cmd: byHand, url: p.url(), exited: make(chan struct{})}
	if err := pm.awaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	h, report := startHelper(t, throwaway(dir), nil)
	defer h.leave(t)
	awaitLog(t, dir, "waiting for another PostgreSQL server", 1)
	if err := byHand.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := byHand.Wait(); err != nil {
		t.Fatal(err)
	}
	if r := report(); r.Error != "" {
		t.Fatalf("after the other server had gone: %s", r.Error)
	}
}

func TestForgottenRunKeeperIfAsked(t *testing.T) {
	t.Parallel()
	// The helper is a program whose main does not begin with RunKeeperIfAsked.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), keeperEnv+"=1", forgetfulEnv+"="+dataDir(t))
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("a program that is not the keeper it should be may go on")
	}
	wantContains(t, string(out), "must call localpg.RunKeeperIfAsked first")
}
