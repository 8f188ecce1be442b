package relaybench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/ingest"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
)

const (
	lagWorkspaces = 50
	lagPerSecond  = 500
	lagTime       = 20 * time.Second

	// lagTimeout is how long the last entry may take until it is there.
	lagTimeout = 30 * time.Second
)

// benchLag measures the time from the moment when an append is acknowledged until its entry
// can be read in a second installation, which ingests what the first one relays; its limit
// is the time until it can be read in the first. The first entries of workspaces, which make
// them in both, come before, and are a figure of their own.
func benchLag(ctx context.Context, o *measure.Options) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, home *measure.Database) error {
		return measure.InDatabase(ctx, o, func(ctx context.Context, away *measure.Database) error {
			return lag(ctx, o, home, away)
		})
	})
}

func lag(ctx context.Context, o *measure.Options, home, away *measure.Database) error {
	url, stopServer, err := startServer()
	if err != nil {
		return err
	}
	defer stopServer()
	running, stop := context.WithCancel(ctx)
	defer stop()
	group, working := errgroup.WithContext(running)
	for _, db := range []*measure.Database{home, away} {
		ended, err := workload.StartProjector(working, db)
		if err != nil {
			return err
		}
		group.Go(func() error { return <-ended })
	}
	if err := follow(working, group, home, away, url); err != nil {
		return err
	}
	first, err := appendFirst(working, home, away)
	if err != nil {
		stop()
		return errors.Join(err, group.Wait())
	}
	o.Report.Add(measure.Figure{Name: fmt.Sprintf("first entries of %d workspaces, appended one after the other → all can be read in a follower region", lagWorkspaces), Value: float64(first.Milliseconds()), Unit: "ms"})
	seen := [2]*sightings{{at: map[place]time.Time{}}, {at: map[place]time.Time{}}}
	for i, db := range []*measure.Database{home, away} {
		group.Go(func() error { return seen[i].watch(working, db) })
	}
	acknowledged, err := appendAtRate(working, o, home)
	if err == nil {
		err = awaitProjected(working, away, lagWorkspaces+len(acknowledged))
	}
	var here, there []time.Duration
	if err == nil {
		here, err = seen[0].since(working, acknowledged)
	}
	if err == nil {
		there, err = seen[1].since(working, acknowledged)
	}
	stop()
	if endErr := group.Wait(); err == nil && !errors.Is(endErr, context.Canceled) {
		err = endErr
	}
	if err != nil {
		return err
	}
	for _, q := range []struct {
		name string
		of   float64
	}{{fmt.Sprintf("append → can be read in a follower region, %d/s, p50", lagPerSecond), 0.5}, {"    p99", 0.99}} {
		f := measure.Figure{Name: q.name, Value: measure.Quantile(there, q.of), Unit: "ms", Limit: measure.Quantile(here, q.of), LimitIs: "until it can be read at home"}
		if q.of > 0.5 {
			f = f.Below(100)
		}
		o.Report.Add(f)
	}
	return nil
}

// follow runs a relay of one installation and ingest of the other.
func follow(ctx context.Context, group *errgroup.Group, home, away *measure.Database, url string) error {
	publisher, err := open(ctx, url+"/?replicas=1")
	if err != nil {
		return err
	}
	pool, err := pg.Open(ctx, home.URL, pg.Options{MaxConns: relay.Connections, Settings: relay.PoolSettings()})
	if err != nil {
		return err
	}
	r, err := relay.New(relay.Config{
		Pool: pool, Notifier: home.Notifier, Publisher: publisher, Clock: time.Now, Logger: measure.NoLogger(), Name: "bench", Form: relay.FormEntries,
	})
	if err != nil {
		pool.Close()
		return err
	}
	target, err := relay.ParseTarget(url)
	if err != nil {
		pool.Close()
		return err
	}
	source, err := ingest.OpenStream(ingest.StreamConfig{Target: target, Name: "bench", Pool: away.Pool, Broker: relay.BrokerConfig{Name: "ledgerfeed-bench", Logger: measure.NoLogger()}})
	if err != nil {
		pool.Close()
		return err
	}
	in, err := ingest.New(ingest.Config{Source: source, Log: away.Log, Logger: measure.NoLogger(), Clock: time.Now})
	if err != nil {
		pool.Close()
		return err
	}
	group.Go(func() error {
		defer pool.Close()
		return r.Run(ctx)
	})
	group.Go(func() error { return in.Run(ctx) })
	return nil
}

// appendFirst appends an entry to each workspace, and returns how long it took until all could
// be read in the second installation.
func appendFirst(ctx context.Context, home, away *measure.Database) (time.Duration, error) {
	began := time.Now()
	for i := range lagWorkspaces {
		if _, err := home.Log.Append(ctx, workload.Reversed(workload.WorkspaceID(i), fmt.Sprint("first-", i))); err != nil {
			return 0, err
		}
	}
	err := awaitProjected(ctx, away, lagWorkspaces)
	return time.Since(began), err
}

// awaitProjected waits until so many entries can be read.
func awaitProjected(ctx context.Context, db *measure.Database, entries int) error {
	return awaitCount(ctx, db, `SELECT coalesce(sum(position), 0) FROM log_checkpoint WHERE consumer = 'read_models'`, entries)
}

// place is an entry in a log.
type place struct {
	workspaceID string
	position    int64
}

// appendAtRate appends single entries, and returns when each was acknowledged.
func appendAtRate(ctx context.Context, o *measure.Options, db *measure.Database) (map[place]time.Time, error) {
	o.Say("appending %d entries a second to %d workspaces", lagPerSecond, lagWorkspaces)
	var mu sync.Mutex
	acknowledged := map[place]time.Time{}
	group, appending := errgroup.WithContext(ctx)
	tick := time.NewTicker(time.Second / lagPerSecond)
	defer tick.Stop()
	for i := range int(o.Duration(lagTime).Seconds() * lagPerSecond) {
		select {
		case <-tick.C:
		case <-appending.Done():
			return nil, group.Wait()
		}
		group.Go(func() error {
			w := workload.WorkspaceID(i % lagWorkspaces)
			receipts, err := db.Log.Append(appending, workload.Reversed(w, fmt.Sprint("lag-", i)))
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			acknowledged[place{w, receipts[0].Position}] = time.Now()
			return nil
		})
	}
	return acknowledged, group.Wait()
}

// sightings are the moments from which entries could be read.
type sightings struct {
	mu sync.Mutex
	at map[place]time.Time
}

// watch notes sightings until ctx ends, without the entries of appendFirst, at position 1.
func (s *sightings) watch(ctx context.Context, db *measure.Database) error {
	moved, unsubscribe := db.Notifier.Subscribe(eventlog.TopicProjected)
	defer unsubscribe()
	before := map[string]int64{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-moved.C:
		}
		ids, _ := moved.Take()
		rows, err := db.Pool.Query(ctx, `SELECT workspace_id, position FROM log_checkpoint WHERE consumer = 'read_models' AND workspace_id = ANY ($1)`, ids)
		if err != nil {
			return fmt.Errorf("read visible positions: %w", err)
		}
		now := time.Now()
		s.mu.Lock()
		for rows.Next() {
			var p place
			if err = rows.Scan(&p.workspaceID, &p.position); err != nil {
				break
			}
			for at := max(1, before[p.workspaceID]) + 1; at <= p.position; at++ {
				s.at[place{p.workspaceID, at}] = now
			}
			before[p.workspaceID] = max(before[p.workspaceID], p.position)
		}
		s.mu.Unlock()
		rows.Close()
		if err = errors.Join(err, rows.Err()); err != nil && ctx.Err() == nil {
			return fmt.Errorf("read visible positions: %w", err)
		}
	}
}

// since is how long entries took from a moment of each on. It waits for the last.
func (s *sightings) since(ctx context.Context, began map[place]time.Time) ([]time.Duration, error) {
	late := time.NewTimer(lagTimeout)
	defer late.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		s.mu.Lock()
		n := len(s.at)
		s.mu.Unlock()
		if n >= len(began) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late.C:
			return nil, fmt.Errorf("%d of %d entries can be read", n, len(began))
		case <-look.C:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	times := make([]time.Duration, 0, len(began))
	for p, at := range began {
		times = append(times, max(0, s.at[p].Sub(at))) // the append may be acknowledged after it can be read
	}
	return times, nil
}
