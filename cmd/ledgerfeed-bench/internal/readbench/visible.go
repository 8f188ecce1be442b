package readbench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
)

const (
	visibleWorkspaces = 500
	visiblePerSecond  = 500
	visibleTime       = 10 * time.Second

	// visiblePoll is the time between two requests for an event.
	visiblePoll = time.Millisecond
)

// visible measures the time from the moment when an append is acknowledged until
// /v1/events has the event, with the projector running.
func (r *reader) visible(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended, err := workload.StartProjector(ctx, r.Database)
	if err != nil {
		return err
	}
	times, err := r.visibleTimes(ctx)
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	r.Report.Add(measure.Figure{Name: "append → in /v1/events, 500/s over 500 workspaces, p50", Value: measure.Quantile(times, 0.5), Unit: "ms"}.Below(15))
	r.Report.Add(measure.Figure{Name: "    p99", Value: measure.Quantile(times, 0.99), Unit: "ms"}.Below(80))
	return nil
}

// visibleTimes is how long each append took to be seen.
func (r *reader) visibleTimes(ctx context.Context) ([]time.Duration, error) {
	followers, err := r.followers(ctx)
	if err != nil {
		return nil, err
	}
	r.Say("appending %d events a second to %d workspaces", visiblePerSecond, visibleWorkspaces)
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		times  []time.Duration
		failed error
	)
	tick := time.NewTicker(time.Second / visiblePerSecond)
	defer tick.Stop()
	for i := range int(r.Duration(visibleTime).Seconds() * visiblePerSecond) {
		<-tick.C
		group.Go(func() {
			took, err := r.appendAndSee(ctx, followers[i%visibleWorkspaces], fmt.Sprintf("evt_%07d", i))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
			}
			times = append(times, took)
		})
	}
	group.Wait()
	return times, failed
}

// follower waits for the events of one workspace.
type follower struct {
	mu          sync.Mutex // one event of a workspace at a time
	workspaceID string
	key         string
	conn        *api.Caller
}

func (r *reader) followers(ctx context.Context) ([]*follower, error) {
	list := make([]*follower, visibleWorkspaces)
	for i := range list {
		f := &follower{workspaceID: fmt.Sprintf("visible-%03d", i)}
		// The same each time, which appends nothing when it is there.
		if _, err := r.Log.Append(ctx, workload.Reversed(f.workspaceID, "first")); err != nil {
			return nil, err
		}
		var err error
		if f.key, err = r.cached.NewKey(ctx, f.workspaceID); err != nil {
			return nil, err
		}
		list[i] = f
	}
	return list, nil
}

func (r *reader) appendAndSee(ctx context.Context, f *follower, id string) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	request := api.Request{Host: r.cached.Address, Path: "/v1/events/" + id, Key: f.key}
	if f.conn == nil {
		conn, err := request.Dial(ctx)
		if err != nil {
			return 0, err
		}
		context.AfterFunc(ctx, conn.Close)
		f.conn = conn
	}
	f.conn.SetRequest(request)
	if _, err := r.Log.Append(ctx, workload.Reversed(f.workspaceID, id)); err != nil {
		return 0, err
	}
	committed := time.Now()
	for {
		status, err := f.conn.Call()
		if err != nil {
			return 0, err
		}
		if status == http.StatusOK {
			return time.Since(committed), nil
		}
		if status != http.StatusNotFound {
			return 0, fmt.Errorf("/v1/events answered %d", status)
		}
		if err := measure.Pause(ctx, visiblePoll); err != nil {
			return 0, err
		}
	}
}
