package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

const (
	visibleWorkspaces = 500
	visiblePerSecond  = 500
	visibleTime       = 10 * time.Second

	// visibleAsks is how often a follower asks while its event is not there.
	visibleAsks = time.Millisecond
)

// visible measures the time from the moment an append is acknowledged until
// the event is in an answer of /v1/events, while everything else runs too.
func (r *reading) visible(ctx context.Context) error {
	r.say("appending %d events a second to %d workspaces", visiblePerSecond, visibleWorkspaces)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended, err := r.projectBeside(ctx)
	if err != nil {
		return err
	}
	callers, err := r.followers(ctx)
	if err != nil {
		return err
	}
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		times  []time.Duration
		failed error
	)
	tick := time.NewTicker(time.Second / visiblePerSecond)
	defer tick.Stop()
	for i := range int(r.duration(visibleTime).Seconds() * visiblePerSecond) {
		<-tick.C
		group.Go(func() {
			took, err := r.appendAndSee(ctx, callers[i%visibleWorkspaces], i)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
			}
			times = append(times, took)
		})
	}
	group.Wait()
	stop()
	if err := <-ended; failed == nil {
		failed = err
	}
	if failed != nil {
		return failed
	}
	r.Report.add(Figure{Name: "append → in /v1/events, 500/s over 500 workspaces, p50", Value: quantile(times, 0.5), Unit: "ms"}.below(15))
	r.Report.add(Figure{Name: "    p99", Value: quantile(times, 0.99), Unit: "ms"}.below(80))
	return nil
}

func (r *reading) projectBeside(ctx context.Context) (<-chan error, error) {
	pool, err := pg.Open(ctx, r.url, pg.Options{MaxConns: projections.DefaultWorkers + 1, Settings: projections.PoolSettings()})
	if err != nil {
		return nil, err
	}
	runner, err := projections.NewRunner(projections.RunnerConfig{Pool: pool, Notifier: r.notifier, Clock: time.Now, Logger: quiet()})
	if err != nil {
		pool.Close()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		defer pool.Close()
		ended <- runner.Run(ctx)
	}()
	return ended, nil
}

// follower is somebody who waits for the events of one workspace.
type follower struct {
	mu          sync.Mutex // one event of a workspace at a time
	workspaceID string
	key         string
	conn        *caller
}

func (r *reading) followers(ctx context.Context) ([]*follower, error) {
	list := make([]*follower, visibleWorkspaces)
	for i := range list {
		f := &follower{workspaceID: fmt.Sprintf("visible-%03d", i)}
		if _, err := r.log.Append(ctx, reversed(f.workspaceID, "first")); err != nil {
			return nil, err
		}
		var err error
		if f.key, err = r.served.key(ctx, f.workspaceID); err != nil {
			return nil, err
		}
		list[i] = f
	}
	return list, nil
}

// reversed is a small public entry.
func reversed(workspaceID, id string) domain.Draft {
	d, err := domain.NewDraft(workspaceID, "invoice.reversed", []byte(`{"invoice_id":"in_1"}`))
	if err != nil {
		panic(err) // the text above is right
	}
	d.ID = id
	return d
}

func (r *reading) appendAndSee(ctx context.Context, f *follower, i int) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := fmt.Sprintf("evt_%07d", i)
	ask := request{host: r.served.address, path: "/v1/events/" + id, key: f.key}
	if f.conn == nil {
		conn, err := ask.dial(ctx)
		if err != nil {
			return 0, err
		}
		context.AfterFunc(ctx, conn.close)
		f.conn = conn
	}
	f.conn.text = ask.text()
	if _, err := r.log.Append(ctx, reversed(f.workspaceID, id)); err != nil {
		return 0, err
	}
	committed := time.Now()
	for {
		status, err := f.conn.ask()
		if err != nil {
			return 0, err
		}
		if status == 200 {
			return time.Since(committed), nil
		}
		if status != 404 {
			return 0, fmt.Errorf("/v1/events answered %d", status)
		}
		timer := time.NewTimer(visibleAsks)
		select {
		case <-ctx.Done():
			timer.Stop()
			return 0, context.Cause(ctx)
		case <-timer.C:
		}
	}
}
