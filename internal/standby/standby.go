// Package standby lets answers be read from streaming standbys of the database. They are reached at
// one address: a standby's, or a load balancer's in front of several.
//
// Readers never see data older than MaxLag. Four times a second, the primary is asked where
// its write-ahead log ends: a mark. A server that has replayed its log up to a mark shows
// everything that was committed before the mark was taken. So before a connection is used for
// reads, its server is asked how far it has replayed. The connection is refused if that is less
// than the primary had MaxLag ago. No clocks are compared, nothing is written, and it does not
// matter which server a load balancer chose.
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
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Config configures an Address. All fields but Metrics are required.
type Config struct {
	URL     string // of the standbys
	Primary pg.DB  // asked for the end of its write-ahead log: one short statement at a time
	Logger  *slog.Logger

	// Metrics registers the collectors; nil: they are not registered.
	Metrics prometheus.Registerer
}

// MaxLag is how far behind a standby may be to be read from. The primary is asked eight times
// within it, so that a slow answer or two send no reads to the primary, and readers without a cursor
// do not notice two seconds.
const MaxLag = 2 * time.Second

const (
	// every is how often the primary and one of the standbys are asked.
	every = 250 * time.Millisecond
	// trusted is how long a connection is used before its server is asked again.
	trusted = 100 * time.Millisecond
	// askTimeout bounds one question to a server. A server that does not answer in time counts as
	// lost.
	askTimeout = time.Second
)

// Address is the address of standbys. Any number of goroutines may call its methods.
type Address struct {
	cfg  Config
	name string // host:port, for people

	mu    sync.Mutex
	marks []mark // younger than MaxLag, oldest first; guarded by mu
	state State  // as Run saw it last; guarded by mu
	alive context.Context
	lost  context.CancelFunc

	conn *pgx.Conn // used by Run only
}

// State is the state of an Address.
type State struct {
	Name    string  `json:"address"` // host:port
	Used    bool    `json:"used"`
	Behind  float64 `json:"behind_seconds"` // upper bound for the server asked last; meaningless unless Used
	Problem string  `json:"problem,omitempty"`
}

// New makes an Address. Nothing is read from it while Run is not running.
func New(cfg Config) (*Address, error) {
	parsed, err := pgconn.ParseConfig(cfg.URL)
	if err != nil {
		return nil, errURL // the error may show a password
	}
	if cfg.Primary == nil || cfg.Logger == nil {
		return nil, errors.New("standby: Config needs a Primary and a Logger")
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

// ValidURL reports whether text can be the address of standbys.
func ValidURL(text string) bool {
	_, err := pgconn.ParseConfig(text)
	return err == nil && strings.HasPrefix(text, "postgres") && !strings.ContainsAny(text, " \t\n")
}

// Usable reports whether the standbys can be read from, as of the last check.
func (a *Address) Usable() bool { return a.State().Used }

// Alive returns a context that ends when the standbys cannot be reached. Reads in flight there
// should then continue elsewhere. The context may have ended already.
func (a *Address) Alive() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.alive
}

// State returns the current state of the Address.
func (a *Address) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Open opens a connection pool to the standbys like pg.Open, but succeeds even if they do not
// answer now. Acquiring a connection fails if its server is too far behind.
func (a *Address) Open(ctx context.Context, o pg.Options) (*pg.Pool, error) {
	o.Later, o.Prepare, o.ConnectTimeout = true, a.prepare, askTimeout
	pool, err := pg.Open(ctx, a.cfg.URL, o)
	if err != nil {
		return nil, fmt.Errorf("the standbys: %w", err)
	}
	return pool, nil
}

// askedKey is the key, in a connection's custom data, of the time when its server last passed a
// check.
const askedKey = "standby asked"

// prepare checks the server of a connection before the connection is used. If the server must not
// be read from, the connection is closed: the next one may lead to another server.
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

// turn asks the primary for a mark and then a standby for its state. behind is at most how far the
// standby is behind.
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
	_ = a.conn.Close(limited) // the connection is discarded anyway
	a.conn = nil
}

// keep adds a mark.
func (a *Address) keep(m mark) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marks = append(a.marks, m)
}

// marksNow returns the marks to compare a server with, oldest first. A server must have replayed
// the first one. Since a check stays valid for trusted, that mark is younger than MaxLag by as
// much.
func (a *Address) marksNow() ([]mark, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.marks) > 0 && time.Since(a.marks[0].at) > MaxLag-trusted {
		a.marks = a.marks[1:]
	}
	if len(a.marks) == 0 {
		return nil, errNoMark
	}
	return a.marks, nil
}

// look asks a server how far it has replayed, and fails if the server must not be read from.
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
		return 0, errBehind
	}
	for _, m := range marks {
		if m.end <= is.replayed {
			behind = time.Since(m.at)
		}
	}
	return behind, nil
}

// note records the result of a turn. It ends the context of Alive when the servers are lost, and
// logs one line for each change.
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

// Look checks the standbys until one can be read from, but no longer than it takes a usable one to
// qualify (MaxLag and askTimeout), and returns their state. It is for commands, which do not use
// Run.
func Look(ctx context.Context, cfg Config) (State, error) {
	a, err := New(cfg)
	if err != nil {
		return State{}, err
	}
	limited, cancel := context.WithTimeout(ctx, MaxLag+askTimeout)
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
		if !flow.Sleep(limited, every) {
			return a.State(), context.Cause(ctx)
		}
	}
}
