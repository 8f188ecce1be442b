package readapi

import (
	"context"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/batch"
)

// newCoalescer lets requests that query the database at the same time share a batch,
// so that however many requests come, they use a few connections. Each request gets
// a result that is no older than itself.
//
// With one batch at a time the database would be idle while answers are written; more
// batches than processors, or than half of the connections, would only make each
// smaller. They are detached so that a request whose caller goes, or whose time is
// over, does not wait for the others of its batch.
func newCoalescer[Q any](pool *pgxpool.Pool, timeout time.Duration, run func(ctx context.Context, queries []*Q)) *batch.Coalescer[*Q] {
	return batch.New(batch.Config[*Q]{
		Run:        run,
		Timeout:    timeout,
		Concurrent: max(2, min(runtime.GOMAXPROCS(0), int(pool.Config().MaxConns)/2)),
		Detached:   true,
	})
}
