package localpg

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// options are the parts of the surroundings that tests replace.
type options struct {
	search search
	roots  rootRules
	// silence bounds how long Open waits while the directory is locked and
	// nobody answers: orphans of a killed keeper that are shutting down.
	silence time.Duration
}

func defaultOptions() options {
	return options{search: defaultSearch(), roots: defaultRootRules(), silence: 60 * time.Second}
}

// retryEvery is the pause between two attempts to reach or to become the
// keeper. Between them nothing is held, so it only costs latency.
const retryEvery = 10 * time.Millisecond

// open is Open with replaceable surroundings. The loop has no state but the
// file system's: either a keeper answers, or the lock is free and this process
// starts one, or somebody is in between and it waits.
func open(ctx context.Context, cfg Config, opts options) (*Server, error) {
	if _, asked := os.LookupEnv(keeperEnv); asked {
		return nil, errors.New("this process was started as the keeper of a local PostgreSQL but did not become it: main (or TestMain) must call localpg.RunKeeperIfAsked first")
	}
	if cfg.DataDir == "" {
		return nil, errors.New("local PostgreSQL: no data directory given")
	}
	if cfg.RemoveOnStop && !cfg.Throwaway {
		return nil, errors.New("local PostgreSQL: RemoveOnStop is for throwaway servers only")
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p, err := opts.roots.resolve(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	if p.Wanted != p.Dir {
		log.Warn("the account that PostgreSQL runs under cannot enter the data directory, using another one",
			"wanted", p.Wanted, "used", p.Dir, "account", p.Account)
	}

	lastSign := time.Now()
	for {
		s, err := attempt(ctx, cfg, opts, p, log)
		if s != nil || (err != nil && !errors.Is(err, errKeeperLeft)) {
			return s, err
		}
		if err != nil { // somebody did answer
			lastSign = time.Now()
		}
		if time.Since(lastSign) > opts.silence {
			return nil, fmt.Errorf("%s is in use (%s), but nobody answered for %v: a PostgreSQL server may still be shutting down there; try again, or look at %s",
				p.Dir, lockHolder(p), opts.silence, filepath.Join(p.Dir, serverLogName))
		}
		if time.Since(lastSign) > orphanGrace {
			stopOrphan(p)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the local PostgreSQL in %s: %w", p.Dir, context.Cause(ctx))
		case <-time.After(retryEvery):
		}
	}
}

// attempt tries once to join a keeper, then to become the one who starts it.
// Neither a server nor an error means: somebody else is at it, try again.
func attempt(ctx context.Context, cfg Config, opts options, p place, log *slog.Logger) (*Server, error) {
	conn, err := net.Dial("unix", p.keeperSocket())
	if err == nil {
		return join(ctx, conn, p, log)
	}
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("the local PostgreSQL in %s belongs to another account: %w", p.Dir, err)
	}
	lock, err := p.tryLock()
	if lock == nil || err != nil {
		return nil, err
	}
	defer lock.Close() // the keeper has its own descriptor of the same lock
	p, err = p.settleSockets()
	if err != nil {
		return nil, err
	}
	job := assignment{
		Place: p, Search: opts.search,
		Throwaway: cfg.Throwaway, Remove: cfg.RemoveOnStop, Settings: cfg.Settings,
	}
	conn, pid, err := spawnKeeper(lock, job)
	if err != nil {
		return nil, err
	}
	s, err := join(ctx, conn, p, log)
	if errors.Is(err, errKeeperLeft) {
		// Our own keeper cannot have been on its way out: it failed.
		err = fmt.Errorf("the keeper of the local PostgreSQL ended without a word (does main call localpg.RunKeeperIfAsked first?); the end of %s:\n%s",
			p.file(keeperLogName), fileTail(p.file(keeperLogName), 0))
	}
	if err != nil && ctx.Err() == nil {
		reap(pid) // it failed and is ending; if we gave up, it may go on for others
	}
	return s, err
}

// join waits on an open connection until the keeper holds this user.
func join(ctx context.Context, conn net.Conn, p place, log *slog.Logger) (*Server, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	lines := bufio.NewReader(conn)
	for {
		m, err := readMessage(lines)
		if err != nil {
			_ = conn.Close()
			if ctx.Err() != nil {
				return nil, fmt.Errorf("wait for the local PostgreSQL in %s to start: %w", p.Dir, context.Cause(ctx))
			}
			return nil, fmt.Errorf("%w: %w", errKeeperLeft, err)
		}
		switch m.Kind {
		case messageNote:
			log.Info(m.Text)
		case messageFailed, messageGone:
			_ = conn.Close()
			return nil, errors.New(m.Text)
		case messageReady:
			if !stop() { // ctx ended at the same moment and broke the connection
				_ = conn.Close()
				return nil, fmt.Errorf("wait for the local PostgreSQL in %s to start: %w", p.Dir, context.Cause(ctx))
			}
			s := &Server{
				url: m.URL, dataDir: p.Dir, conn: conn,
				keeper: m.Keeper, ours: m.Parent == os.Getpid(),
				done: make(chan struct{}), watched: make(chan struct{}),
			}
			go s.watch(lines)
			return s, nil
		}
	}
}

// watch reads until the connection ends, which is how a keeper says that it is
// all over, and finds out whether anybody wanted that.
func (s *Server) watch(lines *bufio.Reader) {
	defer close(s.watched)
	reason := "its keeper ended; PostgreSQL shuts down"
	bye := false
	for {
		m, err := readMessage(lines)
		if errors.Is(err, net.ErrClosed) {
			return // Close gave up waiting; the keeper may live on for others
		}
		if err != nil {
			break
		}
		switch m.Kind {
		case messageBye:
			bye = true
		case messageGone:
			reason = m.Text
		}
	}
	_ = s.conn.Close()
	if bye {
		return // the keeper lives on for others
	}
	if s.ours {
		reap(s.keeper)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leaving {
		s.err = fmt.Errorf("the local PostgreSQL in %s went away: %s", s.dataDir, reason)
		close(s.done)
	}
}

// readMessage reads one line of the keeper's.
func readMessage(lines *bufio.Reader) (message, error) {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return message{}, err
	}
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return message{}, fmt.Errorf("understand the keeper's %q: %w", line, err)
	}
	return m, nil
}

// reap waits for a keeper that this process started and that is ending, so
// that no zombie stays behind in a long-lived program.
func reap(pid int) {
	for {
		_, err := syscall.Wait4(pid, nil, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
