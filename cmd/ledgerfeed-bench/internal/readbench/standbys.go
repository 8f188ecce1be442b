package readbench

import (
	"context"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
)

// standbys measures pages from standbys of the server, against pages from the server alone.
// Two behind one address give twice as many where each has processors of its own.
func standbys(ctx context.Context, r *reader) error {
	from, err := api.OpenStandbys(ctx, r.Database)
	if err != nil {
		return err
	}
	if from == nil {
		r.Say("no standbys: LEDGERFEED_READ_DATABASE_URL names none of the server at DATABASE_URL")
		return nil
	}
	spread, err := api.Serve(ctx, r.Database, api.Options{CacheBytes: api.NoCache, Copy: from})
	if err != nil {
		return err
	}
	for _, m := range []struct{ name, path string }{{"a page of 50 invoices", invoices}, {"one invoice by its id", invoices + "/in_00000777"}} {
		alone, err := api.Saturate(ctx, r.Options, r.on(r.uncached, m.path))
		if err != nil {
			return err
		}
		rate, err := api.Saturate(ctx, r.Options, r.on(spread, m.path))
		if err != nil {
			return err
		}
		r.Report.Add(measure.Figure{Name: m.name + ", from standbys", Value: rate, Unit: "/s", Limit: alone, LimitIs: "the same from the primary alone"})
	}
	return nil
}
