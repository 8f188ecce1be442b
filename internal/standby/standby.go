// Package standby lets answers be read from streaming standbys of the database, which are
// reached by one address: that of a standby, or of a load balancer before several.
//
// Whoever reads is never shown what is older than a bound, Config.MaxLag. The primary is asked,
// four times a second, where its write-ahead log ends. A server that has replayed what the
// primary had at a moment shows all that was committed before that moment. So each connection
// asks its server, before it is used to read, how much it has replayed, and is refused where
// that is less than the primary had MaxLag ago. No clocks are compared and nothing is written,
// and which server a load balancer chose does not matter.
package standby

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Config of an Address. All fields but Metrics are required.
type Config struct {
	URL     string        // of the standbys
	Primary *pgxpool.Pool // asked for the end of its write-ahead log: one short statement at a time
	MaxLag  time.Duration // from LeastMaxLag to MostMaxLag
	Logger  *slog.Logger

	// Metrics registers the collectors; nil: they are not registered.
	Metrics prometheus.Registerer
}

// Bounds of Config.MaxLag: the primary is asked several times within the shorter one, and what
// it said is kept for the longer one.
const (
	LeastMaxLag = 500 * time.Millisecond
	MostMaxLag  = time.Minute
)

const (
	// every is how often the primary is asked, and one of the servers looked at.
	every = 250 * time.Millisecond
	// trusted is how long a connection whose server was asked is used without asking again.
	trusted = 100 * time.Millisecond
	// askTimeout bounds a question to a server, which counts as lost when it does not answer.
	askTimeout = time.Second
)

// Address is where standbys are reached. Its methods may be called by any number of
// goroutines; those of nil are those of an Address that nothing is read from.
type Address struct {
	cfg  Config
	name string // host:port, for people

	mu    sync.Mutex
	marks []mark // those that are younger than MaxLag, oldest first; guarded by mu
	state State  // as Run saw it last; guarded by mu
	alive context.Context
	lost  context.CancelFunc

	conn *pgx.Conn // of Run alone
}

// State is how an Address is.
type State struct {
	Name    string  `json:"address"` // host:port
	Used    bool    `json:"used"`
	Behind  float64 `json:"behind_seconds"` // the server that was looked at, at most; meaningless where it is not used
	Problem string  `json:"problem,omitempty"`
}

// New makes an Address. Nothing is read from it unless Run runs.
func New(cfg Config) (*Address, error) {
	parsed, err := pgconn.ParseConfig(cfg.URL)
	if err != nil {
		return nil, errURL // the error may show a password
	}
	if cfg.Primary == nil || cfg.Logger == nil || cfg.MaxLag < LeastMaxLag || cfg.MaxLag > MostMaxLag {
		return nil, errors.New("standby: Config needs a Primary, a Logger, and a MaxLag from half a second to a minute")
	}
	name := net.JoinHostPort(parsed.Host, strconv.Itoa(int(parsed.Port)))
	a := &Address{cfg: cfg, name: name, state: State{Name: name, Problem: "it was not looked at yet"}}
	a.alive, a.lost = context.WithCancel(context.Background())
	a.lost()
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ledgerfeed_standby_used", Help: "1 while answers are read from the standbys at LEDGERFEED_READ_DATABASE_URL, 0 while the primary gives all.",
		}, func() float64 {
			if a.State().Used {
				return 1
			}
			return 0
		})); err != nil {
			return nil, fmt.Errorf("standby: register metrics: %w", err)
		}
	}
	return a, nil
}

var errURL = errors.New("the address of the standbys cannot be read")

// ValidURL reports whether a text is the address of standbys.
func ValidURL(text string) bool {
	_, err := pgconn.ParseConfig(text)
	return err == nil && strings.HasPrefix(text, "postgres") && !strings.ContainsAny(text, " \t\n")
}

// Usable reports whether a server that was looked at just now may be read from.
func (a *Address) Usable() bool { return a.State().Used }

// Alive ends when the standbys cannot be reached. What is being read there then should be read
// elsewhere. It may have ended already.
func (a *Address) Alive() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.alive
}

// State is how the Address is now.
func (a *Address) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Open opens a pool of connections to the standbys, as pg.Open does, but whether or not they
// answer now. Whoever acquires one gets an error instead of a server that is too far behind.
func (a *Address) Open(ctx context.Context, o pg.Options) (*pgxpool.Pool, error) {
	o.Later, o.Prepare, o.ConnectTimeout = true, a.prepare, askTimeout
	pool, err := pg.Open(ctx, a.cfg.URL, o)
	if err != nil {
		return nil, fmt.Errorf("the standbys: %w", err)
	}
	return pool, nil
}

// askedKey is where a connection has when its server was asked last, with success.
const askedKey = "standby asked"

// prepare looks at the server of a connection before it is used. A connection to a server that
// must not be read from is closed: the next one may lead to another server.
func (a *Address) prepare(ctx context.Context, conn *pgx.Conn) (good bool, err error) {
	data := conn.PgConn().CustomData()
	if at, ok := data[askedKey].(time.Time); ok && time.Since(at) < trusted {
		return true, nil
	}
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	at := time.Now() // not of an injected clock: it measures the servers
	if _, err := a.look(limited, conn); err != nil {
		return false, err
	}
	data[askedKey] = at
	return true, nil
}

// Run follows the primary and the standbys until ctx ends.
func (a *Address) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	defer a.disconnect(ctx)
	for {
		behind, err := a.turn(ctx)
		if ctx.Err() != nil {
			return nil
		}
		a.note(ctx, behind, err)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// turn asks the primary, and then a standby, by how much it is behind at most.
func (a *Address) turn(ctx context.Context) (behind time.Duration, err error) {
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	// A primary that is slow to answer matters only when all marks are too old.
	m, unmarked := readMark(limited, a.cfg.Primary)
	if unmarked == nil {
		a.keep(m)
	} else if _, err := a.marksNow(); err != nil {
		return 0, unmarked
	}
	limited, cancel = context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if a.conn == nil {
		cfg, err := pg.ConnConfig(a.cfg.URL, map[string]string{"application_name": "ledgerfeed looks at the standby"})
		if err != nil {
			return 0, err
		}
		if a.conn, err = pgx.ConnectConfig(limited, cfg); err != nil {
			a.conn = nil
			return 0, &lostError{err}
		}
	}
	if behind, err = a.look(limited, a.conn); err != nil {
		a.disconnect(ctx) // the next connection may lead to another server
	}
	return behind, err
}

func (a *Address) disconnect(ctx context.Context) {
	if a.conn == nil {
		return
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	_ = a.conn.Close(limited) // it is given up
	a.conn = nil
}

// keep keeps a mark.
func (a *Address) keep(m mark) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marks = append(a.marks, m)
}

// marksNow are the marks to compare a server with, oldest first: the first one must be
// replayed. What a connection was asked holds for a while, so that one is younger than MaxLag.
func (a *Address) marksNow() ([]mark, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.marks) > 0 && time.Since(a.marks[0].at) > a.cfg.MaxLag-trusted {
		a.marks = a.marks[1:]
	}
	if len(a.marks) == 0 {
		return nil, errNoMark
	}
	return a.marks, nil
}

// look asks a server how far it is, and fails if it must not be read from.
func (a *Address) look(ctx context.Context, conn *pgx.Conn) (behind time.Duration, err error) {
	marks, err := a.marksNow()
	if err != nil {
		return 0, err
	}
	is, err := readStanding(ctx, conn)
	if err != nil {
		return 0, &lostError{err}
	}
	newest := marks[len(marks)-1]
	switch {
	case !is.recovering:
		return 0, errNotRecovering
	case is.system != newest.system:
		return 0, errOtherSystem
	case is.timeline != newest.timeline:
		return 0, &timelineError{is.timeline, newest.timeline}
	case is.replayed < marks[0].end:
		return 0, &behindError{a.cfg.MaxLag}
	}
	for _, m := range marks {
		if m.end <= is.replayed {
			behind = time.Since(m.at)
		}
	}
	return behind, nil
}

// note keeps what a turn has found. Whoever reads is told when the servers are lost, and one
// line of the log says each change.
func (a *Address) note(ctx context.Context, behind time.Duration, err error) {
	_, lost := errors.AsType[*lostError](err)
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.state
	a.state = State{Name: a.name, Used: err == nil, Behind: behind.Seconds()}
	if err != nil {
		a.state.Problem = describe(err)
	}
	switch {
	case lost:
		a.lost()
	case a.alive.Err() != nil:
		a.alive, a.lost = context.WithCancel(context.WithoutCancel(ctx))
	}
	switch {
	case a.state.Used && !before.Used:
		a.cfg.Logger.InfoContext(ctx, "answers are read from standbys", "address", a.name)
	case a.state.Problem != "" && a.state.Problem != before.Problem:
		a.cfg.Logger.WarnContext(ctx, "answers are not read from standbys", "address", a.name, "reason", a.state.Problem)
	}
}

// Look follows the standbys until one can be read from, or the time is over in which one that
// can be would be, and returns how they are. It is for commands, which serve nothing.
func Look(ctx context.Context, cfg Config) (State, error) {
	a, err := New(cfg)
	if err != nil {
		return State{}, err
	}
	limited, cancel := context.WithTimeout(ctx, cfg.MaxLag+askTimeout)
	defer cancel()
	defer a.disconnect(ctx)
	for {
		behind, err := a.turn(limited)
		if limited.Err() != nil {
			return a.State(), context.Cause(ctx)
		}
		a.note(ctx, behind, err)
		if err == nil {
			return a.State(), nil
		}
		select {
		case <-limited.Done():
			return a.State(), context.Cause(ctx)
		case <-time.After(every):
		}
	}
}
