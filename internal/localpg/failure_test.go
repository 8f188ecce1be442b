package localpg

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestKilledOwner(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	h, r := runOpener(t, Config{DataDir: dir})
	exec1(t, r.URL, "create table kept as select 7 as v")
	s := mustOpen(t, Config{DataDir: dir})
	h.killed(t)
	awaitDone(t, s)
	wantContains(t, s.Err().Error(), "process "+strconv.Itoa(h.cmd.Process.Pid))
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

// TestOrphanIsStopped: where the kernel does not tell the server that its owner
// was killed, the next program does.
func TestOrphanIsStopped(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := mustOpen(t, Config{DataDir: dir})
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, lockName), []byte(strconv.Itoa(dead.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.place.stopOrphan()
	awaitDone(t, s)
	wantContains(t, serverLog(t, dir), "received fast shutdown request", "database system is shut down")
}

func TestKilledPostmaster(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := mustOpen(t, Config{DataDir: dir})
	exec1(t, s.URL(), "create table kept as select 7 as v")
	kill(t, postmasterPID(t, dir))
	awaitDone(t, s)
	wantContains(t, s.Err().Error(), "ended unexpectedly", "killed", serverLogName)
	mustClose(t, s)

	again := mustOpen(t, Config{DataDir: dir})
	if got := query(t, again.URL(), "select v from kept"); got != "7" {
		t.Errorf("read %s back, want 7", got)
	}
	wantContains(t, serverLog(t, dir), "automatic recovery in progress")
}

// TestKilledEverything is a machine that loses power, as far as a process can
// tell: nothing was cleaned up.
func TestKilledEverything(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	h, r := runOpener(t, Config{DataDir: dir})
	exec1(t, r.URL, "create table kept as select 7 as v")
	postmaster := postmasterPID(t, dir)
	if err := syscall.Kill(h.cmd.Process.Pid, syscall.SIGSTOP); err != nil { // so that it does not see the server die
		t.Fatal(err)
	}
	kill(t, postmaster)
	h.killed(t)
	s := mustOpen(t, Config{DataDir: dir})
	if got := query(t, s.URL(), "select v from kept"); got != "7" {
		t.Errorf("read %s back, want 7", got)
	}
}

func TestStartupErrorQuotesTheLog(t *testing.T) {
	t.Parallel()
	cfg := throwaway(dataDir(t))
	opts := defaultOptions()
	opts.settings = map[string]string{"shared_buffers": "a lot"}
	_, err := open(testContext(t), cfg, opts)
	if err == nil {
		t.Fatal("a senseless setting was accepted")
	}
	wantContains(t, err.Error(), "PostgreSQL did not start", "shared_buffers", serverLogName)
	wantStopped(t, cfg.DataDir)
	query(t, mustOpen(t, cfg).URL(), "select 1") // nothing is spoilt
}

// The setting's value stands for PostgreSQL's own words in the log.
func TestFullDiskIsNamed(t *testing.T) {
	t.Parallel()
	cfg := throwaway(dataDir(t))
	opts := defaultOptions()
	opts.settings = map[string]string{"shared_buffers": "No space left on device"}
	_, err := open(testContext(t), cfg, opts)
	var full *DiskFullError
	if !errors.As(err, &full) {
		t.Fatalf("got %v", err)
	}
	if text := err.Error(); !strings.HasPrefix(text, "the disk of "+cfg.DataDir+" is full (") || strings.Contains(text, "\n") {
		t.Errorf("it says: %s", text)
	}
	wantContains(t, full.Unwrap().Error(), "PostgreSQL did not start", serverLogName)
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
	// After a restart of a container, the old process id belongs to another process.
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
	progs, err := Find(testContext(t), DefaultSearch(), p.wantedPrograms(0), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	byHand := p.command(testContext(t), progs.Postgres, []string{
		"-D", p.cluster(), "-c", "listen_addresses=", "-c", "unix_socket_directories=" + p.runDir(), "-c", "shared_buffers=16MB",
		"-c", "hba_file=" + p.file(hbaName), "-c", "ident_file=" + p.file(identName)})
	if err := byHand.Start(); err != nil {
		t.Fatal(err)
	}
	pm := &postmaster{cmd: byHand, exited: make(chan struct{})}
	if err := pm.awaitReady(testContext(t), p); err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	cfg := throwaway(dir)
	cfg.Logger = log.logger()
	opened := make(chan error, 1)
	go func() {
		s, err := Open(testContext(t), cfg)
		if err == nil {
			err = s.Close(testContext(t))
		}
		opened <- err
	}()
	log.await(t, "waiting for another PostgreSQL server")
	if err := byHand.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := byHand.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatalf("after the other server had gone: %v", err)
	}
}
