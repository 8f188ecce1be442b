package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/cell"
	"github.com/ledgerfeed/ledgerfeed/internal/console"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/heap"
	"github.com/ledgerfeed/ledgerfeed/internal/periodic"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Cells is a process that serves several cells. Each cell has a Service of its own, with its own
// connections, which starts again alone when it fails. They share the listeners: a request of the
// API goes to the cell that has its key, and one of the console to the cell that has its session.
type Cells struct {
	host    *Service // listeners, certificate and metrics of the process; it has no database
	metrics *prometheus.Registry
	migrate bool // bring each schema up to date first
	secure  bool // the console is at https

	parts  []*part                              // in the order of the file
	places *lru.Cache[[sha256.Size]byte, place] // where keys are, by their hashes

	mu       sync.Mutex
	bound    *group       // the listeners
	first    *readapi.API // answers where no cell can; nil: the API has no listener yet
	console  bool         // the console has a listener
	stopping bool         // no listener is bound any more
}

// part serves one cell.
type part struct {
	of      *Cells
	cell    cell.Cell
	outage  periodic.Outage
	service atomic.Pointer[Service] // since it began to be prepared; nil: it waits to be
	up      atomic.Pointer[Service] // while it serves
	why     atomic.Pointer[string]  // there is no service
}

// place is where a key was when all cells were asked.
type place struct {
	*part
	again time.Time // while the cell does not answer, the others are asked again from then on
}

const (
	// askAgain is how long nobody asks the other cells for a key again whose cell does not answer, so
	// that they do not suffer from it. The workspace can have moved.
	askAgain = 10 * time.Second
	// maxKeys bounds the keys whose cell is remembered, about 150 bytes each.
	maxKeys = 100_000
	// restartPause is how long a cell waits before its service starts again.
	restartPause = 2 * time.Second
)

// NewCells prepares a process that serves cells with some roles. Run starts it.
func NewCells(ctx context.Context, env *cli.Env, roles []string, migrate bool) (*Cells, error) {
	if slices.Contains(roles, RoleIngest) {
		return nil, cli.Usagef("the role %s appends to one database: run it in a process of its own, with DATABASE_URL and without LEDGERFEED_CELLS", RoleIngest)
	}
	if _, err := Allowed(env, roles); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	c := &Cells{
		host: &Service{env: env, roles: roles, metrics: registry, pools: NewPools()}, metrics: registry, migrate: migrate,
		secure: strings.HasPrefix(env.Settings.ConsoleAddress(), "https:"), bound: start(ctx, nil),
	}
	var err error
	if c.places, err = lru.New[[sha256.Size]byte, place](maxKeys); err != nil {
		return nil, fmt.Errorf("cannot remember the cells of keys: %w", err)
	}
	for _, one := range env.Cells {
		p := &part{of: c, cell: one, outage: periodic.Outage{
			Logger: env.Logger.With("cell", one.Name), Failing: "cannot serve a cell; starting again until it works, other cells are not affected", Working: "the cell is served again",
		}}
		p.fail(errors.New("starting"))
		c.parts = append(c.parts, p)
	}
	if err := c.host.prepareProcess(); err != nil {
		return nil, err
	}
	if err := c.host.startAdmin(ctx, c.readyz, prometheus.GathererFunc(c.gather)); err != nil {
		return nil, err
	}
	return c, nil
}

// Run serves until ctx ends or a listener fails. When ctx ends, /readyz says so first, and requests
// are still served for the drain delay.
func (c *Cells) Run(ctx context.Context) error {
	defer c.host.close()
	restore := heap.LetGrow()
	defer restore()
	env := c.host.env
	env.Logger.InfoContext(ctx, "listening", "for", AdminListener, "url", c.host.URL(AdminListener))
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var parts sync.WaitGroup
	for _, p := range c.parts {
		parts.Go(func() { p.keep(serving) })
	}
	c.host.ready.Store(true)
	tellSystemd(ctx, env.Logger, daemon.SdNotifyReady)
	select {
	case <-ctx.Done():
	case <-c.host.admin.ctx.Done():
	case <-c.bound.ctx.Done():
	}
	c.host.ready.Store(false)
	drain(ctx, env, c.bound)
	c.mu.Lock()
	c.stopping = true
	c.mu.Unlock()
	err := c.bound.stop() // requests under way end before what answers them
	stop()
	parts.Wait()
	return cmp.Or(err, c.host.admin.stop())
}

// keep serves the cell until ctx ends, and starts again when that fails.
func (p *part) keep(ctx context.Context) {
	env := p.of.host.env.InCell(p.cell)
	for {
		err := p.serve(ctx, env)
		if ctx.Err() != nil {
			return
		}
		p.fail(err)
		p.outage.LogTransition(ctx, err)
		if !flow.Sleep(ctx, restartPause) {
			return
		}
	}
}

func (p *part) fail(err error) {
	reason := reasonOf(err)
	p.why.Store(&reason)
}

// serve prepares the cell's service and runs it until ctx ends or one of its components fails.
func (p *part) serve(ctx context.Context, env *cli.Env) error {
	db, err := env.OpenDatabase(ctx, true)
	if err != nil {
		return err
	}
	if p.of.migrate {
		if _, err := db.Migrate(ctx); err != nil && !pg.Forbidden(err) { // another account migrates
			return err
		}
	}
	registry := prometheus.NewRegistry()
	s := &Service{
		env: env, database: db, roles: p.of.host.roles, part: p, pools: NewPools(), gather: registry,
		metrics: prometheus.WrapRegistererWith(prometheus.Labels{"cell": p.cell.Name}, registry),
	}
	p.service.Store(s)
	defer p.service.Store(nil)
	if err := s.prepare(ctx, func() error { return nil }); err != nil {
		return err
	}
	defer s.close()
	components := start(ctx, s.components)
	s.ready.Store(true)
	p.up.Store(s)
	p.of.bind(ctx, s)
	p.outage.LogTransition(ctx, nil)
	select {
	case <-ctx.Done():
	case <-components.ctx.Done():
	}
	p.up.Store(nil)
	s.ready.Store(false)
	return s.finish(ctx, components)
}

// bind binds the listeners when the first cell can answer their requests.
func (c *Cells) bind(ctx context.Context, s *Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return
	}
	before := len(c.host.components)
	err := error(nil)
	if api := s.served.api; api != nil && c.first == nil {
		server := readapi.NewServer(api, c.host.env.Logger)
		server.Handler = http.HandlerFunc(c.serveAPI)
		server.RegisterOnShutdown(c.drainWaits)
		err = c.host.listenAPI(ctx, api, server)
		c.first = api
	}
	if s.served.console != nil && !c.console && err == nil {
		server := console.NewServer(s.served.console)
		server.Handler = http.HandlerFunc(c.serveConsole)
		err = c.host.listenConsole(ctx, server)
		c.console = true
	}
	if err != nil {
		c.bound.cancel(err)
		return
	}
	for _, one := range c.host.components[before:] {
		c.host.env.Logger.InfoContext(ctx, "listening", "for", one.name, "url", c.host.URL(one.name))
		c.bound.add(one)
	}
}

// drainWaits ends the requests that wait for something, when the listener closes.
func (c *Cells) drainWaits() {
	for _, p := range c.parts {
		if s := p.up.Load(); s != nil {
			s.served.api.Drain()
		}
	}
}

// errAway is why a request is refused whose cell does not answer.
var errAway = errors.New("the cell that has the key does not answer")

// serveAPI lets the cell that has a request's key answer it.
func (c *Cells) serveAPI(w http.ResponseWriter, r *http.Request) {
	s, err := c.ofKey(r.Context(), readapi.KeyOf(r))
	if err != nil {
		c.mu.Lock()
		api := c.first
		c.mu.Unlock()
		api.Unavailable(w, r, err)
		return
	}
	s.served.api.ServeHTTP(w, r)
}

// ofKey returns the service of the cell that has a key. A text that is no key, and a key that no cell
// knows, is for any cell to refuse.
func (c *Cells) ofKey(ctx context.Context, key string) (*Service, error) {
	hash := sha256.Sum256([]byte(key))
	at, known := c.places.Get(hash)
	if known {
		s, holds, err := at.up.Load(), false, errAway
		if s != nil {
			holds, err = s.holds(ctx, key)
		}
		if now := c.host.env.Clock(); err != nil {
			if now.Before(at.again) {
				return nil, err
			}
			c.places.Add(hash, place{at.part, now.Add(askAgain)})
		}
		if holds {
			return s, nil
		}
	}
	var up []*Service
	away := false
	for _, p := range c.parts {
		if s := p.up.Load(); s != nil {
			up = append(up, s)
		} else {
			away = true
		}
	}
	if len(up) == 0 {
		return nil, errAway
	}
	if !up[0].isKey(ctx, key) {
		return up[0], nil
	}
	holds, failures := make([]bool, len(up)), make([]error, len(up))
	var wait sync.WaitGroup
	for i, s := range up {
		wait.Go(func() { holds[i], failures[i] = s.holds(ctx, key) })
	}
	wait.Wait()
	if i := slices.Index(holds, true); i >= 0 {
		c.places.Add(hash, place{part: up[i].part})
		return up[i], nil
	}
	if err := errors.Join(failures...); err != nil || away {
		return nil, cmp.Or(err, errAway)
	}
	c.places.Remove(hash)
	return up[0], nil
}

// isKey reports whether a text has the form of a key.
func (s *Service) isKey(ctx context.Context, text string) bool {
	_, err := s.served.keys.Authenticate(ctx, text)
	refused, is := errors.AsType[*access.RefusedError](err)
	return !is || refused.Reason != access.ReasonMissing && refused.Reason != access.ReasonMalformed
}

// holds reports whether the cell has a key, of a workspace that was not moved to another one. A key
// that was revoked counts.
func (s *Service) holds(ctx context.Context, text string) (bool, error) {
	key, err := s.served.keys.Authenticate(ctx, text)
	if refused, is := errors.AsType[*access.RefusedError](err); is {
		return refused.Reason != access.ReasonUnknown, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask the cell %s for a key: %w", s.env.Cell, err)
	}
	return key.Move == nil || !key.Move.Away, nil
}

// serveConsole lets the cell answer that made the token of a sign-in link or a session. Without a
// token, any cell does.
func (c *Cells) serveConsole(w http.ResponseWriter, r *http.Request) {
	token := web.SessionTokenOf(r, c.secure)
	for _, path := range []string{session.SignInPath, session.EmbedPath} {
		if rest, found := strings.CutPrefix(r.URL.Path, path); found && session.CellOf(rest) != "" {
			token = rest
		}
	}
	name := session.CellOf(token)
	known := slices.ContainsFunc(c.parts, func(p *part) bool { return p.cell.Name == name })
	for _, p := range c.parts {
		if s := p.up.Load(); s != nil && (p.cell.Name == name || !known) {
			s.served.console.ServeHTTP(w, r)
			return
		}
	}
	w.Header().Set("Retry-After", "10")
	http.Error(w, "The database of this workspace does not answer now. Try again in a minute.", http.StatusServiceUnavailable)
}

// otherSessions returns a function that returns the sessions of the other cells that are up.
func (p *part) otherSessions() func() []*session.Store {
	if p == nil {
		return nil
	}
	return func() (others []*session.Store) {
		for _, other := range p.of.parts {
			if s := other.up.Load(); s != nil && other != p && s.served.sessions != nil {
				others = append(others, s.served.sessions)
			}
		}
		return others
	}
}

// gather gathers the metrics of the process and of all cells.
func (c *Cells) gather() ([]*dto.MetricFamily, error) {
	all := prometheus.Gatherers{c.metrics}
	for _, p := range c.parts {
		if s := p.service.Load(); s != nil {
			all = append(all, s.gather)
		}
	}
	found, err := all.Gather()
	if err != nil {
		return found, fmt.Errorf("gather the metrics: %w", err)
	}
	return found, nil
}

func (c *Cells) readyz(w http.ResponseWriter, r *http.Request) {
	answerReadiness(w, r, c.host.roles, c.readiness)
}

// readiness says what is not ready. The process is ready while one cell is: otherwise one that does
// not answer would take all processes out of service, for the workspaces of all cells.
func (c *Cells) readiness(ctx context.Context, role string) Readiness {
	all := Readiness{Reasons: []Unready{}}
	for _, p := range c.parts {
		s := p.service.Load()
		if s == nil {
			all.Reasons = append(all.Reasons, Unready{Cell: p.cell.Name, Reason: *p.why.Load()})
			continue
		}
		is := s.readiness(ctx, role)
		all.Ready = all.Ready || is.Ready
		all.Reasons = append(all.Reasons, is.Reasons...)
		all.Connections.add(is.Connections)
		if len(all.Notifications) == 0 {
			all.Notifications = is.Notifications
		}
	}
	all.Ready = all.Ready && c.host.ready.Load()
	return all
}
