package localpg

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

func TestTwoUsersOneServer(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	a := mustOpen(t, throwaway(dir))
	b := mustOpen(t, throwaway(dir))
	if a.URL() != b.URL() || !isOwner(a) || isOwner(b) {
		t.Errorf("two servers: %s, owned: %v, and %s, owned: %v", a.URL(), isOwner(a), b.URL(), isOwner(b))
	}
	mustClose(t, b)
	query(t, a.URL(), "select 1")
	mustClose(t, a)
	wantStopped(t, dir)
}

// TestOwnerWaitsForOthers: the owner's end does not cut off a command in the
// middle of its work.
func TestOwnerWaitsForOthers(t *testing.T) {
	t.Parallel()
	cfg := throwaway(dataDir(t))
	log := &lines{}
	cfg.Logger = log.logger()
	opts := defaultOptions()
	opts.joined = testTimeout // this test decides when the owner has waited long enough
	owner := mustOpenWith(t, cfg, opts)
	command, _ := runOpener(t, throwaway(cfg.DataDir))
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		mustClose(t, owner)
	}()
	wantContains(t, log.await(t, "waiting for other programs"), strconv.Itoa(command.cmd.Process.Pid))
	late := startOpener(t, throwaway(cfg.DataDir)) // does not prolong the owner's wait, and starts the server again
	await(t, "the owner and the late program to wait", func() bool {
		return query(t, owner.URL(), "select count(*) from pg_locks where locktype = 'advisory' and not granted") == "2"
	})
	select {
	case <-closed:
		t.Error("the owner did not wait")
	default:
	}
	command.leave(t)
	<-closed
	r := late.report(t)
	if r.Error != "" {
		t.Fatalf("a program that came while the owner waited: %s", r.Error)
	}
	query(t, r.URL, "select 1")
	late.leave(t)
}

// TestOwnerWaitsForABoundedTime: a program that stays too long gets an error that
// says what happened.
func TestOwnerWaitsForABoundedTime(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	opts := defaultOptions()
	opts.joined = 100 * time.Millisecond
	owner := mustOpenWith(t, throwaway(dir), opts)
	command := mustOpen(t, throwaway(dir))
	work, err := pg.Connect(testContext(t), command.URL())
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, owner)
	wantStopped(t, dir)
	if _, err = work.Exec(testContext(t), "select 1"); err == nil {
		t.Fatal("the server still answers")
	}
	awaitDone(t, command)
	wantContains(t, command.Explain(err).Error(), "in "+dir+" has stopped", "process "+strconv.Itoa(os.Getpid()), "terminating connection due to administrator command", "rolled back as a whole")
	mustClose(t, command)
}

func TestExplainLeavesOtherErrorsAlone(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, throwaway(dataDir(t)))
	mine := errors.New("no such workspace")
	if err := s.Explain(mine); err != mine { //nolint:errorlint // the same one
		t.Errorf("Explain = %v", err)
	}
	if err := s.Explain(nil); err != nil {
		t.Errorf("Explain(nil) = %v", err)
	}
}

// TestUsersOfSeveralProcesses: the program that started the server ends first, as
// asked or killed, and those that run for long go on with one server again.
func TestUsersOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*helper, *testing.T){"asked": (*helper).leave, "killed": (*helper).killed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := dataDir(t)
			first, r := runOpener(t, Config{DataDir: dir})
			if !r.Owner {
				t.Error("the first program does not own the server")
			}
			exec1(t, r.URL, "create table kept as select 7 as v")
			var stay []*Server
			for range 2 {
				s := mustOpen(t, Config{DataDir: dir, TakeOver: true})
				if s.URL() != r.URL {
					t.Errorf("joined %s, want %s", s.URL(), r.URL)
				}
				stay = append(stay, s)
			}
			before := postmasterPID(t, dir)
			end(first, t)
			await(t, "another server", func() bool {
				pid, live := place{dir: dir}.livePostmaster()
				return live && pid != before && ping(r.URL) == nil
			})
			if got := query(t, r.URL, "select v from kept"); got != "7" {
				t.Errorf("read %s back, want 7", got)
			}
			await(t, "both to be back", func() bool {
				return query(t, r.URL, "select count(*) from pg_stat_activity where starts_with(application_name, '"+useName+"')") == "1"
			})
			for _, s := range stay {
				mustClose(t, s)
				if s.Err() != nil {
					t.Errorf("Err = %v after a take-over", s.Err())
				}
			}
			wantStopped(t, dir)
		})
	}
}

func TestKilledUserLeavesACleanServer(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	h, r := runOpener(t, throwaway(dir))
	exec1(t, r.URL, "create table kept as select 7 as v")
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
	cfg := throwaway(dir)
	log := &lines{}
	cfg.Logger = log.logger()
	s := mustOpen(t, cfg)
	h, _ := runOpener(t, throwaway(dir))
	h.killed(t)
	again := mustOpen(t, throwaway(dir))
	if isOwner(again) {
		t.Error("the server was started again")
	}
	query(t, s.URL(), "select 1")
	mustClose(t, again)
	await(t, "the end of the killed program's session", func() bool {
		return query(t, s.URL(), "select count(*) from pg_locks where locktype = 'advisory'") == "0"
	})
	mustClose(t, s)
	if strings.Contains(log.String(), "waiting for other programs") {
		t.Errorf("the owner waited for a dead program:\n%s", log)
	}
}

func TestManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	const n = 6
	var helpers []*helper
	for range n {
		helpers = append(helpers, startOpener(t, throwaway(dir)))
	}
	owners := 0
	for i, h := range helpers {
		r := h.report(t)
		if r.Error != "" {
			t.Fatalf("process %d: %s", i, r.Error)
		}
		if r.Owner {
			owners++
		}
		query(t, r.URL, "select 1")
	}
	if owners != 1 {
		t.Errorf("%d programs own a server, want 1", owners)
	}
	for _, h := range helpers {
		_ = h.stdin.Close()
	}
	for _, h := range helpers {
		h.leave(t)
	}
	wantStopped(t, dir)
}

// TestComingAndGoing has users join at the very moment in which the owner closes,
// over and over. A user that is in must have a server that answers.
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
	wantStopped(t, dir)
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := mustOpen(t, throwaway(dir))
	server := postmasterPID(t, dir)
	if err := syscall.Kill(server, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close = %v, want deadline exceeded", err)
	}
	if err := syscall.Kill(server, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	awaitUnlocked(t, dir) // it has stopped by itself
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

// lines collects log lines.
type lines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
