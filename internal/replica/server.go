package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Server is one replica. Its methods may be called by any number of goroutines.
type Server struct {
	Address

	cfg     *Config
	began   time.Time // of the Set
	changed func()    // tells callers that wait that it was looked at
	passed  *prometheus.CounterVec
	asked   chan struct{} // holds a token while somebody waits for it

	current atomic.Int64 // the moment as of which it is current, since Set.began; 0: none
	marked  atomic.Int64 // when the primary was asked for the last mark, as current; 0: not since the last failure
	started atomic.Int64 // when the server that is followed was started, in microseconds; 0: not known

	mu     sync.Mutex
	pools  []*pgxpool.Pool
	reason error           // why it is not read from; nil: it is
	alive  context.Context // ends when it cannot be read from any more
	lost   context.CancelFunc

	// Of the goroutine that follows it.
	conn    *pgx.Conn
	marks   []asked   // that it has not replayed, the oldest first
	next    time.Time // when the primary is asked for the next
	failing bool      // the last look did
}

// asked is a mark, and when the primary was asked for it.
type asked struct {
	mark
	at time.Time
}

const (
	// every is how often the primary is asked for a mark while nobody waits.
	every = 250 * time.Millisecond
	// closest is how often at most, while somebody does.
	closest = 3 * time.Millisecond
	// maxMarks bounds those that are waited for; of more, the second oldest is dropped.
	maxMarks = 64
	// askTimeout bounds a question to a server, which counts as lost when it does not answer.
	askTimeout = time.Second
)

func newServer(a Address, cfg *Config, began time.Time, changed func()) *Server {
	s := &Server{Address: a, cfg: cfg, began: began, changed: changed, asked: make(chan struct{}, 1), reason: errUnknown}
	s.alive, s.lost = context.WithCancel(context.Background())
	s.lost()
	return s
}

// Usable reports whether it may be read from now.
func (s *Server) Usable() bool {
	at := s.current.Load()
	return at > 0 && time.Since(s.began)-time.Duration(at) <= s.cfg.MaxLag
}

// Alive ends when the replica is lost: it does not answer, or is no longer a replica. What
// is being read from it then should be read elsewhere. It may have ended already.
func (s *Server) Alive() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alive
}

// Open opens a pool of connections to the replica, as pg.Open does, but whether or not it
// answers now. Connections that reach another server than the one that is followed fail.
func (s *Server) Open(ctx context.Context, o pg.Options) (*pgxpool.Pool, error) {
	o.Later, o.Standby = true, true
	o.AfterConnect = s.checkServer
	pool, err := pg.Open(ctx, s.URL, o)
	if err != nil {
		return nil, fmt.Errorf("the replica %s: %w", s.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools = append(s.pools, pool)
	return pool, nil
}

// ErrOtherServer is the error of a connection to another server than the one that is followed.
var ErrOtherServer = errors.New("the address of the replica leads to another server than a moment ago: want an address of one server")

// checkServer makes sure that a new connection is to the server that is followed.
func (s *Server) checkServer(ctx context.Context, conn *pgx.Conn) error {
	var started time.Time
	if err := conn.QueryRow(ctx, `SELECT pg_postmaster_start_time()`).Scan(&started); err != nil {
		return fmt.Errorf("ask the replica when it was started: %w", err)
	}
	if started.UnixMicro() != s.started.Load() {
		return ErrOtherServer
	}
	return nil
}

// follow follows the replica until ctx ends.
func (s *Server) follow(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer s.disconnect(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.asked:
			due := s.next
			if !s.failing {
				due = due.Add(closest - every) // others may ask meanwhile
			}
			if !flow.Pause(ctx, time.Until(due)) {
				return
			}
			s.next = time.Time{}
		case <-timer.C:
		}
		err := s.look(ctx)
		if ctx.Err() != nil {
			return
		}
		s.note(ctx, err)
		timer.Reset(s.pause(err))
	}
}

// pause is the time until the replica is looked at again: soon while it has not replayed
// a mark, and the less so the longer it takes.
func (s *Server) pause(err error) time.Duration {
	due := time.Until(s.next)
	if err == nil && len(s.marks) > 0 {
		age := time.Since(s.marks[0].at)
		due = min(due, max(time.Millisecond, age/4))
	}
	return max(due, 0)
}

// look asks for a new mark, if that is due, and the replica what it has replayed. The
// error says why it cannot be read from.
func (s *Server) look(ctx context.Context) error {
	if at := time.Now(); !at.Before(s.next) {
		s.next = at.Add(every)
		limited, cancel := context.WithTimeout(ctx, askTimeout)
		m, err := readMark(limited, s.cfg.Primary)
		cancel()
		if err != nil {
			return err
		}
		s.marks = append(s.marks, asked{m, at})
		s.marked.Store(int64(at.Sub(s.began)))
		if len(s.marks) > maxMarks {
			s.marks = append(s.marks[:1], s.marks[2:]...)
		}
	}
	if len(s.marks) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	is, err := s.ask(limited)
	if err != nil {
		s.disconnect(ctx)
		return err
	}
	if err := is.fits(&s.marks[len(s.marks)-1].mark); err != nil {
		return err
	}
	s.moved(is.started)
	for len(s.marks) > 0 && s.marks[0].end <= is.replayed {
		s.current.Store(int64(s.marks[0].at.Sub(s.began)))
		s.marks = s.marks[1:]
	}
	return nil
}

func (s *Server) ask(ctx context.Context) (standing, error) {
	if s.conn == nil {
		cfg, err := pg.ConnConfig(s.URL, map[string]string{"application_name": "ledgerfeed follows the replica"})
		if err != nil {
			return standing{}, err
		}
		if s.conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
			s.conn = nil
			return standing{}, fmt.Errorf("connect to the replica: %w", err)
		}
	}
	return readStanding(ctx, s.conn)
}

func (s *Server) disconnect(ctx context.Context) {
	if s.conn == nil {
		return
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	_ = s.conn.Close(limited) // it is given up
	s.conn = nil
}

// moved notes which server answers at the address. Connections to another one are closed.
func (s *Server) moved(started time.Time) {
	now := started.UnixMicro()
	if before := s.started.Swap(now); before == now || before == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pool := range s.pools {
		pool.Reset()
	}
}

// note keeps what a look has found, and tells callers that wait.
func (s *Server) note(ctx context.Context, err error) {
	_, primary := errors.AsType[*primaryError](err)
	lost := err != nil && !primary
	s.failing = err != nil
	if lost {
		s.marks = nil
		s.marked.Store(0)
		s.current.Store(0)
	}
	s.mu.Lock()
	before := s.reason
	switch {
	case lost:
	case s.Usable():
		err = nil
	case primary:
	case s.current.Load() == 0 && len(s.marks) > 0 && time.Since(s.marks[0].at) <= s.cfg.MaxLag:
		err = before // it answers, and has only begun to be followed
	default:
		err = &BehindError{s.cfg.MaxLag}
	}
	s.reason = err
	switch {
	case lost:
		s.lost()
	case s.alive.Err() != nil:
		s.alive, s.lost = context.WithCancel(context.WithoutCancel(ctx))
	}
	s.mu.Unlock()
	s.changed()
	switch {
	case err == nil && before != nil:
		s.cfg.Logger.InfoContext(ctx, "a replica is read from", "replica", s.Name)
	case err != nil && (before == nil || errors.Is(before, errUnknown) || describe(before) != describe(err)):
		s.cfg.Logger.WarnContext(ctx, "a replica is not read from", "replica", s.Name, "reason", describe(err))
	}
}

func (s *Server) state() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := State{Name: s.Name, Used: s.Usable()}
	switch {
	case is.Used:
		is.Behind = (time.Since(s.began) - time.Duration(s.current.Load())).Seconds()
	case s.reason != nil:
		is.Problem = describe(s.reason)
	default:
		is.Problem = describe(&BehindError{s.cfg.MaxLag})
	}
	return is
}

// PassedOver counts a request that went on to another server.
func (s *Server) PassedOver(reason string) { s.passed.WithLabelValues(reason).Inc() }
