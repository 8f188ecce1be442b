package instancebench

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
	// rounds are how often a fifth of the workspaces gets an event each while shares are
	// measured: so often that chance explains much less than uneven.
	rounds = 40
	fifths = 5
	// uneven is how far from the average a process's share may be.
	uneven = 0.2
	// lease is within what time a process's webhooks are taken over: dispatch.Config's default.
	lease = 30 * time.Second
)

// measureDelivering reports how evenly the processes share webhooks.
func (x *instances) measureDelivering(ctx context.Context) error {
	if err := x.grow(ctx, mostInstances); err != nil {
		return err
	}
	if err := x.awaitDelivered(ctx); err != nil {
		return err
	}
	// Shares become even at renewals of leases, of which there are six in a lease.
	var held []float64
	for range 6 {
		if err := x.appendTo(ctx, 0, x.hooked); err != nil {
			return err
		}
		if err := x.awaitDelivered(ctx); err != nil {
			return err
		}
		var err error
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

// measureProjecting reports how evenly the processes share entries to project, and how evenly
// chance would share them.
func (x *instances) measureProjecting(ctx context.Context) error {
	if err := x.grow(ctx, mostInstances); err != nil {
		return err
	}
	each := x.all / fifths
	x.Say("measuring shares: %d rounds of an event in each of %d workspaces", rounds, each)
	if err := x.projectRound(ctx, 0, each); err != nil { // the first is of processes that have just started
		return err
	}
	first, err := x.projected(ctx)
	if err != nil {
		return err
	}
	before := first
	byRound := make([][]float64, rounds)
	for i := range byRound {
		from := i % fifths * each
		if err := x.projectRound(ctx, from, from+each); err != nil {
			return err
		}
		after, err := x.projected(ctx)
		if err != nil {
			return err
		}
		byRound[i] = minus(after, before).entries
		before = after
	}
	sum := minus(before, first)
	for i, entries := range sum.entries {
		x.Say("    process %2d of those that project: %6.0f entries in %5.0f claims, %.2f of an even share", i+1, entries, sum.claims[i], entries/mean(sum.entries))
	}
	x.reportShares("entries projected", sum.entries)
	claims := int(mean(sum.claims)) * len(sum.claims)
	least, most := byChance(claims, len(sum.claims))
	what := fmt.Sprintf("    if each of %d claims had gone to any process by chance", claims)
	x.Report.Add(measure.Figure{Name: what + ": most", Value: most, Unit: "shares"})
	x.Report.Add(measure.Figure{Name: "    and least, each in 19 runs of 20", Value: least, Unit: "shares"})
	x.Report.Add(measure.Figure{Name: "    a process's share of all rounds is known to (2 standard errors)", Value: 200 * standardError(byRound), Unit: "%"})
	return nil
}

// projectRound appends an event to each of some workspaces and waits until it is projected.
func (x *instances) projectRound(ctx context.Context, first, end int) error {
	if err := x.appendTo(ctx, first, end); err != nil {
		return err
	}
	return workload.AwaitProjected(ctx, x.Database)
}

func (x *instances) reportShares(what string, shares []float64) {
	for _, f := range []struct {
		name  string
		value float64
	}{{"most", slices.Max(shares)}, {"least", slices.Min(shares)}} {
		x.Report.Add(measure.Figure{
			Name: fmt.Sprintf("%s by the process that has %s, of %d", what, f.name, len(shares)), Value: f.value, Limit: mean(shares), LimitIs: "an even share",
		}.RatioWithin(uneven))
	}
}

// work is what each process that projects has done so far.
type work struct{ entries, claims []float64 }

func (x *instances) projected(ctx context.Context) (w work, err error) {
	for i, s := range x.running {
		if !works(i) {
			continue
		}
		for name, list := range map[string]*[]float64{
			"ledgerfeed_projected_entries_total":                        &w.entries,
			"ledgerfeed_projector_handler_execution_time_seconds_count": &w.claims,
		} {
			n, err := metric(ctx, s.address("admin"), name)
			if err != nil {
				return w, err
			}
			*list = append(*list, n)
		}
	}
	return w, nil
}

func minus(after, before work) (d work) {
	for i := range after.entries {
		d.entries = append(d.entries, after.entries[i]-before.entries[i])
		d.claims = append(d.claims, after.claims[i]-before.claims[i])
	}
	return d
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
	return x.await(ctx, `
		SELECT NOT EXISTS (SELECT FROM log_checkpoint c JOIN log_head h USING (workspace_id) WHERE c.consumer = 'read_models' AND h.position > c.position)
		   AND NOT EXISTS (SELECT FROM webhook_cursor k
		                     JOIN log_checkpoint c ON c.workspace_id = k.workspace_id AND c.consumer = 'read_models'
		                     JOIN event_log e ON e.workspace_id = k.workspace_id AND e.position > k.position AND e.position <= c.position
		                    WHERE e.public_event IS NOT NULL)`)
}

// await polls until a statement returns true.
func (x *instances) await(ctx context.Context, sql string) error {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		var done bool
		if err := x.Pool.QueryRow(ctx, sql).Scan(&done); err != nil {
			return fmt.Errorf("cannot read the progress: %w", err)
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		}
	}
}
