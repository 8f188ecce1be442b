package readbench

import (
	"context"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/internal/replica"
)

// replicas measures pages from the replicas of the server, against pages from the server
// alone, and what each takes of them. Two give twice as many where each has processors
// of its own.
func replicas(ctx context.Context, r *reader) error {
	followed, err := api.OpenReplicas(ctx, r.Database)
	if err != nil {
		return err
	}
	if followed == nil {
		r.Say("no replicas: LEDGERFEED_READ_DATABASE_URL names none of the server at DATABASE_URL")
		return nil
	}
	spread, err := api.Serve(ctx, r.Database, api.Options{CacheBytes: api.NoCache, Replicas: followed})
	if err != nil {
		return err
	}
	for _, m := range []struct{ name, path string }{{"a page of 50 invoices", invoices}, {"one invoice by its id", invoices + "/in_00000777"}} {
		alone, err := api.Saturate(ctx, r.Options, r.on(r.uncached, m.path))
		if err != nil {
			return err
		}
		before, err := followed.Reads()
		if err != nil {
			return err
		}
		rate, err := api.Saturate(ctx, r.Options, r.on(spread, m.path))
		if err != nil {
			return err
		}
		after, err := followed.Reads()
		if err != nil {
			return err
		}
		r.Report.Add(measure.Figure{Name: m.name + ", from replicas", Value: rate, Unit: "/s", Limit: alone, LimitIs: "the same from the primary alone"})
		all := 0.0
		for name := range after {
			all += after[name] - before[name]
		}
		for _, name := range append(followed.Names(), replica.Primary) {
			r.Report.Add(measure.Figure{Name: "    of them, by " + name, Value: 100 * (after[name] - before[name]) / all, Unit: "%"})
		}
	}
	return nil
}
