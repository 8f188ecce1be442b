package readbench

import (
	"context"
	"net/http"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// tracedRounds is how often the rates with and without traces are measured in turn.
const tracedRounds = 7

// traced compares pages of which 1 % are traced, and sent to a receiver on this machine,
// with the same without traces.
func (r *reader) traced(ctx context.Context) error {
	receiver, err := api.Listen(ctx, &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: time.Minute})
	if err != nil {
		return err
	}
	traces, err := tracing.Start(ctx, tracing.Config{URL: "http://" + receiver, Ratio: 0.01, Clock: time.Now, Logger: measure.NoLogger()})
	if err != nil {
		return err
	}
	defer traces.Close(ctx)
	server, err := api.Serve(ctx, r.Database, api.Options{CacheBytes: api.NoCache, Traces: traces})
	if err != nil {
		return err
	}
	type round struct{ with, without float64 }
	rounds := make([]round, tracedRounds)
	for i := range rounds {
		if rounds[i].without, err = api.Saturate(ctx, r.Options, r.on(r.uncached, invoices)); err != nil {
			return err
		}
		if rounds[i].with, err = api.Saturate(ctx, r.Options, r.on(server, invoices)); err != nil {
			return err
		}
	}
	middle := measure.MedianBy(rounds, func(m round) float64 { return m.with / m.without })
	r.Report.Add(measure.Figure{
		Name: "a page of 50 invoices, 1 % of the requests traced", Value: middle.with, Unit: "/s",
		Limit: middle.without, LimitIs: "the same without traces",
	}.RatioAtLeast(0.97))
	return nil
}
