package readbench

import (
	"context"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// traced compares pages of which 1 % are traced with the same without traces.
func (r *reader) traced(ctx context.Context) error {
	return r.Traced(ctx, "a page of 50 invoices, 1 % of the requests traced", func(traces *tracing.Traces) (float64, error) {
		serving, stop := context.WithCancel(ctx)
		defer stop()
		server, err := api.Serve(serving, r.Database, api.Options{CacheBytes: api.NoCache, Traces: traces})
		if err != nil {
			return 0, err
		}
		return api.Saturate(ctx, r.Options, r.on(server, invoices))
	})
}
