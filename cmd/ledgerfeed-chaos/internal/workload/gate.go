//go:build linux

package workload

import (
	"context"
	"sync"
	"time"
)

// gate lets tries through, except while it is shut.
type gate struct {
	mu     sync.RWMutex // held for reading by tries, for writing while shut
	tries  sync.Mutex   // guards ctx and cancel
	ctx    context.Context
	cancel context.CancelFunc
}

func newGate() *gate {
	g := &gate{}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// pass does a try, which ends when the gate is shut.
func (g *gate) pass(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	g.tries.Lock()
	shutting := g.ctx
	g.tries.Unlock()
	trying, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	keep := context.AfterFunc(shutting, cancel)
	defer keep()
	return try(trying)
}

// shut ends the tries under way and lets none through until release is called.
func (g *gate) shut() (release func()) {
	g.tries.Lock()
	g.cancel()
	g.tries.Unlock()
	g.mu.Lock()
	g.tries.Lock()
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.tries.Unlock()
	return g.mu.Unlock
}

// Clock is a producer's clock, which can be wrong.
type Clock struct {
	mu    sync.Mutex
	wrong time.Duration
}

// Now is the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.wrong)
}

// Jump makes the clock wrong by so much; 0 mends it.
func (c *Clock) Jump(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = by
}
