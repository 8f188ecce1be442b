package readapi

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// gather asks the database the questions of several requests together. What
// comes while questions are under way goes with the next ones: each request gets
// an answer that is no older than itself, and however many ask, the database
// hears from a few connections. A request that comes alone waits for nobody.
type gather[Q any] struct {
	ask      func(ctx context.Context, questions []*Q) // puts the answers, or why there is none, into the questions
	rounds   int                                       // under way at most
	patience time.Duration                             // with one round

	mu   sync.Mutex
	next *round[Q]
	busy int // rounds under way
}

// round is questions that are asked together.
type round[Q any] struct {
	questions []*Q
	done      chan struct{} // closed when all have their answers
	fault     error         // a panic while asking
}

// newGather asks through a pool. One round at a time would let the database wait
// while answers are written; beyond two, more than the processors can serve, or than
// half of the connections, would only make the rounds smaller.
func newGather[Q any](pool *pgxpool.Pool, patience time.Duration, ask func(ctx context.Context, questions []*Q)) *gather[Q] {
	rounds := max(2, min(runtime.GOMAXPROCS(0), int(pool.Config().MaxConns)/2))
	return &gather[Q]{ask: ask, rounds: rounds, patience: patience}
}

// put waits until a question is answered. After an error, which is that of ctx,
// the answer may still be written: the caller must leave the question alone.
func (g *gather[Q]) put(ctx context.Context, question *Q) error {
	g.mu.Lock()
	r := g.next
	if r == nil {
		r = &round[Q]{done: make(chan struct{})}
		g.next = r
	}
	r.questions = append(r.questions, question)
	if g.busy < g.rounds {
		g.busy++
		go g.run() // a round belongs to several requests and outlives each
	}
	g.mu.Unlock()
	select {
	case <-r.done:
		if r.fault != nil {
			panic(r.fault) // where a request's own would be caught
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run asks until no request waits.
func (g *gather[Q]) run() {
	for {
		// Requests that are about to ask come along, and spare a round of their own.
		runtime.Gosched()
		g.mu.Lock()
		r := g.next
		g.next = nil
		if r == nil {
			g.busy--
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		g.answer(r)
	}
}

func (g *gather[Q]) answer(r *round[Q]) {
	ctx, cancel := context.WithTimeout(context.Background(), g.patience)
	defer cancel()
	defer close(r.done)
	r.fault = safely(func() error {
		g.ask(ctx, r.questions)
		return nil
	})
}

var errAskPanic = errors.New("panic while asking the database")

// safely makes an error of a panic.
func safely(do func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%w: %v\n%s", errAskPanic, fault, debug.Stack())
		}
	}()
	return do()
}
