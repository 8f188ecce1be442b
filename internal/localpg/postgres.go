package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// databaseName is the database and the role that are made for the program.
const databaseName = "ledgerfeed"

// postmaster is a running postgres process, the keeper's child.
type postmaster struct {
	cmd      *exec.Cmd
	url      string
	logPath  string
	logStart int64         // where this run begins in the log
	exited   chan struct{} // closed when the process has been waited for
	exitErr  error         // how it ended; set before exited is closed
}

func (pm *postmaster) pid() int        { return pm.cmd.Process.Pid }
func (pm *postmaster) logTail() string { return fileTail(pm.logPath, pm.logStart) }

// startPostgres finds the programs, makes the cluster if there is none, runs
// the server and returns when it takes connections. Cancelling ctx gives up and
// leaves nothing running. The lock is inherited by all server processes.
func startPostgres(ctx context.Context, job assignment, lock *os.File, note func(string)) (*postmaster, error) {
	p := job.Place
	if err := p.serverDir(p.runDir()); err != nil {
		return nil, fmt.Errorf("prepare the directory of PostgreSQL's socket: %w", err)
	}
	major, err := clusterMajor(p)
	if err != nil {
		return nil, err
	}
	progs, err := findPrograms(ctx, job.Search, p, major, note)
	if err != nil {
		return nil, err
	}
	if major == 0 {
		if err := initCluster(ctx, job, progs, lock); err != nil {
			return nil, err
		}
	}
	if err := awaitPostmaster(ctx, p.cluster(), note); err != nil {
		return nil, err
	}
	pm, err := launch(job, progs, lock)
	if err != nil {
		return nil, err
	}
	if err := pm.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, pm.stop(true))
	}
	return pm, nil
}

// clusterMajor is the major version that made the cluster, or 0 if there is
// none yet. What is neither is left alone.
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
	if err != nil || major < oldestMajor {
		return 0, fmt.Errorf("%s names the version %q, which this program cannot run (nothing was changed; choose another data directory)", path, strings.TrimSpace(string(text)))
	}
	return major, nil
}

// initCluster makes a cluster in a side directory and moves it into place, so
// that an interrupted initdb is never taken for a cluster.
func initCluster(ctx context.Context, job assignment, progs programs, lock *os.File) error {
	p := job.Place
	side := p.file(newClusterName)
	if err := os.RemoveAll(side); err != nil {
		return fmt.Errorf("remove what an interrupted initdb left: %w", err)
	}
	if err := p.serverDir(side); err != nil {
		return fmt.Errorf("make the directory of a new cluster: %w", err)
	}
	args := []string{
		"-D", side, "--username=" + databaseName, "--auth-local=trust", "--auth-host=reject",
		"--encoding=UTF8", "--locale=C", "--data-checksums", "--no-instructions",
	}
	if job.Throwaway {
		args = append(args, "--no-sync")
	}
	var output bytes.Buffer
	cmd := serverCommand(ctx, p, progs.initdb, args)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.ExtraFiles = []*os.File{lock}
	dieWithParent(cmd, syscall.SIGKILL)
	var err error
	onOwnThread(func() error { return cmd.Start() }, func(startErr error) {
		if err = startErr; err == nil {
			err = cmd.Wait()
		}
	})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("make a PostgreSQL cluster in %s as %s with %s: %w\n%s", p.Dir, p.Account, progs.initdb, err, output.Bytes())
	}
	if err := os.Rename(side, p.cluster()); err != nil {
		return fmt.Errorf("move the new cluster into place: %w", err)
	}
	if job.Throwaway {
		return nil
	}
	return syncDir(p.Dir)
}

// launch starts postgres itself, not pg_ctl, which would put a process between
// the keeper and its child.
func launch(job assignment, progs programs, lock *os.File) (*postmaster, error) {
	p := job.Place
	log, err := openLog(p, serverLogName)
	if err != nil {
		return nil, fmt.Errorf("open PostgreSQL's log: %w", err)
	}
	defer log.Close()
	pm := &postmaster{url: p.url(), logPath: log.Name(), exited: make(chan struct{})}
	if info, err := log.Stat(); err == nil {
		pm.logStart = info.Size()
	}
	args := append([]string{"-D", p.cluster()}, settingArgs(job, progs)...)
	// Not bound to a context: only stop ends the server, and not by SIGKILL.
	pm.cmd = serverCommand(context.Background(), p, progs.postgres, args)
	pm.cmd.Stdout, pm.cmd.Stderr = log, log
	pm.cmd.ExtraFiles = []*os.File{lock}
	dieWithParent(pm.cmd, syscall.SIGINT) // fast shutdown

	started := make(chan error, 1)
	go onOwnThread(pm.cmd.Start, func(err error) {
		started <- err
		if err == nil {
			pm.exitErr = exitError(pm.cmd.Wait())
			close(pm.exited)
		}
	})
	if err := <-started; err != nil {
		return nil, fmt.Errorf("run %s as %s: %w", progs.postgres, p.Account, err)
	}
	return pm, nil
}

// onOwnThread calls start and then the rest on one thread, which therefore
// lives until the child is done: the parent-death signal follows the death of
// the thread, not of the process, that started the child.
func onOwnThread(start func() error, rest func(error)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rest(start())
}

// exitError is never nil: for a server that should run, even status 0 is news.
func exitError(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// awaitReady returns when the program's database takes connections, and makes
// that database the first time. Crash recovery may take long; ctx bounds it.
func (pm *postmaster) awaitReady(ctx context.Context) error {
	for {
		err := pm.tryConnect(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-pm.exited:
			return fmt.Errorf("PostgreSQL did not start: %w; the end of %s:\n%s", pm.exitErr, pm.logPath, pm.logTail())
		case <-ctx.Done():
			return fmt.Errorf("start PostgreSQL: %w (last seen: %w)", context.Cause(ctx), err)
		case <-time.After(3 * time.Millisecond):
		}
	}
}

func (pm *postmaster) tryConnect(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, pm.url)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "3D000" { // invalid_catalog_name
		admin, err := pgx.Connect(ctx, DatabaseURL(pm.url, "postgres"))
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

// stopPatience is how long a fast shutdown, which ends with a checkpoint, may
// take. After it the server is stopped at once and recovers at the next start.
const stopPatience = 5 * time.Minute

// stop shuts the server down and returns when it is gone, with its children.
func (pm *postmaster) stop(now bool) error {
	patience := stopPatience
	if now {
		patience = 20 * time.Second
	}
	_ = pm.cmd.Process.Signal(syscall.SIGINT) // fast shutdown; fails only if it is gone
	select {
	case <-pm.exited:
	case <-time.After(patience):
		_ = pm.cmd.Process.Signal(syscall.SIGQUIT) // immediate shutdown
		<-pm.exited
		return fmt.Errorf("PostgreSQL had not shut down after %v and was stopped at once; the next start recovers", patience)
	}
	return nil
}

// serverCommand is a command that runs under the server's account in an
// environment of our making: a PGDATA or PGPORT of the caller's must not matter.
func serverCommand(ctx context.Context, p place, path string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = p.Dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if p.Account.other() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(p.Account.UID), Gid: uint32(p.Account.GID)}
	}
	return cmd
}

// url is the address of this place's server.
func (p place) url() string {
	// libpq, unlike pgx, does not read "+" as a space.
	host := strings.ReplaceAll(url.QueryEscape(p.runDir()), "+", "%20")
	return "postgres://" + databaseName + "@/" + databaseName + "?host=" + host + "&port=5432&sslmode=disable"
}
