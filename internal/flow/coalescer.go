package flow

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// ErrOutcomeUnknown means that a caller's context ended after a batch had taken its item. The batch
// may still be using the item.
var ErrOutcomeUnknown = errors.New("outcome unknown")

// OutcomeUnknown reports whether an error of Coalescer.Do leaves the item's outcome open: its batch
// had begun and not ended, or it panicked.
func OutcomeUnknown(err error) bool {
	_, panicked := errors.AsType[*PanicError](err)
	return panicked || errors.Is(err, ErrOutcomeUnknown)
}

// errNotBegun means that a caller's context ended before a batch took its item.
var errNotBegun = errors.New("not begun")

// PanicError is the error for every caller of a batch whose work panics. Part of the work may be
// done.
type PanicError struct {
	Value any    // nil: runtime.Goexit ended the goroutine
	Stack []byte // of the goroutine that did the work
}

// Error returns the value and the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("panic in a batch: %v\n%s", e.Value, e.Stack)
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// CoalescerConfig configures a Coalescer of items of type T.
type CoalescerConfig[T any] struct {
	// Run works on one batch and puts each result into its item. The items are in the order in
	// which their callers arrived. Up to Concurrent goroutines may call it at once. The context has
	// the values of the leader's context, but only Timeout ends it, because other callers depend on
	// the batch.
	Run func(ctx context.Context, items []T)

	Timeout    time.Duration // of one batch; required
	Concurrent int           // the most batches in flight at once; default 1
	Max        int           // the most items in a batch; default: no limit

	// Detached runs each batch in a goroutine of its own, so that every caller can return when its
	// context ends. Otherwise the leader of a batch works in its own goroutine and stays until the
	// batch has ended: that saves a goroutine, and the leader always learns its result.
	Detached bool
}

// Coalescer collects the items of concurrent callers into batches, such as a transaction that
// commits what several of them append, or a round trip that reads what several of them ask for. Items that arrive while
// Concurrent batches are in flight wait for the next one, so a batch never begins before the calls
// that it serves. A lone caller does not wait.
//
// A Coalescer has no goroutine of its own. One caller of each batch is its leader: a caller that
// arrives while fewer than Concurrent batches are in flight, or the oldest waiting caller when the
// leader of a finished batch hands off.
type Coalescer[T any] struct {
	cfg CoalescerConfig[T]

	mu      sync.Mutex
	waiting []*pending[T] // oldest first
	leaders int           // callers that lead a batch, or were told to
	last    int           // size of the last batch
}

// pending is one call of Do in flight.
type pending[T any] struct {
	ctx    context.Context // of the caller
	item   T
	events chan event // nil for a leader that need not wait; capacity 1
	err    error      // read after batchEnded
}

// event is what a waiting caller is told.
type event int

const (
	leadBatch  event = iota // it must lead the next batch, in its own goroutine
	batchEnded              // the batch that took its item has ended
)

// NewCoalescer makes a Coalescer; it starts nothing and needs no closing.
func NewCoalescer[T any](cfg CoalescerConfig[T]) *Coalescer[T] {
	if cfg.Run == nil || cfg.Timeout <= 0 {
		panic("flow: CoalescerConfig needs Run and a Timeout")
	}
	cfg.Concurrent = max(1, cfg.Concurrent)
	return &Coalescer[T]{cfg: cfg}
}

// Do has a batch work on the item and returns nil when that batch has ended; the result is in the
// item. The error is a *PanicError if the work panicked. Any other error means that ctx has ended,
// and wraps its cause. If it is an ErrOutcomeUnknown, the caller must not touch the item any more.
// Otherwise no batch has taken the item, and none will.
func (c *Coalescer[T]) Do(ctx context.Context, item T) error {
	if ctx.Err() != nil {
		return left(ctx, errNotBegun)
	}
	p := &pending[T]{ctx: ctx, item: item}
	if c.join(p) {
		if !c.cfg.Detached {
			c.runBatch(p)
			return p.err
		}
		go c.runBatch(p)
	}
	select {
	case e := <-p.events:
		if e == leadBatch {
			c.runBatch(p)
		}
		return p.err
	case <-ctx.Done():
		return c.leave(p)
	}
}

// join reports whether a new caller leads a batch at once. If not, it adds the caller to those who
// wait.
func (c *Coalescer[T]) join(p *pending[T]) (leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leads = c.leaders < c.cfg.Concurrent
	if !leads || c.cfg.Detached {
		p.events = make(chan event, 1)
	}
	if leads {
		c.leaders++
	} else {
		c.waiting = append(c.waiting, p)
	}
	return leads
}

// leave removes a waiting caller whose context has ended, and returns its error.
func (c *Coalescer[T]) leave(p *pending[T]) error {
	c.mu.Lock()
	i := slices.Index(c.waiting, p)
	if i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	c.mu.Unlock()
	if i >= 0 {
		return left(p.ctx, errNotBegun)
	}
	select {
	case e := <-p.events: // at the same moment
		if e == batchEnded {
			return p.err
		}
		c.handOff()
		return left(p.ctx, errNotBegun)
	default:
		return left(p.ctx, ErrOutcomeUnknown)
	}
}

func left(ctx context.Context, what error) error {
	return fmt.Errorf("%w: %w", what, context.Cause(ctx))
}

// runBatch works on a leader's batch and hands off.
func (c *Coalescer[T]) runBatch(leader *pending[T]) {
	c.linger()
	batch := c.take(leader)
	items := make([]T, len(batch))
	for i, p := range batch {
		items[i] = p.item
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(leader.ctx), c.cfg.Timeout)
	defer cancel()
	defer c.handOff()
	ended := false
	defer func() {
		var err error
		if !ended {
			err = &PanicError{Value: recover(), Stack: debug.Stack()}
		}
		for _, p := range batch {
			p.err = err
			if p.events != nil {
				p.events <- batchEnded
			}
		}
	}()
	c.cfg.Run(ctx, items)
	ended = true
}

// lingerYields bounds how often a leader yields to other callers; each yield
// takes some microseconds at most.
const lingerYields = 16

// linger lets the callers of a busy Coalescer join. When a batch ends, all its
// callers return at once, and most of them come back with their next item.
// Without this the first of them would lead a batch of one, for which the others
// would have to wait.
func (c *Coalescer[T]) linger() {
	for range lingerYields {
		c.mu.Lock()
		enough := 1+len(c.waiting) > c.last/2
		c.mu.Unlock()
		if enough {
			return
		}
		runtime.Gosched()
	}
}

// take makes a batch of the leader and the waiting callers, up to Max.
func (c *Coalescer[T]) take(leader *pending[T]) []*pending[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.waiting)
	if c.cfg.Max > 0 {
		n = min(n, c.cfg.Max-1)
	}
	batch := make([]*pending[T], 0, 1+n)
	batch = append(append(batch, leader), c.waiting[:n]...)
	c.waiting = slices.Delete(c.waiting, 0, n)
	c.last = len(batch)
	return batch
}

// handOff makes the oldest waiting caller a leader.
func (c *Coalescer[T]) handOff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		c.leaders--
		return
	}
	next := c.waiting[0]
	c.waiting = slices.Delete(c.waiting, 0, 1)
	if c.cfg.Detached {
		go c.runBatch(next)
	} else {
		next.events <- leadBatch
	}
}
