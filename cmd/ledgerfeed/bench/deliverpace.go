package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// pace measures the time from the commit of an append to the first byte at the
// receiver, with the projector at work.
func (d *delivering) pace(ctx context.Context, rate int) error {
	cold, times, err := d.latency(ctx, rate, http1, neighbours{})
	if err != nil {
		return err
	}
	d.Report.add(Figure{Name: fmt.Sprintf("commit → first byte at the receiver, %d/s, p50", rate), Value: quantile(times, 0.5), Unit: "ms"}.below(15))
	d.Report.add(Figure{Name: "    p99", Value: quantile(times, 0.99), Unit: "ms"}.below(60))
	d.Report.add(Figure{Name: "    the first message of each webhook after the start, longest", Value: quantile(cold, 1), Unit: "ms"})
	return nil
}

// manner is what receivers do with a message.
type manner string

// The manners of receivers.
const (
	answering manner = "that answer"
	hangingUp manner = "that answer and hang up"
	hanging   manner = "that hang"
)

// neighbours are webhooks beside those that are measured. Each has a receiver of its
// own.
type neighbours struct {
	count int
	way   manner
}

// before is how long they get messages before anything is measured.
func (n neighbours) before() time.Duration {
	switch {
	case n.count == 0:
		return 0
	case n.way == hanging:
		return 12 * time.Second // longer than an attempt may take: as many end as begin
	default:
		return 4 * time.Second
	}
}

// receivers starts them; end lets those that hang go and stops all.
func (n neighbours) receivers(speaks protocol) (list []*receiver, end func()) {
	release := make(chan struct{})
	for range n.count {
		r := newReceiver(speaks)
		r.hangsUp = n.way == hangingUp
		if n.way == hanging {
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
func (d *delivering) latency(ctx context.Context, rate int, speaks protocol, n neighbours) (cold, times []time.Duration, err error) {
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
		cold = seen.times()
		d.say("appending %d events a second for %d webhooks", rate, deliverWebhooks+n.count)
		err = d.appendPaced(ctx, seen, "before", rate, n.count, n.before())
		seen.times()
	}
	if err == nil {
		err = d.appendPaced(ctx, seen, "then", rate, n.count, d.duration(visibleTime))
	}
	if err == nil {
		times = seen.times()
	}
	stopProjecting()
	return cold, times, errors.Join(err, <-ended, stop())
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
		return err //nolint:wrapcheck // says it all
	})
	if err != nil {
		return err
	}
	return seen.all(ctx)
}

func (d *delivering) appendSeen(ctx context.Context, seen *arrivals, workspaceID, id string) error {
	draft := reversed(workspaceID, workspaceID+"_"+id) // the receiver knows events by their ids alone
	if _, err := d.log.Append(ctx, draft); err != nil {
		return err //nolint:wrapcheck // says it all
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

// times takes what came since the last call.
func (a *arrivals) times() []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]time.Duration, 0, len(a.commits))
	for id, at := range a.commits {
		list = append(list, max(0, a.firsts[id].Sub(at)))
	}
	clear(a.commits)
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
			return err //nolint:wrapcheck // says it all
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

// paced calls do so many times a second, each beside the others.
func (d *delivering) paced(ctx context.Context, rate int, lasting time.Duration, do func(i int) error) error {
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := range int(lasting.Seconds() * float64(rate)) {
		select {
		case <-ctx.Done():
			group.Wait()
			return context.Cause(ctx) //nolint:wrapcheck // interrupted
		case <-tick.C:
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

// deliverBesideHanging compares the p99 of 20 webhooks beside 180 that hang
// with that beside 180 that answer: the same events, the same work in the
// database. Over HTTP/2 a message to a receiver that hangs is one more stream; over
// HTTP/1.1 it needs a connection of its own, so there the limit is also taken
// beside receivers that hang up after each answer.
//
// The ways take turns, and the middle one of their rounds counts, because the
// machine may have other things to do.
func deliverBesideHanging(ctx context.Context, o *Options) error {
	const (
		rate   = 200
		others = 180
		rounds = 5
	)
	type setup struct {
		speaks protocol
		way    manner
	}
	p99s, p95s := map[setup][]float64{}, map[setup][]float64{}
	for range rounds {
		for _, at := range []setup{{http2, answering}, {http2, hanging}, {http1, answering}, {http1, hangingUp}, {http1, hanging}} {
			err := withSetting(ctx, o, func(ctx context.Context, s *setting) error {
				_, times, err := (&delivering{setting: s}).latency(ctx, rate, at.speaks, neighbours{others, at.way})
				p99s[at] = append(p99s[at], quantile(times, 0.99))
				p95s[at] = append(p95s[at], quantile(times, 0.95))
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	for _, f := range []struct {
		name        string
		times       map[setup][]float64
		speaks      protocol
		limit       manner
		connections string
		judged      bool
	}{
		{"p99 of 20 webhooks beside 180 that hang, all over HTTP/2", p99s, http2, answering, "", true},
		{"    p95 over HTTP/2", p95s, http2, answering, "", false},
		{"    p99 over HTTP/1.1", p99s, http1, answering, " over connections kept open", true},
		{"    p99 over HTTP/1.1, as many new connections", p99s, http1, hangingUp, "", false},
		{"    p95 over HTTP/1.1", p95s, http1, answering, " over connections kept open", false},
	} {
		figure := Figure{
			Name: f.name, Value: middle(f.times[setup{f.speaks, hanging}]), Unit: "ms",
			Limit: middle(f.times[setup{f.speaks, f.limit}]), LimitIs: "the same beside 180 " + string(f.limit) + f.connections,
		}
		if f.judged {
			figure = figure.ratioAtMost(1.1)
		}
		o.Report.add(figure)
	}
	return nil
}
