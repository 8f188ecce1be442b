package sizebench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
)

const (
	// rounds is how often each workspace gets an event while shares are measured.
	rounds = 4
	// uneven is how far from the average a process's share may be.
	uneven = 0.2
	// lease is within what time a process's webhooks are taken over: dispatch.Config's default.
	lease = 30 * time.Second
)

// measureShares reports how evenly the processes share webhooks and workspaces.
func (x *instances) measureShares(ctx context.Context) error {
	x.Say("measuring shares: %d events in each of %d workspaces", rounds, x.all)
	before, err := x.projected(ctx)
	if err != nil {
		return err
	}
	for range x.Size(rounds, 3) {
		if err := x.appendTo(ctx, x.all); err != nil {
			return err
		}
		if err := workload.AwaitProjected(ctx, x.Database); err != nil {
			return err
		}
	}
	after, err := x.projected(ctx)
	if err != nil {
		return err
	}
	for i := range after {
		after[i] -= before[i]
	}
	x.reportShares("entries projected", after)
	if err := x.awaitDelivered(ctx); err != nil {
		return err
	}
	// Shares become even at renewals of leases, of which there are six in a lease.
	var held []float64
	for range 6 {
		if err := x.appendTo(ctx, x.hooked); err != nil {
			return err
		}
		if err := x.awaitDelivered(ctx); err != nil {
			return err
		}
		if held, err = x.held(ctx); err != nil {
			return err
		}
		if err := measure.Pause(ctx, lease/6); err != nil {
			return err
		}
	}
	x.reportShares("webhooks held", held)
	return nil
}

func (x *instances) reportShares(what string, shares []float64) {
	sum := 0.0
	for _, s := range shares {
		sum += s
	}
	mean := sum / float64(len(shares))
	for _, f := range []struct {
		name  string
		value float64
	}{{"most", slices.Max(shares)}, {"least", slices.Min(shares)}} {
		x.Report.Add(measure.Figure{
			Name: fmt.Sprintf("%s by the process that has %s, of %d", what, f.name, len(shares)), Value: f.value, Limit: mean, LimitIs: "an even share",
		}.RatioWithin(uneven))
	}
}

// projected is how many entries each process with that role has projected so far.
func (x *instances) projected(ctx context.Context) (list []float64, err error) {
	for i, s := range x.running {
		if !works(i) {
			continue
		}
		n, err := metric(ctx, s.address("admin"), "ledgerfeed_projected_entries_total")
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// metric adds the series of a metric up.
func metric(ctx context.Context, address, name string) (sum float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("cannot read metrics: %w", err)
	}
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return 0, fmt.Errorf("cannot read metrics: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if series, _, _ = strings.Cut(series, "{"); series != name {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("cannot read metrics: %w", err)
		}
		sum += n
	}
	return sum, nil
}

// held is how many webhooks each process with that role holds.
func (x *instances) held(ctx context.Context) (list []float64, err error) {
	rows, err := x.Pool.Query(ctx, `
		SELECT (SELECT count(*) FROM webhook_cursor c WHERE c.holder = i.instance_id) FROM webhook_instance i WHERE i.workspace_id = '*' AND i.lease_until > clock_timestamp()`)
	if err != nil {
		return nil, fmt.Errorf("cannot count the webhooks held: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var n float64
		if err := rows.Scan(&n); err != nil {
			return nil, fmt.Errorf("cannot count the webhooks held: %w", err)
		}
		list = append(list, n)
	}
	return list, rows.Err()
}

// awaitDelivered waits until webhooks have got all that is in the log.
func (x *instances) awaitDelivered(ctx context.Context) error {
	p := &producers{Database: x.Database}
	return p.await(ctx, `
		SELECT NOT EXISTS (SELECT FROM log_checkpoint c JOIN log_head h USING (workspace_id) WHERE c.consumer = 'read_models' AND h.position > c.position) AND NOT (`+owed+`)`)
}

// measureTakeOver kills a quarter of the processes that project and deliver while they have
// work, and reports when the others have done all of it.
func (x *instances) measureTakeOver(ctx context.Context) error {
	if err := x.appendTo(ctx, x.hooked); err != nil {
		return err
	}
	began := time.Now()
	var left []*served
	killed := 0
	for i, s := range x.running {
		if i%4 != 2 {
			left = append(left, s)
			continue
		}
		if err := s.cmd.Process.Kill(); err != nil {
			return fmt.Errorf("cannot kill a process: %w", err)
		}
		_ = s.cmd.Wait() // which says that it was killed
		killed++
	}
	x.running = left
	if err := x.appendTo(ctx, x.all); err != nil {
		return err
	}
	if err := workload.AwaitProjected(ctx, x.Database); err != nil {
		return err
	}
	x.Report.Add(measure.Figure{
		Name: fmt.Sprintf("%d of %d workers killed: everything is projected after", killed, 3*mostInstances/4), Value: time.Since(began).Seconds(), Unit: "s",
	}.Below(lease.Seconds()))
	if err := x.awaitDelivered(ctx); err != nil {
		return err
	}
	x.Report.Add(measure.Figure{Name: "    everything is delivered after", Value: time.Since(began).Seconds(), Unit: "s"}.Below(lease.Seconds()))
	return nil
}
