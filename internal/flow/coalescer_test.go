package flow_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// errGone is why callers of these tests leave, and errBug what work panics with.
var (
	errGone = errors.New("the caller is gone")
	errBug  = errors.New("a bug")
)

// each runs a test for batches in the leader's goroutine and in their own, in
// virtual time.
func each(t *testing.T, test func(t *testing.T, detached bool)) {
	t.Helper()
	for _, detached := range []bool{false, true} {
		t.Run(fmt.Sprintf("detached=%v", detached), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, detached) })
		})
	}
}

// gate is work that tests watch and let go.
type gate struct {
	*flow.Coalescer[*int]
	begun chan []int    // the items of a batch that has begun
	pass  chan struct{} // one for each batch that may end
	panic atomic.Bool   // the next batch to end panics
}

func newGate(cfg flow.CoalescerConfig[*int]) *gate {
	g := &gate{begun: make(chan []int, 100), pass: make(chan struct{})}
	cfg.Timeout = time.Minute
	cfg.Run = func(_ context.Context, items []*int) {
		var list []int
		for _, i := range items {
			list = append(list, *i)
		}
		g.begun <- list
		<-g.pass
		if g.panic.CompareAndSwap(true, false) {
			panic(errBug)
		}
		for _, i := range items {
			*i = -*i
		}
	}
	g.Coalescer = flow.NewCoalescer(cfg)
	return g
}

// call is one call of Do in a goroutine of its own.
type call struct {
	item  int
	err   error
	ended chan struct{}
}

func (g *gate) do(ctx context.Context, item int) *call {
	c := &call{item: item, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		c.err = g.Do(ctx, &c.item)
	}()
	synctest.Wait() // one after the other
	return c
}

func (c *call) isDone(t *testing.T, was int) {
	t.Helper()
	<-c.ended
	if c.err != nil || c.item != -was {
		t.Errorf("item %d: result %d, error %v", was, c.item, c.err)
	}
}

func (g *gate) begins(t *testing.T, want ...int) {
	t.Helper()
	if got := <-g.begun; !slices.Equal(got, want) {
		t.Errorf("a batch of %v begins, want %v", got, want)
	}
}

// TestWaitingCallersShareTheNextBatch: a lone caller begins at once, what comes
// meanwhile shares batches of the largest size allowed, in the order of arrival.
func TestWaitingCallersShareTheNextBatch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, detached bool) {
		g := newGate(flow.CoalescerConfig[*int]{Max: 3, Detached: detached})
		var calls []*call
		for i := range 6 {
			calls = append(calls, g.do(t.Context(), i+1))
		}
		g.begins(t, 1)
		g.pass <- struct{}{}
		g.begins(t, 2, 3, 4)
		g.pass <- struct{}{}
		g.begins(t, 5, 6)
		g.pass <- struct{}{}
		for i, c := range calls {
			c.isDone(t, i+1)
		}
		alone := g.do(t.Context(), 7)
		g.begins(t, 7)
		g.pass <- struct{}{}
		alone.isDone(t, 7)
	})
}

// TestSeveralBatchesAtOnce: as many batches run at once as may, and no more.
func TestSeveralBatchesAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, detached bool) {
		g := newGate(flow.CoalescerConfig[*int]{Concurrent: 2, Detached: detached})
		var calls []*call
		for i := range 5 {
			calls = append(calls, g.do(t.Context(), i+1))
		}
		g.begins(t, 1)
		g.begins(t, 2)
		if len(g.begun) > 0 {
			t.Errorf("a third batch begins: %v", <-g.begun)
		}
		g.pass <- struct{}{}
		g.begins(t, 3, 4, 5)
		g.pass <- struct{}{}
		g.pass <- struct{}{}
		for i, c := range calls {
			c.isDone(t, i+1)
		}
	})
}

// TestCallersLeave: a caller whose context ends leaves at once, and the others
// do not notice.
func TestCallersLeave(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, detached bool) {
		g := newGate(flow.CoalescerConfig[*int]{Detached: detached})
		ctx, leave := context.WithCancelCause(t.Context())
		first := g.do(t.Context(), 1)
		waits := g.do(ctx, 2)
		stays := g.do(t.Context(), 3)
		leave(errGone)
		<-waits.ended
		if errors.Is(waits.err, flow.ErrOutcomeUnknown) || !errors.Is(waits.err, errGone) || waits.item != 2 {
			t.Errorf("who waited left with %v, item %d", waits.err, waits.item)
		}
		late := g.do(ctx, 4)
		<-late.ended
		if errors.Is(late.err, flow.ErrOutcomeUnknown) || !errors.Is(late.err, errGone) {
			t.Errorf("who came with an ended context left with %v", late.err)
		}

		ctx, leave = context.WithCancelCause(t.Context())
		taken := g.do(ctx, 5)
		g.begins(t, 1)
		g.pass <- struct{}{}
		g.begins(t, 3, 5)
		leave(errGone)
		<-taken.ended
		if !errors.Is(taken.err, flow.ErrOutcomeUnknown) || !errors.Is(taken.err, errGone) {
			t.Errorf("who was in a batch left with %v", taken.err)
		}
		g.pass <- struct{}{}
		first.isDone(t, 1)
		stays.isDone(t, 3)
	})
}

// TestLeadersLeave: the leader's context ends. It leaves if its batch is
// detached; in any case the batch goes on for the others.
func TestLeadersLeave(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, detached bool) {
		g := newGate(flow.CoalescerConfig[*int]{Detached: detached})
		first := g.do(t.Context(), 1)
		ctx, leave := context.WithCancelCause(t.Context())
		leader := g.do(ctx, 2)
		other := g.do(t.Context(), 3)
		g.begins(t, 1)
		g.pass <- struct{}{}
		g.begins(t, 2, 3)
		leave(errGone)
		synctest.Wait()
		select {
		case <-leader.ended:
			if !detached || !errors.Is(leader.err, flow.ErrOutcomeUnknown) {
				t.Errorf("the leader left with %v", leader.err)
			}
		default:
			if detached {
				t.Error("the leader did not leave")
			}
		}
		g.pass <- struct{}{}
		first.isDone(t, 1)
		other.isDone(t, 3)
		if <-leader.ended; !detached {
			leader.isDone(t, 2)
		}
		g.goesOn(t)
	})
}

// TestLeavingWhenToldToLead: a caller's context ends at the very moment when it
// is made a leader. The next caller leads in its place.
func TestLeavingWhenToldToLead(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, detached bool) {
		for range 100 {
			ctx, leave := context.WithCancelCause(t.Context())
			hold := make(chan struct{})
			c := flow.NewCoalescer(flow.CoalescerConfig[int]{Timeout: time.Minute, Max: 1, Detached: detached, Run: func(_ context.Context, items []int) {
				if items[0] == 0 {
					<-hold
					leave(errGone) // and then hands off
				}
			}})
			var (
				group sync.WaitGroup
				errs  [3]error
			)
			for i, ctx := range []context.Context{t.Context(), ctx, t.Context()} {
				group.Go(func() { errs[i] = c.Do(ctx, i) })
				synctest.Wait()
			}
			close(hold)
			group.Wait()
			if errs[0] != nil || errs[1] != nil && !errors.Is(errs[1], errGone) || errs[2] != nil {
				t.Errorf("errors %v", errs)
			}
		}
	})
}

// goesOn checks that a later call works as ever.
func (g *gate) goesOn(t *testing.T) {
	t.Helper()
	c := g.do(t.Context(), 1000)
	g.begins(t, 1000)
	g.pass <- struct{}{}
	c.isDone(t, 1000)
}

// TestPanic: every caller of the batch gets the value and the stack, and nobody
// else does.
func TestPanic(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, detached bool) {
		g := newGate(flow.CoalescerConfig[*int]{Max: 2, Detached: detached})
		var calls []*call
		for i := range 4 {
			calls = append(calls, g.do(t.Context(), i+1))
		}
		g.begins(t, 1)
		g.pass <- struct{}{}
		g.begins(t, 2, 3)
		g.panic.Store(true)
		g.pass <- struct{}{}
		g.begins(t, 4)
		g.pass <- struct{}{}
		for i, c := range calls {
			if i == 0 || i == 3 {
				c.isDone(t, i+1)
				continue
			}
			<-c.ended
			panicked, ok := errors.AsType[*flow.PanicError](c.err)
			if !ok || panicked.Value == nil || !errors.Is(c.err, errBug) || !strings.Contains(c.err.Error(), "coalescer_test.go") {
				t.Errorf("call %d: %v", i+1, c.err)
			}
		}
		g.goesOn(t)
	})
}

// TestGoexit: work that ends its goroutine, as a test's FailNow does, leaves no
// other caller waiting.
func TestGoexit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, detached bool) {
		var exits atomic.Int32
		hold := make(chan struct{})
		c := flow.NewCoalescer(flow.CoalescerConfig[int]{Timeout: time.Minute, Detached: detached, Run: func(context.Context, []int) {
			if <-hold; exits.Add(1) == 2 {
				runtime.Goexit()
			}
		}})
		var (
			group sync.WaitGroup
			errs  [3]error
		)
		for i := range errs {
			group.Go(func() { errs[i] = c.Do(t.Context(), i) })
			synctest.Wait()
		}
		close(hold)
		group.Wait()
		if _, ok := errors.AsType[*flow.PanicError](errs[2]); !ok || errs[0] != nil {
			t.Errorf("errors %v", errs)
		}
		if err := c.Do(t.Context(), 3); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// TestContextOfABatch: it has the leader's values and ends after the timeout,
// whatever becomes of the leader.
func TestContextOfABatch(t *testing.T) {
	t.Parallel()
	type key struct{}
	each(t, func(t *testing.T, detached bool) {
		seen := make(chan context.Context, 1)
		c := flow.NewCoalescer(flow.CoalescerConfig[int]{Timeout: time.Minute, Detached: detached, Run: func(ctx context.Context, _ []int) {
			<-ctx.Done()
			seen <- ctx
		}})
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Second)
		defer cancel()
		if err := c.Do(ctx, 1); detached != errors.Is(err, flow.ErrOutcomeUnknown) {
			t.Errorf("error %v", err)
		}
		ctx = <-seen
		if value := ctx.Value(key{}); value != "v" || !errors.Is(ctx.Err(), context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("value %v, error %v after %v", value, ctx.Err(), time.Since(began))
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for i, cfg := range []flow.CoalescerConfig[int]{
		{Timeout: time.Second},
		{Run: func(context.Context, []int) {}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("config %d is accepted", i)
				}
			}()
			flow.NewCoalescer(cfg)
		}()
	}
}

// TestManyCallers: many callers in real time, some of which leave; each gets its
// own result, in fewer batches than there are items.
func TestManyCallers(t *testing.T) {
	t.Parallel()
	for _, detached := range []bool{false, true} {
		const callers, rounds, most = 50, 200, 3
		var under, batches, tooMany, items atomic.Int64
		c := flow.NewCoalescer(flow.CoalescerConfig[*[2]int]{
			Timeout: time.Minute, Concurrent: most, Max: 20, Detached: detached,
			Run: func(_ context.Context, list []*[2]int) {
				if under.Add(1) > most || len(list) > 20 {
					tooMany.Add(1)
				}
				defer under.Add(-1)
				batches.Add(1)
				items.Add(int64(len(list)))
				for _, i := range list {
					i[1] = -i[0]
				}
				runtime.Gosched()
			},
		})
		var group sync.WaitGroup
		for caller := range callers {
			group.Go(func() {
				for i := range rounds {
					ctx, leave := context.WithCancel(t.Context())
					if i%7 == 0 {
						go leave()
					}
					item := &[2]int{caller*rounds + i + 1}
					err := c.Do(ctx, item)
					if err == nil && item[1] != -item[0] || err != nil && !errors.Is(err, context.Canceled) {
						t.Errorf("item %d: result %d, error %v", item[0], item[1], err)
					}
					leave()
				}
			})
		}
		group.Wait()
		if tooMany.Load() > 0 {
			t.Error("too many batches were under way, or one was too large")
		}
		if batches.Load() >= items.Load() {
			t.Errorf("%d batches for %d items", batches.Load(), items.Load())
		}
	}
}
