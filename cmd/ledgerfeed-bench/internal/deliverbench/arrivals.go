package deliverbench

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// arrivals are the times at which events were committed and first arrived at a
// receiver.
type arrivals struct {
	expected atomic.Int64 // messages since the start
	arrived  atomic.Int64 // of them, repeats not counted

	mu      sync.Mutex
	commits map[string]time.Time // by event id, since the last take
	firsts  map[string]time.Time // by event id
}

// watch collects the arrivals of a receiver.
func watch(r *receiver) *arrivals {
	a := &arrivals{commits: map[string]time.Time{}, firsts: map[string]time.Time{}}
	r.arrived = func(id string, at time.Time) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if _, repeat := a.firsts[id]; !repeat {
			a.firsts[id] = at
			a.arrived.Add(1)
		}
	}
	return a
}

func (a *arrivals) committed(id string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.commits[id] = at
	a.expected.Add(1)
}

// await waits until everything that was committed has arrived.
func (a *arrivals) await(ctx context.Context) error {
	return awaitCount(ctx, &a.arrived, a.expected.Load())
}

// arrival is when an event was committed, and how long it took from there to the
// receiver.
type arrival struct {
	committed time.Time
	took      time.Duration
}

func times(list []arrival) []time.Duration {
	times := make([]time.Duration, len(list))
	for i, a := range list {
		times[i] = a.took
	}
	return times
}

// take returns the arrivals since the last call, in the order of their commits. An event that has not
// arrived is not among them.
func (a *arrivals) take() []arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]arrival, 0, len(a.commits))
	for id, at := range a.commits {
		if first, arrived := a.firsts[id]; arrived {
			list = append(list, arrival{at, max(0, first.Sub(at))})
		}
	}
	clear(a.commits)
	slices.SortFunc(list, func(x, y arrival) int { return x.committed.Compare(y.committed) })
	return list
}
