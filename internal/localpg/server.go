//go:build unix

package localpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Server is a program's hold on the server of a data directory, as its owner or
// joined to it.
type Server struct {
	*setup

	// hold belongs to watch while that runs, and to Close afterwards. It is nil
	// if the server has gone away.
	hold      hold
	stopWatch context.CancelFunc
	watched   chan struct{} // closed when watch has returned
	closing   sync.Once

	done chan struct{} // closed if the server went away unexpectedly
	err  error         // why; set before done is closed
}

// hold is one way of using a running server: owned or joined.
type hold interface {
	// wait returns why the server ended, or nil when ctx is done before that.
	wait(ctx context.Context) error
	// release ends the use; an owner stops the server.
	release(ctx context.Context) error
}

// Open starts the server of a data directory, or joins the one that runs there.
// It returns when the server accepts connections. ctx bounds only that wait. Every
// opened Server must be closed.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	return open(ctx, cfg, defaultOptions())
}

func open(ctx context.Context, cfg Config, opts options) (_ *Server, err error) {
	if cfg.DataDir == "" {
		return nil, errors.New("local PostgreSQL: no data directory given")
	}
	s := &Server{setup: &setup{cfg: cfg, opts: opts, log: cfg.Logger}, watched: make(chan struct{}), done: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.place, err = opts.roots.resolve(cfg.DataDir); err != nil {
		return nil, err
	}
	if p := s.place; p.wanted != p.dir {
		s.log.Warn("the account that PostgreSQL runs under cannot enter the data directory, using another one",
			"wanted", p.wanted, "used", p.dir, "account", p.account.name)
	}
	if s.hold, err = s.attach(ctx); err != nil {
		return nil, s.place.explainDisk(err)
	}
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stopWatch = stop
	go s.watch(watch)
	return s, nil
}

const (
	// retryEvery is the pause between two attempts to own or join the server.
	retryEvery = 20 * time.Millisecond
	// longWait is the time after which the log says what Open waits for.
	longWait = 3 * time.Second
)

// attach starts the server or joins it. Its loop keeps no state of its own. In each round either
// the lock is free, or the server accepts connections, or another program is starting or stopping
// the server and attach waits.
func (s *Server) attach(ctx context.Context) (hold, error) {
	told := time.After(longWait)
	for {
		l, err := s.place.tryLock()
		if err != nil {
			return nil, err
		}
		if l != nil {
			return s.own(ctx, l)
		}
		j, err := s.join(ctx)
		if err == nil {
			return j, nil
		}
		if final(err) {
			return nil, fmt.Errorf("join the local PostgreSQL in %s: %w", s.place.dir, err)
		}
		s.place.stopOrphan()
		select {
		case <-told:
			s.log.Info("waiting for the local PostgreSQL, which another program is starting or stopping", "directory", s.place.dir, "process", s.place.owner(), "last_seen", err)
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the local PostgreSQL in %s, which process %d is starting or stopping: %w (last seen: %w)", s.place.dir, s.place.owner(), context.Cause(ctx), err)
		case <-time.After(retryEvery):
		}
	}
}

// watch waits until the server ends, and takes over or closes Done.
func (s *Server) watch(ctx context.Context) {
	defer close(s.watched)
	for {
		cause := s.hold.wait(ctx)
		if cause == nil {
			return
		}
		_, wasJoined := s.hold.(*joined)
		_ = s.hold.release(ctx) // the server is gone; release the rest of the hold
		s.hold = nil
		if wasJoined && s.cfg.TakeOver {
			s.log.Warn("the local PostgreSQL has stopped, starting it again", "directory", s.place.dir, "cause", cause)
			hold, err := s.attach(ctx)
			if err == nil {
				s.hold = hold
				s.log.Info("the local PostgreSQL is back", "directory", s.place.dir)
				continue
			}
			if ctx.Err() != nil {
				return
			}
			cause = fmt.Errorf("%w; starting it again failed: %w", cause, err)
		}
		s.err = s.place.explainDisk(cause)
		close(s.done)
		return
	}
}

// URL returns the server's address for package pg and libpq. Both check the server's account, which
// the URL names as requirepeer; pgx alone does not know that parameter. The database and the role
// are both called ledgerfeed, and the role is a superuser of this cluster.
func (s *Server) URL() string { return s.place.url() }

// DataDir returns the directory really used, as an absolute path. For root it differs from
// Config.DataDir if the server's account cannot enter that one.
func (s *Server) DataDir() string { return s.place.dir }

// Done returns a channel that is closed when the server has gone away unexpectedly and this process
// does not take over. The program cannot recover: it should exit, and the next Open recovers the
// data.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns why Done was closed; nil: it is not closed.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// probeTimeout bounds how long Explain waits for the server to answer.
const probeTimeout = 5 * time.Second

// Explain adds to err, the error of work on the server, that the server has gone away. If the
// server has not, it returns err unchanged.
func (s *Server) Explain(err error) error {
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	if conn, cerr := s.place.connect(ctx); cerr == nil {
		_ = conn.Close(ctx) // perhaps to a server that was started since
	} else {
		select {
		case <-s.watched:
		case <-ctx.Done():
		}
	}
	if gone := s.Err(); gone != nil {
		return fmt.Errorf("%w. What was not committed is rolled back as a whole; run the command again (%w)", gone, err)
	}
	return err
}

// Close releases the server. An owner waits up to 20 seconds for joined programs and then stops the
// server. If ctx is done before the server has stopped, Close returns an error and the server
// continues to stop. Closing twice is allowed.
func (s *Server) Close(ctx context.Context) (err error) {
	s.closing.Do(func() {
		s.stopWatch()
		<-s.watched
		if s.hold != nil {
			err = s.hold.release(ctx)
		}
	})
	return err
}
