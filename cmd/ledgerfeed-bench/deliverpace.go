package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pace measures the time from the commit of an append to the first byte at the
// receiver, with the projector at work.
func (d *delivering) pace(ctx context.Context, rate int) error {
	cold, later, err := d.latency(ctx, rate, http1, neighbours{}, d.duration(visibleTime))
	if err != nil {
		return err
	}
	times := took(later)
	d.Report.add(Figure{Name: fmt.Sprintf("commit → first byte at the receiver, %d/s, p50", rate), Value: quantile(times, 0.5), Unit: "ms"}.below(15))
	d.Report.add(Figure{Name: "    p99", Value: quantile(times, 0.99), Unit: "ms"}.below(60))
	d.Report.add(Figure{Name: "    the first message of each webhook after the start, longest", Value: quantile(took(cold), 1), Unit: "ms"})
	return nil
}

// neighbours are webhooks beside those that are measured. Each has a receiver of its
// own.
type neighbours struct {
	count int
	hang  bool // their receivers never answer
}

// before is how long they get messages before anything is measured: longer than an
// attempt may take, and than it takes until those that only fail have to take turns.
func (n neighbours) before() time.Duration {
	if n.count == 0 {
		return 0
	}
	return 22 * time.Second
}

// receivers starts them; end lets those that hang go and stops all.
func (n neighbours) receivers(speaks protocol) (list []*receiver, end func()) {
	release := make(chan struct{})
	for range n.count {
		r := newReceiver(speaks)
		if n.hang {
			r.hang = release
		}
		list = append(list, r)
	}
	return list, func() {
		close(release)
		for _, r := range list {
			r.Close()
		}
	}
}

// latency takes these times for 20 webhooks, of the first message of each since
// the program started and of those that follow. Their neighbours get as many
// messages in all.
func (d *delivering) latency(ctx context.Context, rate int, speaks protocol, n neighbours, lasting time.Duration) (cold, later []arrival, err error) {
	good := newReceiver(speaks)
	defer good.Close()
	beside, end := n.receivers(speaks)
	defer end()
	cleanUp, err := d.prepare(good)
	if err != nil {
		return nil, nil, err
	}
	defer cleanUp()
	seen := watch(good)
	for i := range deliverWebhooks {
		if _, err := d.webhook(ctx, workspaceName(i), good.url()); err != nil {
			return nil, nil, err
		}
	}
	for i, r := range beside {
		if _, err := d.webhook(ctx, otherName(i), r.url()); err != nil {
			return nil, nil, err
		}
	}
	stop, err := d.engine(ctx)
	if err != nil {
		return nil, nil, err
	}
	projecting, stopProjecting := context.WithCancel(ctx)
	ended, err := (&reading{setting: d.setting}).projectBeside(projecting)
	if err != nil {
		stopProjecting()
		return nil, nil, errors.Join(err, stop())
	}
	err = d.warmUp(ctx, seen, beside)
	if err == nil {
		cold = seen.take()
		d.say("appending %d events a second for %d webhooks", rate, deliverWebhooks+n.count)
		err = d.appendPaced(ctx, seen, "before", rate, n.count, n.before())
		seen.take()
	}
	if err == nil {
		err = d.appendPaced(ctx, seen, "then", rate, n.count, lasting)
	}
	if err == nil {
		later = seen.take()
	}
	stopProjecting()
	return cold, later, errors.Join(err, <-ended, stop())
}

func otherName(i int) string { return fmt.Sprintf("other-%03d", i) }

// appendPaced appends for a time and waits until all has arrived at the 20.
func (d *delivering) appendPaced(ctx context.Context, seen *arrivals, name string, rate, others int, lasting time.Duration) error {
	err := d.paced(ctx, rate, lasting, func(i int) error {
		id := fmt.Sprintf("%s_%07d", name, i)
		if others == 0 {
			return d.appendSeen(ctx, seen, workspaceName(i%deliverWebhooks), id)
		}
		if i%2 == 0 {
			return d.appendSeen(ctx, seen, workspaceName(i/2%deliverWebhooks), id)
		}
		_, err := d.log.Append(ctx, reversed(otherName(i/2%others), id))
		return err
	})
	if err != nil {
		return err
	}
	return seen.all(ctx)
}

func (d *delivering) appendSeen(ctx context.Context, seen *arrivals, workspaceID, id string) error {
	draft := reversed(workspaceID, workspaceID+"_"+id) // the receiver knows events by their ids alone
	if _, err := d.log.Append(ctx, draft); err != nil {
		return err
	}
	seen.committed(draft.ID, time.Now())
	return nil
}

// arrivals are the moments of events that a receiver gets.
type arrivals struct {
	expected atomic.Int64 // messages since the start
	arrived  atomic.Int64 // of them, repeats not counted

	mu      sync.Mutex
	commits map[string]time.Time
	firsts  map[string]time.Time
}

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

// all waits until whatever was committed has arrived.
func (a *arrivals) all(ctx context.Context) error {
	return awaitCount(ctx, &a.arrived, a.expected.Load())
}

// arrival is when an event was committed and how long it took from there to the
// receiver.
type arrival struct {
	committed time.Time
	took      time.Duration
}

func took(list []arrival) []time.Duration {
	times := make([]time.Duration, len(list))
	for i, a := range list {
		times[i] = a.took
	}
	return times
}

// take takes what came since the last call, in the order of commits.
func (a *arrivals) take() []arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]arrival, 0, len(a.commits))
	for id, at := range a.commits {
		list = append(list, arrival{at, max(0, a.firsts[id].Sub(at))})
	}
	clear(a.commits)
	slices.SortFunc(list, func(x, y arrival) int { return x.committed.Compare(y.committed) })
	return list
}

// warmUp sends one event to every webhook, so that what is measured afterwards
// is how the service runs, not how the program starts.
func (d *delivering) warmUp(ctx context.Context, seen *arrivals, beside []*receiver) error {
	for i := range deliverWebhooks {
		if err := d.appendSeen(ctx, seen, workspaceName(i), "warm-up"); err != nil {
			return err
		}
	}
	for i := range beside {
		if _, err := d.log.Append(ctx, reversed(otherName(i), "warm-up")); err != nil {
			return err
		}
	}
	if err := seen.all(ctx); err != nil {
		return err
	}
	for _, r := range beside {
		if err := awaitCount(ctx, &r.seen, 1); err != nil {
			return err
		}
	}
	return nil
}

// paced calls do so many times a second, each beside the others and at a random
// moment of its share of the second: in step with each other, events would always
// or never meet what another one left to be done.
func (d *delivering) paced(ctx context.Context, rate int, lasting time.Duration, do func(i int) error) error {
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		failed error
		random = rand.New(rand.NewPCG(1, uint64(rate)))
		share  = time.Second / time.Duration(rate)
		began  = time.Now()
		timer  = time.NewTimer(0)
	)
	defer timer.Stop()
	for i := range int(lasting.Seconds() * float64(rate)) {
		timer.Reset(time.Until(began.Add(time.Duration(i)*share + time.Duration(random.Int64N(int64(share))))))
		select {
		case <-ctx.Done():
			group.Wait()
			return context.Cause(ctx)
		case <-timer.C:
		}
		group.Go(func() {
			if err := do(i); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return failed
}
