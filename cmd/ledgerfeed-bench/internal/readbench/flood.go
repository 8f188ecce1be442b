package readbench

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
)

const (
	floodWorkspace = "flood" // 550,000 time entries
	floodCallers   = 40
	// floodPause is the time from one request of a caller to the next, if it was answered
	// by then: 200 a second in all, which is the rate limit of a hundred usual keys.
	floodPause = 200 * time.Millisecond
	// floodedRate is how many pages a second the other workspace requests: far below
	// what the API can serve, so that the times show waiting.
	floodedRate = 100
	// floodRounds alternate between alone and beside the flood, because the machine may
	// be doing other things as well.
	floodRounds = 3
)

// floods are requests for rows that do not exist although each filter alone has many:
// all of those must be looked at, unless an index has the pair.
func floods() [][2]string {
	return [][2]string{
		{"client and status", "/v1/time-entries?client_id=cl_1&status=approved"},
		{"client and contractor", "/v1/time-entries?client_id=cl_1&contractor_id=co_2"},
	}
}

// flood measures what the readers of a workspace feel while a key of another one sends
// the most expensive requests that it may send.
func (r *reader) flood(ctx context.Context) error {
	rows := r.Size(550_000, 20_000)
	r.Say("making a workspace with %d time entries", rows)
	if err := r.makeTimeEntries(ctx, rows); err != nil {
		return err
	}
	key, err := r.uncached.NewKey(ctx, floodWorkspace)
	if err != nil {
		return err
	}
	quiet := r.on(r.uncached, invoices)
	for _, f := range floods() {
		name, path := f[0], f[1]
		var alone, beside []float64
		var answers, seconds float64
		for range floodRounds {
			times, err := api.AtRate(ctx, r.Options, quiet, floodedRate)
			if err != nil {
				return err
			}
			alone = append(alone, measure.Quantile(times, 0.99))
			answered, err := r.whileFlooded(ctx, api.Request{Host: r.uncached.Address, Path: path, Key: key}, func() (err error) {
				times, err = api.AtRate(ctx, r.Options, quiet, floodedRate)
				return err
			})
			if err != nil {
				return err
			}
			beside = append(beside, measure.Quantile(times, 0.99))
			answers, seconds = answers+float64(answered), seconds+r.Duration(api.LoadTime).Seconds()
		}
		r.Report.Add(measure.Figure{
			Name: "a page while another workspace floods, p99", Value: measure.Median(beside), Unit: "ms",
			Limit: measure.Median(alone), LimitIs: "the same without the flood",
		}.RatioAtMost(1.5))
		r.Report.Add(measure.Figure{Name: "    the flood, by " + name + ", 40 callers, answered", Value: answers / seconds, Unit: "/s"})
	}
	return nil
}

// makeTimeEntries writes rows of the read table: one half is of a client, and the other
// half is approved and of a contractor of its own.
func (r *reader) makeTimeEntries(ctx context.Context, rows int) error {
	for _, sql := range []string{
		`SELECT workspace_create('` + floodWorkspace + `', 'Flood', now())`,
		`INSERT INTO time_entry (workspace_id, id, position, client_id, contractor_id, period, status, base, pay)
		 SELECT '` + floodWorkspace + `', 'te_' || g, g, CASE WHEN g % 2 = 0 THEN 'cl_1' ELSE 'cl_' || 2 + g % 200 END,
		        CASE WHEN g % 2 = 0 THEN 'co_1' ELSE 'co_2' END, '2026-10', CASE WHEN g % 2 = 0 THEN 'paid' ELSE 'approved' END,
		        '{"id":"te_' || g || '","description":"' || repeat('x', 600) || '"', ',"pay_rate":"1.00"'
		   FROM generate_series(1, ` + fmt.Sprint(rows) + `) AS g`,
		`VACUUM ANALYZE time_entry`,
	} {
		if _, err := r.Pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("cannot make time entries: %w", err)
		}
	}
	return nil
}

// whileFlooded calls work while callers send a request as often as they can, and returns
// how many were answered.
func (r *reader) whileFlooded(ctx context.Context, q api.Request, work func() error) (answered int64, err error) {
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	var (
		group sync.WaitGroup
		count atomic.Int64
	)
	for range floodCallers {
		caller, err := q.Dial(ctx)
		if err != nil {
			return 0, err
		}
		context.AfterFunc(flooding, caller.Close) // ends a call under way
		group.Go(func() {
			tick := time.NewTicker(floodPause)
			defer tick.Stop()
			for flooding.Err() == nil {
				status, err := caller.Call()
				if err != nil {
					return
				}
				if status == http.StatusOK {
					count.Add(1)
				}
				select {
				case <-flooding.Done():
				case <-tick.C:
				}
			}
		})
	}
	err = work()
	answered = count.Load()
	stop()
	group.Wait()
	return answered, err
}
