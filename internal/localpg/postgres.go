//go:build unix

package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// postmaster is a running postgres process, a child of this one.
type postmaster struct {
	cmd      *exec.Cmd
	logPath  string
	logStart int64         // where this run begins in the log
	exited   chan struct{} // closed when the process has been waited for
	state    string        // how it ended; set before exited is closed
}

// failure says how the server ended and quotes its log.
func (pm *postmaster) failure() error {
	return fmt.Errorf("%s; the end of %s:\n%s", pm.state, pm.logPath, fileTail(pm.logPath, pm.logStart))
}

// startPostgres finds the programs, makes the cluster if there is none, runs the server and returns
// when it accepts connections. If ctx ends first, it stops the server.
func (s *setup) startPostgres(ctx context.Context, l *lock) (*postmaster, error) {
	p := s.place
	if err := p.prepare(l.dir); err != nil {
		return nil, fmt.Errorf("prepare the data directory %s: %w", p.dir, err)
	}
	major, err := clusterMajor(p)
	if err != nil {
		return nil, err
	}
	progs, err := Find(ctx, s.opts.search, p.wantedPrograms(major), s.log)
	if err != nil {
		return nil, err
	}
	if major == 0 {
		if err := s.initCluster(ctx, l, progs); err != nil {
			return nil, err
		}
	}
	if err := p.awaitPostmaster(ctx, s.log); err != nil {
		return nil, err
	}
	pm, err := s.launch(l, progs)
	if err != nil {
		return nil, err
	}
	if err := pm.awaitReady(ctx, p); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), startStopTimeout)
		defer cancel()
		return nil, errors.Join(err, pm.stop(stop))
	}
	return pm, nil
}

// wantedPrograms describes the programs for this place's cluster.
func (p place) wantedPrograms(major int) Wanted {
	return Wanted{Cluster: p.cluster(), Major: major, Account: p.account.name, MayReach: p.account.mayReach, Cache: p.programs}
}

// clusterMajor returns the major version that created the cluster, or 0 if there is no cluster yet.
// If something else is in its place, it returns an error and changes nothing.
func clusterMajor(p place) (int, error) {
	if _, err := os.Lstat(p.cluster()); errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	path := filepath.Join(p.cluster(), "PG_VERSION")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("%s exists but does not look like PostgreSQL's data (nothing was changed; move it away, or choose another data directory): %w", p.cluster(), err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || major < pg.OldestServer {
		return 0, fmt.Errorf("%s names the version %q, which this program cannot run (nothing was changed; choose another data directory)", path, strings.TrimSpace(string(text)))
	}
	return major, nil
}

// initCluster makes a cluster in a side directory and moves it into place, so
// that an interrupted initdb is never taken for a cluster.
func (s *setup) initCluster(ctx context.Context, l *lock, progs Programs) error {
	p := s.place
	if err := l.dir.RemoveAll(newClusterName); err != nil {
		return fmt.Errorf("remove what an interrupted initdb left: %w", err)
	}
	side := p.file(newClusterName)
	if err := p.serverDir(side); err != nil {
		return fmt.Errorf("make the directory of a new cluster: %w", err)
	}
	args := []string{
		"-D", side, "--username=" + databaseName, "--auth=reject", // the authentication rules are in p.dir
		"--encoding=UTF8", "--locale=C", "--data-checksums", "--no-instructions",
	}
	if s.cfg.Throwaway {
		args = append(args, "--no-sync")
	}
	var output bytes.Buffer
	cmd := p.command(ctx, progs.Initdb, args)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.ExtraFiles = []*os.File{l.file}
	dieWithParent(cmd, syscall.SIGKILL)
	var err error
	onOwnThread(cmd.Start, func(startErr error) {
		if err = startErr; err == nil {
			err = cmd.Wait()
		}
	})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("make a PostgreSQL cluster in %s as %s with %s: %w\n%s", p.dir, p.account.name, progs.Initdb, err, output.Bytes())
	}
	if err := l.dir.Rename(newClusterName, clusterName); err != nil {
		return fmt.Errorf("move the new cluster into place: %w", err)
	}
	if s.cfg.Throwaway {
		return nil
	}
	return l.dir.Sync()
}

// launch starts postgres directly. pg_ctl would put a process between this one and the server.
func (s *setup) launch(l *lock, progs Programs) (*postmaster, error) {
	p := s.place
	log, err := openLog(l.dir)
	if err != nil {
		return nil, fmt.Errorf("open PostgreSQL's log: %w", err)
	}
	defer log.Close()
	pm := &postmaster{logPath: p.file(serverLogName), exited: make(chan struct{})}
	if info, err := log.Stat(); err == nil {
		pm.logStart = info.Size()
	}
	// Not bound to the caller's context, which would kill the server: only stop ends it, by SIGINT.
	pm.cmd = p.command(context.Background(), progs.Postgres, append([]string{"-D", p.cluster()}, s.settingArgs(progs)...))
	pm.cmd.Stdout, pm.cmd.Stderr = log, log
	pm.cmd.ExtraFiles = []*os.File{l.file}
	pm.cmd.SysProcAttr.Setsid = true      // Ctrl-C must reach only the program, which stops the server when it is done
	dieWithParent(pm.cmd, syscall.SIGINT) // fast shutdown

	started := make(chan error, 1)
	go onOwnThread(pm.cmd.Start, func(err error) {
		started <- err
		if err == nil {
			_ = pm.cmd.Wait()
			pm.state = pm.cmd.ProcessState.String()
			close(pm.exited)
		}
	})
	if err := <-started; err != nil {
		return nil, fmt.Errorf("run %s as %s: %w", progs.Postgres, p.account.name, err)
	}
	return pm, nil
}

// onOwnThread calls start and then rest on one locked thread, which lives until rest returns. The
// kernel sends the parent-death signal when the thread that started the child dies, not when the
// process does.
func onOwnThread(start func() error, rest func(error)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rest(start())
}

// awaitReady returns when the program's database accepts connections. It creates that database the
// first time. Crash recovery may take long; ctx bounds it.
func (pm *postmaster) awaitReady(ctx context.Context, p place) error {
	for {
		err := errNotReady
		if p.isReady() {
			err = p.ensureDatabase(ctx)
		}
		if err == nil {
			return nil
		}
		if final(err) {
			return fmt.Errorf("connect to the PostgreSQL that was just started: %w", err)
		}
		select {
		case <-pm.exited:
			return fmt.Errorf("PostgreSQL did not start: %w", pm.failure())
		case <-ctx.Done():
			return fmt.Errorf("start PostgreSQL: %w (last seen: %w)", context.Cause(ctx), err)
		case <-time.After(retryEvery):
		}
	}
}

// ensureDatabase makes the program's database if the server does not have it.
func (p place) ensureDatabase(ctx context.Context) error {
	conn, err := p.connect(ctx)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == noDatabase {
		admin, err := pg.Connect(ctx, DatabaseURL(p.url(), "postgres"))
		if err != nil {
			return err
		}
		_, err = admin.Exec(ctx, "CREATE DATABASE "+databaseName)
		return errors.Join(err, admin.Close(ctx))
	}
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// startStopTimeout bounds the shutdown of a server that did not start as it should.
const startStopTimeout = 20 * time.Second

// stop shuts the server down and returns when it and its children are gone. If ctx is done first,
// it returns an error and the server continues to stop.
func (pm *postmaster) stop(ctx context.Context) error {
	_ = pm.cmd.Process.Signal(syscall.SIGINT) // fast shutdown; fails only if it is gone
	select {
	case <-pm.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for PostgreSQL to stop: %w (it goes on stopping by itself; its log is %s)", context.Cause(ctx), pm.logPath)
	}
}
