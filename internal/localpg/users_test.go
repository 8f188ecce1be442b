package localpg

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestTwoUsersOneServer(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	a := mustOpen(t, throwaway(dir))
	b := mustOpen(t, throwaway(dir))
	if a.URL() != b.URL() || a.keeper != b.keeper {
		t.Errorf("two servers: %s by keeper %d, %s by keeper %d", a.URL(), a.keeper, b.URL(), b.keeper)
	}
	mustClose(t, a)
	if got := query(t, b.URL(), "select 1"); got != "1" {
		t.Errorf("select 1 = %s", got)
	}
	mustClose(t, b)
	if isLocked(t, dir) {
		t.Error("the last one has left, but the server runs")
	}
	if err := syscall.Kill(b.keeper, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the keeper, process %d, is still there or a zombie: %v", b.keeper, err)
	}
}

func TestUsersOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	first := runHelper(t, throwaway(dir))
	second := mustOpen(t, throwaway(dir))
	if second.keeper != first.report.Keeper || second.URL() != first.report.URL {
		t.Errorf("the second process joined keeper %d, the first has %d", second.keeper, first.report.Keeper)
	}
	first.leave(t) // the one that started it leaves first
	query(t, second.URL(), "select 1")
	mustClose(t, second)
	if isLocked(t, dir) {
		t.Error("the last one has left, but the server runs")
	}
}

func TestKilledUserLeavesACleanServer(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	h := runHelper(t, throwaway(dir))
	exec1(t, h.report.URL, "create table kept as select 7 as v")
	h.killed(t)
	awaitUnlocked(t, dir)
	wantContains(t, serverLog(t, dir), "received fast shutdown request", "database system is shut down")
	s := mustOpen(t, throwaway(dir))
	if got := query(t, s.URL(), "select v from kept"); got != "7" {
		t.Errorf("read %s back, want 7", got)
	}
}

func TestKilledUserDoesNotDisturbOthers(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	h := runHelper(t, throwaway(dir))
	s := mustOpen(t, throwaway(dir))
	h.killed(t)
	// A later user is taken in after the keeper has seen the killed one part,
	// or before; either way the server must be the same.
	again := mustOpen(t, throwaway(dir))
	if again.keeper != s.keeper {
		t.Errorf("keeper %d took over from %d", again.keeper, s.keeper)
	}
	query(t, s.URL(), "select 1")
}

func TestManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	const n = 6
	helpers := make([]*helper, n)
	reports := make([]func() helperReport, n)
	for i := range n {
		helpers[i], reports[i] = startHelper(t, throwaway(dir), nil)
	}
	for i := range n {
		r := reports[i]()
		if r.Error != "" {
			t.Fatalf("process %d: %s", i, r.Error)
		}
		if r.Keeper != helpers[0].report.Keeper {
			t.Errorf("process %d has keeper %d, process 0 has %d", i, r.Keeper, helpers[0].report.Keeper)
		}
	}
	query(t, helpers[0].report.URL, "select 1")
	for _, h := range helpers {
		h.leave(t)
	}
	if isLocked(t, dir) {
		t.Error("all have left, but the server runs")
	}
}

// TestComingAndGoing has users join at the very moment in which the last one
// leaves, over and over. Whoever is in must have a server that answers.
func TestComingAndGoing(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for range 8 {
				s, err := Open(testContext(t), throwaway(dir))
				if err != nil {
					t.Errorf("Open: %v", err)
					return
				}
				if err := ping(s.URL()); err != nil {
					t.Errorf("a user that is in: %v", err)
				}
				mustClose(t, s)
			}
		})
	}
	users.Wait()
	if isLocked(t, dir) {
		t.Error("all have left, but the server runs")
	}
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := mustOpen(t, throwaway(dir))
	keeper := s.keeper
	if err := syscall.Kill(keeper, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close = %v, want deadline exceeded", err)
	}
	if err := syscall.Kill(keeper, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	awaitUnlocked(t, dir) // it has stopped by itself
	reap(keeper)
}

func TestOpenGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, throwaway(dir)) // in the middle of initdb
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Open = %v, want deadline exceeded", err)
	}
	s := mustOpen(t, throwaway(dir))
	query(t, s.URL(), "select 1")
	if _, err := os.Stat(filepath.Join(dir, newClusterName)); !os.IsNotExist(err) {
		t.Errorf("the interrupted cluster is still there: %v", err)
	}
}

func TestRemoveOnStop(t *testing.T) {
	t.Parallel()
	cfg := throwaway(dataDir(t))
	cfg.RemoveOnStop = true
	mustClose(t, mustOpen(t, cfg))
	if _, err := os.Stat(cfg.DataDir); !os.IsNotExist(err) {
		t.Errorf("the directory after the stop: %v", err)
	}

	// It spares what is not its own.
	s := mustOpen(t, cfg)
	strange := filepath.Join(cfg.DataDir, "letter.txt")
	if err := os.WriteFile(strange, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	left, err := os.ReadDir(cfg.DataDir)
	if err != nil || len(left) != 1 {
		t.Errorf("left %v, %v; want the letter only", left, err)
	}

	cfg.Throwaway = false
	if _, err := Open(testContext(t), cfg); err == nil {
		t.Error("RemoveOnStop without Throwaway was accepted")
	}
}
