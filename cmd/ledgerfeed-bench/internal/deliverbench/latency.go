package deliverbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
)

// latencyTime is how long latency is measured at full scale.
const latencyTime = 10 * time.Second

// benchLatency measures how soon messages arrive at two rates.
func benchLatency(ctx context.Context, o *measure.Options) error {
	for _, rate := range []int{100, 500} {
		if err := measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
			return (&bench{Database: db}).latencyAt(ctx, rate)
		}); err != nil {
			return err
		}
	}
	return nil
}

// latencyAt measures the time from the commit of an append to the first byte at
// the receiver, with the projector running.
func (b *bench) latencyAt(ctx context.Context, rate int) error {
	l := latency{rate: rate, speaks: http1, duration: b.Duration(latencyTime)}
	first, later, err := b.latency(ctx, l)
	if err != nil {
		return err
	}
	b.Report.Add(measure.Figure{Name: fmt.Sprintf("commit → first byte at the receiver, %d/s, p50", rate), Value: measure.Quantile(times(later), 0.5), Unit: "ms"}.Below(15))
	b.Report.Add(measure.Figure{Name: "    p99", Value: measure.Quantile(times(later), 0.99), Unit: "ms"}.Below(60))
	b.Report.Add(measure.Figure{Name: "    the first message of each webhook after the start, longest", Value: measure.Quantile(times(first), 1), Unit: "ms"})
	return nil
}

// latency is one measurement of goodWebhooks, with other webhooks beside them.
type latency struct {
	rate     int // events a second in all, half of them for the others if there are any
	speaks   protocol
	duration time.Duration

	others     int  // further webhooks, each with a receiver of its own
	othersHang bool // their receivers never answer
	locked     bool // another transaction has the others' rows locked while it is measured
}

// warmUp is how long the other webhooks get messages before anything is measured:
// longer than an attempt may take, and than it takes until webhooks that only fail
// are throttled.
func (l latency) warmUp() time.Duration {
	if !l.othersHang {
		return 0
	}
	return 22 * time.Second
}

// startOthers starts the receivers of the other webhooks; stop ends them.
func (l latency) startOthers() (list []*receiver, stop func()) {
	release := make(chan struct{})
	for range l.others {
		r := newReceiver(l.speaks)
		if l.othersHang {
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

func otherID(i int) string { return fmt.Sprintf("other-%03d", i) }

// latency returns the arrivals at goodWebhooks: of the first message of each
// after the dispatcher has started, and of those while it is measured.
func (b *bench) latency(ctx context.Context, l latency) (first, later []arrival, err error) {
	good := newReceiver(l.speaks)
	defer good.Close()
	others, stopOthers := l.startOthers()
	defer stopOthers()
	removeFile, err := b.prepare(good)
	if err != nil {
		return nil, nil, err
	}
	defer removeFile()
	seen := watch(good)
	for i := range goodWebhooks {
		if _, err := b.webhook(ctx, workload.WorkspaceID(i), good.url()); err != nil {
			return nil, nil, err
		}
	}
	for i, r := range others {
		if _, err := b.webhook(ctx, otherID(i), r.url()); err != nil {
			return nil, nil, err
		}
	}
	stop, err := b.start(ctx)
	if err != nil {
		return nil, nil, err
	}
	projecting, stopProjector := context.WithCancel(ctx)
	defer stopProjector()
	projected, err := workload.StartProjector(projecting, b.Database)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	err = b.firstMessages(ctx, seen, others)
	if err == nil {
		first = seen.take()
		b.Say("appending %d events a second for %d webhooks", l.rate, goodWebhooks+l.others)
		err = b.appendAtRate(ctx, seen, l, "before", l.warmUp())
		seen.take()
	}
	var unlock func() error
	if err == nil && l.locked {
		unlock, err = b.lockOthers(ctx, l.duration)
	}
	if err == nil {
		err = b.appendAtRate(ctx, seen, l, "then", l.duration)
	}
	if unlock != nil {
		err = errors.Join(err, unlock())
	}
	if err == nil {
		later = seen.take()
	}
	stopProjector()
	return first, later, errors.Join(err, <-projected, stop())
}

// firstMessages sends one event to every webhook, so that what is measured
// afterwards is not the start of the dispatcher.
func (b *bench) firstMessages(ctx context.Context, seen *arrivals, others []*receiver) error {
	for i := range goodWebhooks {
		if err := b.appendSeen(ctx, seen, workload.WorkspaceID(i), "warm-up"); err != nil {
			return err
		}
	}
	for i := range others {
		if _, err := b.Log.Append(ctx, workload.Reversed(otherID(i), "warm-up")); err != nil {
			return err
		}
	}
	if err := seen.await(ctx); err != nil {
		return err
	}
	for _, r := range others {
		if err := awaitCount(ctx, &r.seen, 1); err != nil {
			return err
		}
	}
	return nil
}

// appendAtRate appends events for a time and waits until those for goodWebhooks
// have arrived.
func (b *bench) appendAtRate(ctx context.Context, seen *arrivals, l latency, name string, duration time.Duration) error {
	err := atRate(ctx, l.rate, duration, func(i int) error {
		id := fmt.Sprintf("%s_%07d", name, i)
		if l.others == 0 {
			return b.appendSeen(ctx, seen, workload.WorkspaceID(i%goodWebhooks), id)
		}
		if i%2 == 0 {
			return b.appendSeen(ctx, seen, workload.WorkspaceID(i/2%goodWebhooks), id)
		}
		_, err := b.Log.Append(ctx, workload.Reversed(otherID(i/2%l.others), id))
		return err
	})
	if err != nil {
		return err
	}
	return seen.await(ctx)
}

func (b *bench) appendSeen(ctx context.Context, seen *arrivals, workspaceID, id string) error {
	draft := workload.Reversed(workspaceID, workspaceID+"_"+id) // one receiver gets the events of all workspaces
	if _, err := b.Log.Append(ctx, draft); err != nil {
		return err
	}
	seen.committed(draft.ID, time.Now())
	return nil
}

// atRate calls do at a rate for a time, concurrently, each at a random moment of
// its share of the second. At regular moments an event would always, or never,
// arrive while the work that an earlier one left is being done.
func atRate(ctx context.Context, rate int, duration time.Duration, do func(i int) error) error {
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
	for i := range int(duration.Seconds() * float64(rate)) {
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
