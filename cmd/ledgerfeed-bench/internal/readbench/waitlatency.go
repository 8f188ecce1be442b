package readbench

import (
	"context"
	"encoding/json"
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
	busyWorkspaces = 50
	busyPerSecond  = 100
	busyTime       = 15 * time.Second
)

// arrivals is when events were acknowledged, and when their followers had them.
type arrivals struct {
	mu       sync.Mutex
	appended map[string]time.Time
	arrived  map[string]time.Time
}

func (a *arrivals) note(list map[string]time.Time, id string) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	list[id] = now
}

// waitLatency measures the time from the moment when an append is acknowledged until a
// request that waits for it is answered.
func (r *reader) waitLatency(ctx context.Context) error {
	r.Say("appending %d events a second to %d workspaces whose followers wait", busyPerSecond, busyWorkspaces)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a := &arrivals{appended: map[string]time.Time{}, arrived: map[string]time.Time{}}
	var following sync.WaitGroup
	failed := make(chan error, busyWorkspaces)
	for i := range busyWorkspaces {
		w := fmt.Sprintf("busy-%02d", i)
		if _, err := r.Log.Append(ctx, workload.Reversed(w, "first")); err != nil {
			return err
		}
		key, err := r.cached.NewKey(ctx, w)
		if err != nil {
			return err
		}
		following.Go(func() {
			if err := followWaiting(ctx, r.cached, key, a); err != nil && ctx.Err() == nil {
				failed <- err
			}
		})
	}
	if err := appendBusily(ctx, r, a); err != nil {
		return err
	}
	for {
		a.mu.Lock()
		over := len(a.arrived) >= len(a.appended)
		a.mu.Unlock()
		if over {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-failed:
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	following.Wait()
	var times []time.Duration
	for id, at := range a.appended {
		times = append(times, max(0, a.arrived[id].Sub(at)))
	}
	r.Report.Add(measure.Figure{Name: "append → answer of a request that waits, 100/s, p50", Value: measure.Quantile(times, 0.5), Unit: "ms"}.Below(15))
	r.Report.Add(measure.Figure{Name: "    p99", Value: measure.Quantile(times, 0.99), Unit: "ms"}.Below(60))
	return nil
}

// appendBusily appends events at the rate that is measured.
func appendBusily(ctx context.Context, r *reader, a *arrivals) error {
	tick := time.NewTicker(time.Second / busyPerSecond)
	defer tick.Stop()
	var (
		group sync.WaitGroup
		once  sync.Once
		first error
	)
	for i := range int(r.Duration(busyTime).Seconds() * busyPerSecond) {
		<-tick.C
		group.Go(func() {
			id := fmt.Sprintf("evt_busy_%06d", i)
			if _, err := r.Log.Append(ctx, workload.Reversed(fmt.Sprintf("busy-%02d", i%busyWorkspaces), id)); err != nil {
				once.Do(func() { first = err })
				return
			}
			a.note(a.appended, id)
		})
	}
	group.Wait()
	return first
}

// followWaiting follows the events of a key's workspace until ctx ends.
func followWaiting(ctx context.Context, served *api.Server, key string, a *arrivals) error {
	for cursor := ""; ; {
		q := api.Request{Path: "/v1/events?limit=100", Key: key}
		if cursor != "" {
			q.Path += "&cursor=" + cursor
		}
		next, ids, err := waitFor(ctx, served, q)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if id != "first" {
				a.note(a.arrived, id)
			}
		}
		cursor = next
	}
}

// waitFor makes one request that waits, and returns the ids of its events.
func waitFor(ctx context.Context, served *api.Server, q api.Request) (cursor string, ids []string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+served.Address+q.Path, http.NoBody)
	if err != nil {
		return "", nil, fmt.Errorf("cannot get %s: %w", q.Path, err)
	}
	req.Header.Set("Authorization", "Bearer "+q.Key)
	req.Header.Set("Prefer", "wait=30")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return "", nil, fmt.Errorf("cannot get %s: %w", q.Path, err)
	}
	var page struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
		NextCursor string `json:"next_cursor"`
	}
	err = errors.Join(json.NewDecoder(resp.Body).Decode(&page), resp.Body.Close())
	if resp.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("%s answered %s", q.Path, resp.Status)
	}
	if err != nil {
		return "", nil, fmt.Errorf("cannot read the answer to %s: %w", q.Path, err)
	}
	for _, e := range page.Data {
		ids = append(ids, e.ID)
	}
	return page.NextCursor, ids, nil
}
