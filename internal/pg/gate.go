package pg

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// growthPause is the time between two attempts to open a connection for callers that
	// wait, after the server has refused one.
	growthPause = 250 * time.Millisecond
	// lookPause bounds how late a connection is seen that was given back: that is told
	// just before it is free.
	lookPause = time.Millisecond
	// pingAfter is how long a connection may be idle before it is asked whether it works.
	pingAfter = time.Second
)

// gate lets a caller that needs a connection wait for one of the pool where the server refuses
// a new one. pgxpool alone would make the caller open it, and hand it the refusal,
// although another connection of the pool may be free in a moment. So nobody who needs a
// connection opens one: a caller that finds none free waits here, goroutines open some
// meanwhile, and what is given back or opened first goes to the caller that has waited longest.
//
// It is called by pgxpool as a tracer, before and after each Acquire and Release. Where
// the server cannot be reached at all, or the pool has no connection that could be given
// back, nobody waits: they try themselves, and get the error.
type gate struct {
	tracer pgxpool.AcquireTracer // of statements, called too; nil: none
	given  chan struct{}         // holds a token when a connection is being given back

	mu       sync.Mutex
	pool     *pgxpool.Pool
	waiting  []*passage // longest waiting first; guarded by mu
	passing  int        // callers that are let in and have not taken their connection yet; guarded by mu
	nobody   *sync.Cond // passing is 0
	deciding int        // goroutines that look whether they have to open a connection; guarded by mu
	growing  int        // goroutines that open a connection; guarded by mu
	refused  bool       // the last attempt was; guarded by mu
	looking  bool       // a goroutine looks for free connections; guarded by mu
	stat     Waits      // guarded by mu
}

// Waits says how connections of a pool were waited for.
type Waits struct {
	Waiting int           // for a connection, now
	Count   uint64        // how often somebody waited
	Time    time.Duration // how long all together
	Refused uint64        // new connections that the server refused because there are too many
}

// WaitsOf returns the waits for connections of a pool of Open.
func WaitsOf(pool *pgxpool.Pool) Waits {
	g, ok := pool.Config().ConnConfig.Tracer.(*gate)
	if !ok {
		return Waits{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.stat
	w.Waiting = len(g.waiting)
	return w
}

// passage is an Acquire until it takes a connection or begins to open one; its context
// has it.
type passage struct {
	grows bool          // it opens a connection for callers that wait
	turn  chan struct{} // closed when it is let in; nil: it need not wait
	in    bool          // it is let in and has nothing yet; guarded by the gate's mu
}

type passageKey struct{}

// withGate makes a pool of the configuration use a gate.
func withGate(cfg *pgxpool.Config) {
	tracer := cfg.ConnConfig.Tracer
	g := &gate{given: make(chan struct{}, 1)}
	g.nobody = sync.NewCond(&g.mu)
	g.tracer, _ = tracer.(pgxpool.AcquireTracer)
	cfg.ConnConfig.Tracer = g
	cfg.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		if _, own := c.Tracer.(*gate); own { // not where a pool of a changed configuration has another one
			c.Tracer = tracer // of the statements of the connection
		}
		g.through(ctx)
		return nil
	}
	cfg.ShouldPing = func(ctx context.Context, p pgxpool.ShouldPingParams) bool {
		g.through(ctx)
		return p.IdleDuration > pingAfter
	}
}

// TraceQueryStart implements pgx.QueryTracer, which the field for tracers asks for;
// connections do not have the gate.
func (g *gate) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (g *gate) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceAcquireStart implements pgxpool.AcquireTracer: it returns when the pool has a free
// connection for the caller, when ctx has ended, or when the caller is to try itself.
func (g *gate) TraceAcquireStart(ctx context.Context, pool *pgxpool.Pool, data pgxpool.TraceAcquireStartData) context.Context {
	if g.tracer != nil {
		ctx = g.tracer.TraceAcquireStart(ctx, pool, data)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pool = pool
	if p, ok := ctx.Value(passageKey{}).(*passage); ok && p.grows {
		p.in = true
		g.deciding++
		for g.passing > 0 { // it must not take what they were let in for
			g.nobody.Wait()
		}
		return ctx
	}
	p := &passage{}
	if len(g.waiting) == 0 && g.free() {
		g.letIn(p)
	} else {
		g.wait(ctx, p)
	}
	return context.WithValue(ctx, passageKey{}, p)
}

// free reports whether the pool has a free connection that nobody is about to take. It
// needs the lock.
func (g *gate) free() bool { return g.deciding == 0 && int(g.pool.Stat().IdleConns()) > g.passing }

// letIn lets a caller in. It needs the lock.
func (g *gate) letIn(p *passage) {
	p.in = true
	g.passing++
	if p.turn != nil {
		close(p.turn)
	}
}

// letFirstIn lets the one in who has waited longest. It needs the lock.
func (g *gate) letFirstIn() {
	g.letIn(g.waiting[0])
	g.waiting = slices.Delete(g.waiting, 0, 1)
}

// through ends a passage, unless that was done before.
func (g *gate) through(ctx context.Context) {
	p, ok := ctx.Value(passageKey{}).(*passage)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !p.in:
	case p.grows:
		g.deciding--
	default:
		if g.passing--; g.passing == 0 {
			g.nobody.Broadcast()
		}
	}
	p.in = false
}

// wait waits until it is the caller's turn, or ctx has ended: what follows then fails with
// its error. It needs the lock, and is without it meanwhile.
func (g *gate) wait(ctx context.Context, p *passage) {
	p.turn = make(chan struct{})
	g.waiting = append(g.waiting, p)
	g.grow()
	if !g.looking {
		g.looking = true
		go g.look()
	}
	g.mu.Unlock()
	began := time.Now()
	select {
	case <-p.turn:
	case <-ctx.Done():
	}
	g.mu.Lock()
	g.stat.Count++
	g.stat.Time += time.Since(began)
	if i := slices.Index(g.waiting, p); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
}

// look lets callers in as connections become free, until nobody waits.
func (g *gate) look() {
	pause := time.NewTicker(lookPause)
	defer pause.Stop()
	for g.lookOnce() {
		select {
		case <-g.given:
		case <-pause.C:
		}
	}
}

// lookOnce reports whether somebody still waits.
func (g *gate) lookOnce() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) > 0 && g.free() {
		g.letFirstIn()
	}
	g.grow()
	g.looking = len(g.waiting) > 0
	return g.looking
}

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (g *gate) TraceAcquireEnd(ctx context.Context, pool *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	if g.tracer != nil {
		g.tracer.TraceAcquireEnd(ctx, pool, data)
	}
	g.through(ctx)
	if data.Err != nil && TooMany(data.Err) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.stat.Refused++
	}
}

// TraceRelease implements pgxpool.ReleaseTracer.
func (g *gate) TraceRelease(*pgxpool.Pool, pgxpool.TraceReleaseData) {
	select {
	case g.given <- struct{}{}:
	default:
	}
}

// grow opens connections for callers that wait, if there may be more; one at a time where
// the server refuses them. It needs the lock.
func (g *gate) grow() {
	s := g.pool.Stat()
	most := int(s.MaxConns() - s.AcquiredConns() - s.IdleConns())
	if g.refused {
		most = min(most, 1)
	}
	for g.growing < min(most, len(g.waiting)) {
		g.growing++
		go g.growOne(g.pool)
	}
}

func (g *gate) growOne(pool *pgxpool.Pool) {
	c, err := pool.Acquire(context.WithValue(context.Background(), passageKey{}, &passage{grows: true}))
	if err == nil {
		c.Release()
	}
	if g.grown(pool, err) {
		<-time.After(growthPause) // it counts as growing meanwhile, so that no other tries
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.growing--
}

// grown reports whether the server refused a connection that somebody waits for.
func (g *gate) grown(pool *pgxpool.Pool, err error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = TooMany(err)
	if s := pool.Stat(); err != nil && (!g.refused || s.AcquiredConns()+s.IdleConns() == 0) {
		for len(g.waiting) > 0 { // they try themselves
			g.letFirstIn()
		}
	}
	return g.refused && len(g.waiting) > 0
}
