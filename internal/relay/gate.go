package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

const (
	// probeTimeout bounds one look at the broker.
	probeTimeout = 5 * time.Second

	// firstWait doubles until longestWait between two looks at a broker that is away.
	firstWait   = 100 * time.Millisecond
	longestWait = 10 * time.Second
)

// gate is closed while the broker is away. It is closed at first.
type gate struct {
	probe  func(context.Context) error
	clock  func() time.Time
	logger *slog.Logger

	turn chan struct{} // who holds its token looks at the broker

	mu     sync.Mutex
	open   bool      // guarded by mu, as the following are
	since  time.Time // it is closed
	reason error
}

var errNotTried = errors.New("the broker has not answered yet")

func newGate(probe func(context.Context) error, clock func() time.Time, logger *slog.Logger) *gate {
	return &gate{probe: probe, clock: clock, logger: logger, turn: make(chan struct{}, 1), since: clock(), reason: errNotTried}
}

// state returns since when the broker cannot be used, and why; nil: it can.
func (g *gate) state() (since time.Time, reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		return time.Time{}, nil
	}
	return g.since, g.reason
}

// err is the state in words; nil: the broker can be used.
func (g *gate) err() error {
	since, reason := g.state()
	if reason == nil {
		return nil
	}
	return fmt.Errorf("the message broker cannot be used since %s: %w", since.UTC().Format(time.RFC3339), reason)
}

// check looks at the broker after something could not be sent, and reports whether it can
// be used.
func (g *gate) check(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := g.probe(limited)
	g.set(ctx, err)
	return err == nil
}

// set opens or closes the gate, and logs when that changes.
func (g *gate) set(ctx context.Context, reason error) {
	g.mu.Lock()
	was, since := g.open, g.since
	g.open, g.reason = reason == nil, reason
	if was && reason != nil {
		g.since = g.clock()
	}
	g.mu.Unlock()
	switch {
	case was && reason != nil:
		g.logger.ErrorContext(ctx, "the message broker cannot be used; the relay waits for it", "error", reason)
	case !was && reason == nil:
		g.logger.InfoContext(ctx, "the message broker can be used; the relay goes on", "after", g.clock().Sub(since))
	}
}

// await returns when the gate is open or ctx has ended. One caller at a time looks at the
// broker.
func (g *gate) await(ctx context.Context) {
	if _, reason := g.state(); reason == nil {
		return
	}
	select {
	case <-ctx.Done():
		return
	case g.turn <- struct{}{}:
	}
	defer func() { <-g.turn }()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		if _, reason := g.state(); reason == nil || g.check(ctx) {
			return
		}
		if !flow.Pause(ctx, wait) {
			return
		}
	}
}
