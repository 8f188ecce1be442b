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

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/console"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Cells is a process that serves several cells. Each cell has a Service of its own, with its own
// connections, which starts again alone when it fails. They share the listeners: a request of the
// API goes to the cell that has its key, and one of the console to the cell that has its session.
type Cells struct {
	host    *Service // listeners, certificate and metrics of the process; it has no database
	migrate bool     // bring each schema up to date first
	secure  bool     // the console is at https

	format access.Format
	parts  []*part                              // in the order of the file
	places *lru.Cache[[sha256.Size]byte, place] // where keys are, by their hashes

	mu       sync.Mutex
	bound    *group       // the listeners
	first    *readapi.API // writes the 503s while no cell is up; nil until the API's listener exists
	console  bool         // the console has a listener
	stopping bool         // no listener is bound any more
}

// part serves one cell.
type part struct {
	of      *Cells
	cell    operate.Cell
	outage  flow.Outage
	service atomic.Pointer[Service] // nil before preparation and between restarts
	up      atomic.Pointer[Service] // while it serves
	why     atomic.Pointer[string]  // service is nil
}

// place is where a key was when all cells were asked.
type place struct {
	*part
	again time.Time // if the cell is down: when to search the other cells again
}

const (
	// askAgain limits searches for a key whose cell is down. It is searched for at all because the
	// workspace may have moved.
	askAgain = 10 * time.Second
	// maxKeys bounds the keys whose cell is remembered, about 150 bytes each.
	maxKeys = 100_000
	// restartPause is how long a cell waits before its service starts again.
	restartPause = 2 * time.Second
)

// NewCells prepares a process that serves cells with some roles. Run starts it.
func NewCells(ctx context.Context, env *operate.Env, roles []string, migrate bool) (*Cells, error) {
	if slices.Contains(roles, RoleIngest) {
		return nil, cli.Usagef("the role %s appends to one cell: run it in a separate process with --cell, one of %s", RoleIngest, strings.Join(env.Cells.Names(), ", "))
	}
	if slices.Contains(roles, RoleIngestAPI) {
		return nil, cli.Usagef("the role %s appends to one cell, in one transaction: run it in a separate process with --cell, one of %s", RoleIngestAPI, strings.Join(env.Cells.Names(), ", "))
	}
	if _, err := Allowed(env, roles); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	c := &Cells{
		host: &Service{env: env, roles: roles, metrics: registry, pools: NewPools()}, migrate: migrate, format: access.NewFormat(env.Settings.Brand),
		secure: strings.HasPrefix(env.Settings.ConsoleAddress(), "https:"), bound: start(ctx, nil),
	}
	var err error
	if c.places, err = lru.New[[sha256.Size]byte, place](maxKeys); err != nil {
		return nil, fmt.Errorf("cannot remember the cells of keys: %w", err)
	}
	for _, one := range env.Cells {
		p := &part{of: c, cell: one, outage: flow.Outage{
			Logger: env.Logger.With("cell", one.Name), Failing: "cannot serve a cell; starting again until it works, other cells are not affected", Working: "the cell is served again",
		}}
		p.fail(errors.New("starting"))
		c.parts = append(c.parts, p)
		// Of the process, so that a cell that never came up has it, too.
		registry.MustRegister(readyGauge(prometheus.Labels{"cell": one.Name}, p.isReady))
	}
	// No cell is prepared yet, so the registry expects no metrics and takes whatever comes later.
	registry.MustRegister(prometheus.CollectorFunc(c.collect))
	if err = c.host.prepareProcess(); err == nil {
		err = c.host.startAdmin(ctx, c.readyz, registry)
	}
	if err != nil {
		c.host.close()
		return nil, err
	}
	return c, nil
}

// Run serves until ctx ends or a listener fails. When ctx ends, /readyz says so first, and requests
// are still served for the drain delay.
func (c *Cells) Run(ctx context.Context) error {
	defer c.host.close()
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

func (p *part) isReady() bool {
	s := p.service.Load()
	return s != nil && s.readiness(context.Background(), "").Ready
}

func (p *part) fail(err error) {
	reason := reasonOf(err)
	p.why.Store(&reason)
}

// serve prepares the cell's service and runs it until ctx ends or one of its components fails.
func (p *part) serve(ctx context.Context, env *operate.Env) error {
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
		env: env, database: db, roles: p.of.host.roles, part: p, pools: NewPools(), registry: registry,
		metrics: prometheus.WrapRegistererWith(prometheus.Labels{"cell": p.cell.Name}, registry),
	}
	defer p.service.Store(nil)
	shown := func() error {
		p.service.Store(s)
		return nil
	}
	if err := s.prepare(ctx, shown); err != nil {
		return err
	}
	defer func() {
		if ctx.Err() != nil { // requests have ended, too
			s.close()
			return
		}
		// close waits for open requests, and a whole list may take minutes. Close in the background so
		// that the cell can restart.
		go s.close()
	}()
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
	if s.served.api != nil {
		s.served.api.Drain()
	}
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
	up, _ := c.serving()
	for _, s := range up {
		s.served.api.Drain()
	}
}

// serving returns the services of the cells that are up. down: at least one cell is not.
func (c *Cells) serving() (up []*Service, down bool) {
	for _, p := range c.parts {
		if s := p.up.Load(); s != nil {
			up = append(up, s)
		} else {
			down = true
		}
	}
	return up, down
}

// errDown refuses a request because a cell that may have its key does not answer.
var errDown = errors.New("a cell that may have the key does not answer")

// serveAPI lets the cell that has a request's key answer it.
func (c *Cells) serveAPI(w http.ResponseWriter, r *http.Request) {
	s, err := c.ofKey(r.Context(), readapi.KeyOf(r))
	if err == nil {
		s.served.api.ServeHTTP(w, r)
		return
	}
	if up, _ := c.serving(); len(up) > 0 {
		up[0].served.api.Unavailable(w, r, err)
		return
	}
	c.mu.Lock()
	api := c.first
	c.mu.Unlock()
	api.Unavailable(w, r, err)
}

// ofKey returns the service of the cell that has a key. Any cell may refuse malformed and unknown
// keys.
func (c *Cells) ofKey(ctx context.Context, key string) (*Service, error) {
	up, down := c.serving()
	if len(up) == 0 {
		return nil, errDown
	}
	if !c.format.Is(key) {
		return up[0], nil
	}
	hash := sha256.Sum256([]byte(key))
	if at, known := c.places.Get(hash); known {
		s, has, err := at.up.Load(), unknown, errDown
		if s != nil {
			has, err = s.holds(ctx, s.served.keys.Authenticate, key)
		}
		if now := c.host.env.Clock(); err != nil {
			if now.Before(at.again) {
				return nil, err
			}
			c.places.Add(hash, place{at.part, now.Add(askAgain)})
		}
		if has >= refused {
			return s, nil
		}
	}
	return c.search(ctx, key, hash, up, down)
}

// search asks all cells that are up for a key, slowly: the look-ups of all requests share a query,
// so that invented keys cost each cell ten queries a second at most.
func (c *Cells) search(ctx context.Context, key string, hash [sha256.Size]byte, up []*Service, down bool) (*Service, error) {
	type answer struct {
		of  *Service
		has standing
		err error
	}
	answers := make(chan answer, len(up))
	for _, s := range up {
		go func() {
			has, err := s.holds(ctx, s.served.keys.AuthenticateSlowly, key)
			answers <- answer{s, has, err}
		}()
	}
	best := answer{of: up[0]}
	var failed error
	for range up {
		a := <-answers
		failed = cmp.Or(failed, a.err)
		if a.has > best.has {
			best = a
		}
		if best.has == works {
			break
		}
	}
	switch {
	case best.has != unknown:
		c.places.Add(hash, place{part: best.of.part})
		return best.of, nil
	case failed != nil || down:
		return nil, cmp.Or(failed, errDown)
	}
	c.places.Remove(hash)
	return best.of, nil
}

// standing is what a key is in a cell. The cell with the highest value answers.
type standing int

const (
	unknown standing = iota
	moved            // its workspace is in another cell, or on its way here
	refused          // it was revoked or rotated, or has expired
	works
)

// holds returns the standing of a key in the cell.
func (s *Service) holds(ctx context.Context, authenticate func(context.Context, string) (*access.Key, error), text string) (standing, error) {
	key, err := authenticate(ctx, text)
	if reason, is := errors.AsType[*access.RefusedError](err); is {
		if reason.Reason == access.ReasonUnknown {
			return unknown, nil
		}
		return refused, nil
	}
	switch {
	case err != nil:
		return unknown, fmt.Errorf("ask the cell %s for a key: %w", s.env.Cell, err)
	case key.Move != nil && key.Move.Away:
		return moved, nil
	}
	return works, nil
}

// serveConsole routes a request to the cell that made its token, of a sign-in link or a session, or
// without one to the first cell that is up.
func (c *Cells) serveConsole(w http.ResponseWriter, r *http.Request) {
	token, of := web.SessionTokenOf(r, c.secure, len(c.host.env.Settings.ConsoleEmbedOrigins) > 0), "" // a cell's name
	signsIn := strings.HasPrefix(r.URL.Path, strings.TrimSuffix(session.SignInPath, "/")) || strings.HasPrefix(r.URL.Path, web.AssetsPath)
	for _, path := range []string{session.SignInPath, session.EmbedPath} {
		if rest, found := strings.CutPrefix(r.URL.Path, path); found && session.CellOf(rest) != "" {
			token, signsIn = rest, false
		}
	}
	if name := session.CellOf(token); slices.ContainsFunc(c.parts, func(p *part) bool { return p.cell.Name == name }) {
		of = name
	}
	var other *Service
	for _, p := range c.parts {
		s := p.up.Load()
		if s == nil || s.served.console == nil {
			continue
		}
		if of == "" || p.cell.Name == of {
			s.served.console.ServeHTTP(w, r)
			return
		}
		other = cmp.Or(other, s)
	}
	if other != nil && signsIn { // people whose session is in a cell that is away can sign in to another
		other.served.console.ServeHTTP(w, r)
		return
	}
	text := "The console is not available. Try again in 10 seconds."
	if other != nil {
		text = "This workspace's database is not responding. Try again in 10 seconds, or sign in to another workspace at /sign-in."
	}
	w.Header().Set("Retry-After", "10")
	http.Error(w, text, http.StatusServiceUnavailable)
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

// collect collects the metrics of the cells that are prepared. None waits for its database.
func (c *Cells) collect(to chan<- prometheus.Metric) {
	for _, p := range c.parts {
		if s := p.service.Load(); s != nil {
			s.registry.Collect(to)
		}
	}
}

func (c *Cells) readyz(w http.ResponseWriter, r *http.Request) {
	answerReadiness(w, r, c.host.roles, c.readiness)
}

// readiness says what is not ready. The process is ready while one cell is: otherwise one that does
// not answer would take all processes out of service, for the workspaces of all cells.
func (c *Cells) readiness(ctx context.Context, role string) Readiness {
	each := make([]Readiness, len(c.parts))
	var wait sync.WaitGroup
	for i, p := range c.parts {
		s := p.service.Load()
		if s == nil {
			each[i].Reasons = []Unready{{Cell: p.cell.Name, Reason: *p.why.Load()}}
			continue
		}
		wait.Go(func() { each[i] = s.readiness(ctx, role) })
	}
	wait.Wait()
	all := Readiness{Reasons: []Unready{}}
	for i := range each {
		all.Ready = all.Ready || each[i].Ready
		all.Reasons = append(all.Reasons, each[i].Reasons...)
		all.Connections.add(each[i].Connections)
		all.Notifications = cmp.Or(all.Notifications, each[i].Notifications)
	}
	all.Ready = all.Ready && c.host.ready.Load()
	return all
}
