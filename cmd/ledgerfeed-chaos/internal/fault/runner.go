//go:build linux

package fault

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// Runner does the faults of a schedule, some of them at the same time.
type Runner struct {
	Stage  *Stage
	Out    io.Writer     // a line for each fault
	Most   int           // faults; 0: as many as there is time for
	For    time.Duration // no fault begins later
	AtOnce int           // how many are under way at once
	Began  time.Time     // of the run

	do      func(context.Context, *Plan, target) // nil: one
	mu      sync.Mutex
	claimed map[string]bool
	active  int
	done    []check.Fault
	freed   chan struct{}
}

const (
	// lookAhead is how many faults may wait for others that are about the same things.
	// Those behind them begin earlier; what is about one thing keeps its order.
	lookAhead = 20
	// recoveryTimeout is how long a fault keeps its claims while what it touched does
	// not answer. It is longer than the limit that check.AnswersInTime holds.
	recoveryTimeout = 45 * time.Second
)

// waiting is a fault whose turn has come.
type waiting struct {
	plan   Plan
	target target
}

// Run does faults until there are enough, the time is over or until ends, and returns when
// the last of them has ended. A fault that has begun when until ends goes on, under ctx:
// a failover that stopped in the middle would leave no primary, for good.
func (r *Runner) Run(ctx, until context.Context, schedule iter.Seq[Plan]) []check.Fault {
	r.claimed, r.freed = map[string]bool{}, make(chan struct{}, 1)
	if r.do == nil {
		r.do = r.one
	}
	var faults sync.WaitGroup
	var list []waiting
	for p := range schedule {
		if r.Most > 0 && p.Number > r.Most || !flow.Sleep(until, p.After) {
			break
		}
		list = append(list, waiting{p, p.Kind.aim(r.Stage, &p)})
		if list = r.begin(ctx, &faults, list); !r.await(until, func() bool {
			list = r.begin(ctx, &faults, list)
			return len(list) < lookAhead
		}) {
			break
		}
	}
	r.await(until, func() bool {
		list = r.begin(ctx, &faults, list)
		return len(list) == 0
	})
	faults.Wait()
	return r.Faults()
}

// Faults are the faults that have ended.
func (r *Runner) Faults() []check.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.done)
}

// begin begins those faults whose things no other fault has, nor one that waits before
// them, and returns the others.
func (r *Runner) begin(ctx context.Context, faults *sync.WaitGroup, list []waiting) (left []waiting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := map[string]bool{}
	for _, w := range list {
		free := r.active < r.AtOnce && !slices.ContainsFunc(w.target.claims, func(c string) bool { return r.claimed[c] || before[c] })
		for _, c := range w.target.claims {
			if free {
				r.claimed[c] = true
			} else {
				before[c] = true
			}
		}
		if !free {
			left = append(left, w)
			continue
		}
		r.active++
		faults.Go(func() {
			r.do(ctx, &w.plan, w.target)
			r.free(w.target.claims)
		})
	}
	return left
}

// await waits until ok, which it asks whenever a fault has ended; false when the time
// is over.
func (r *Runner) await(ctx context.Context, ok func() bool) bool {
	over := time.NewTimer(time.Until(r.Began.Add(r.For)))
	defer over.Stop()
	for {
		select {
		case <-over.C:
			return false
		case <-ctx.Done():
			return false
		default:
		}
		if ok() {
			return true
		}
		select {
		case <-r.freed:
		case <-over.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// one does a fault and waits until what it touched answers again.
func (r *Runner) one(ctx context.Context, p *Plan, t target) {
	f := check.Fault{Number: p.Number, Kind: p.Kind.Name, Detail: t.detail, Touches: t.touches, Began: time.Now()}
	if err := p.Kind.do(ctx, r.Stage, p, t); err != nil {
		f.Err = err.Error()
	}
	f.Ended = time.Now()
	r.mu.Lock()
	r.done = append(r.done, f)
	r.mu.Unlock()
	line := fmt.Sprintf("%7.1fs  #%-4d %-19s %-28s %6.1fs", f.Began.Sub(r.Began).Seconds(), f.Number, f.Kind, f.Detail, f.Ended.Sub(f.Began).Seconds())
	if f.Err != "" {
		line += "  not done: " + f.Err
	}
	fmt.Fprintln(r.Out, line)
	for !r.Stage.Work.Readers.Answers(f.Ended, readersOf(t)...) && time.Since(f.Ended) < recoveryTimeout {
		if !flow.Sleep(ctx, 50*time.Millisecond) {
			break
		}
	}
}

// free gives back what a fault had claimed.
func (r *Runner) free(claims []string) {
	r.mu.Lock()
	r.active--
	for _, c := range claims {
		delete(r.claimed, c)
	}
	r.mu.Unlock()
	select {
	case r.freed <- struct{}{}:
	default:
	}
}

// readersOf are the readers whose answers show that a fault is over. While PostgreSQL
// is away nobody has one; of the processes, one may be stopped by another fault.
func readersOf(t target) []string {
	if t.process != nil {
		return []string{t.process.Name}
	}
	return []string{workload.Anybody}
}
