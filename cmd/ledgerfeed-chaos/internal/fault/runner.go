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
	Stage *Stage
	Out   io.Writer     // a line for each fault
	Most  int           // faults; 0: as many as there is time for
	For   time.Duration // no fault begins later
	Began time.Time     // of the run

	mu      sync.Mutex
	claimed map[string]bool
	active  int
	done    []check.Fault
	freed   chan struct{}
}

const (
	// mostAtOnce is how many faults are under way at once.
	mostAtOnce = 3
	// recoveryTimeout is how long a fault keeps its claims while what it touched does
	// not answer. It is longer than the limit that check.AnswersInTime holds.
	recoveryTimeout = 45 * time.Second
)

// Run does faults until there are enough, or the time is over, and returns when the
// last of them has ended.
func (r *Runner) Run(ctx context.Context, schedule iter.Seq[Plan]) []check.Fault {
	r.claimed, r.freed = map[string]bool{}, make(chan struct{}, 1)
	var faults sync.WaitGroup
	for p := range schedule {
		if r.Most > 0 && p.Number > r.Most || !flow.Pause(ctx, p.After) || time.Since(r.Began) > r.For {
			break
		}
		t := p.Kind.aim(r.Stage, &p)
		if !r.claim(ctx, t.claims) {
			break
		}
		faults.Go(func() { r.one(ctx, &p, t) })
	}
	faults.Wait()
	return r.Faults()
}

// Faults are those that have ended.
func (r *Runner) Faults() []check.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.done)
}

// claim waits until nothing else has what is claimed; false when the time is over.
func (r *Runner) claim(ctx context.Context, claims []string) bool {
	for {
		r.mu.Lock()
		free := r.active < mostAtOnce && !slices.ContainsFunc(claims, func(c string) bool { return r.claimed[c] })
		if free {
			r.active++
			for _, c := range claims {
				r.claimed[c] = true
			}
		}
		r.mu.Unlock()
		if free {
			return true
		}
		select {
		case <-r.freed:
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
		if time.Since(r.Began) > r.For {
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
		if !flow.Pause(ctx, 50*time.Millisecond) {
			break
		}
	}
	r.mu.Lock()
	r.active--
	for _, c := range t.claims {
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
