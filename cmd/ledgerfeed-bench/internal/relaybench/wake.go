package relaybench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/natsnotify"
	"github.com/ledgerfeed/ledgerfeed/internal/bus"
)

// benchWake measures how soon another process is notified over NATS; the limit is
// PostgreSQL's NOTIFY.
func benchWake(ctx context.Context, o *measure.Options) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		url, stop, err := startServer()
		if err != nil {
			return err
		}
		defer stop()
		o.Say("notifying another process one workspace after the other")
		listened, err := notified(ctx, o, db, "")
		if err != nil {
			return err
		}
		carried, err := notified(ctx, o, db, url)
		if err != nil {
			return err
		}
		for _, q := range []struct {
			name string
			of   float64
		}{{"notification of another process over NATS, p50", 0.5}, {"    p99", 0.99}} {
			f := measure.Figure{Name: q.name, Value: measure.Quantile(carried, q.of), Unit: "ms", Limit: measure.Quantile(listened, q.of), LimitIs: "by NOTIFY"}
			if q.of > 0.5 {
				f = f.Below(100)
			}
			o.Report.Add(f)
		}
		return nil
	})
}

// notified is how long notifications take from one Notifier to another, with a URL over NATS
// alone.
func notified(ctx context.Context, o *measure.Options, db *measure.Database, url string) (times []time.Duration, err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	group, running := errgroup.WithContext(running)
	var ends [2]*eventlog.Notifier
	for i := range ends {
		n := eventlog.NewNotifier(db.Pool, measure.NoLogger())
		if url != "" {
			target, err := natsnotify.ParseTarget(url)
			if err != nil {
				return nil, err
			}
			n.ListenAt(nil)
			n.CarryBy(natsnotify.New(target, bus.Config{Name: "ledgerfeed-bench", Logger: measure.NoLogger()}))
		}
		group.Go(func() error {
			defer n.Close()
			return n.Run(running)
		})
		ends[i] = n
	}
	heard, unsubscribe := ends[1].Subscribe(eventlog.TopicAppended)
	defer unsubscribe()
	times, err = exchange(running, o.Size(2000, 50), ends[0], heard)
	stop()
	return times, errors.Join(err, group.Wait())
}

// exchange notifies again and again once the other end hears.
func exchange(ctx context.Context, rounds int, from *eventlog.Notifier, heard *eventlog.Subscription) (times []time.Duration, err error) {
	late := time.NewTimer(startTimeout)
	defer late.Stop()
	for i := -1; i < rounds; { // the first ones may be lost: the other end is not connected yet
		began := time.Now()
		from.Notify(eventlog.TopicAppended, fmt.Sprint("workspace-", i))
		again := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late.C:
			return nil, errors.New("the other end is not notified")
		case <-again.C:
			continue
		case <-heard.C:
		}
		again.Stop()
		late.Reset(startTimeout)
		if ids, all := heard.Take(); all || len(ids) == 0 {
			continue
		}
		if i >= 0 {
			times = append(times, time.Since(began))
		}
		i++
	}
	return times, nil
}
