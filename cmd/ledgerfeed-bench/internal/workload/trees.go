package workload

import (
	"context"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// StartTrees builds event trees until ctx ends; then the channel gets its error.
func StartTrees(ctx context.Context, db *measure.Database) (<-chan error, error) {
	pool, err := pg.Open(ctx, db.URL, pg.Options{MaxConns: eventtree.Connections, Settings: projections.PoolSettings()})
	if err != nil {
		return nil, err
	}
	builder, err := eventtree.NewBuilder(eventtree.BuilderConfig{Pool: pool, Notifier: db.Notifier, Clock: time.Now, Logger: measure.NoLogger()})
	if err != nil {
		pool.Close()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		defer pool.Close()
		ended <- builder.Run(ctx)
	}()
	return ended, nil
}

// AwaitTrees waits until the trees have everything that is visible.
func AwaitTrees(ctx context.Context, db *measure.Database) error {
	return awaitNoneBehind(ctx, db, `
		SELECT EXISTS (SELECT FROM log_checkpoint c
		         LEFT JOIN log_checkpoint t ON t.workspace_id = c.workspace_id AND t.consumer = $2
		        WHERE c.consumer = $1 AND c.position > coalesce(t.position, 0))`, eventlog.ReadModels, eventtree.Consumer)
}
