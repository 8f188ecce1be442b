package deliverbench

import (
	"context"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// benchTraced compares deliveries of events of which 1 % were appended in recorded traces
// with the same without traces. Commits do not wait for the disk.
func benchTraced(ctx context.Context, o *measure.Options) error {
	return withReceiver(ctx, o, func(b *bench, ctx context.Context, r *receiver) error {
		if err := b.DoNotWaitForDisk(ctx); err != nil {
			return err
		}
		for i := range goodWebhooks {
			if _, err := b.webhook(ctx, workload.WorkspaceID(i), r.url()); err != nil {
				return err
			}
		}
		return o.Traced(ctx, "deliver a backlog, 20 webhooks, 1 % of the events traced", func(traces *tracing.Traces) (float64, error) {
			b.traces = traces
			total, err := b.tracedBacklog(ctx)
			if err != nil {
				return 0, err
			}
			return b.drain(ctx, r, total)
		})
	})
}

// tracedBacklog appends events for all webhooks, each hundredth of them in a trace that is
// recorded, and returns how many there are.
func (b *bench) tracedBacklog(ctx context.Context) (total int, err error) {
	each := b.Size(eventsEach, 100)
	first := b.appended
	for i := range goodWebhooks {
		if err := b.appendEvents(ctx, workload.WorkspaceID(i), each); err != nil {
			return 0, err
		}
	}
	_, err = b.Pool.Exec(ctx, `
		INSERT INTO append_trace (workspace_id, event_id, traceparent)
		SELECT workspace_id, id, '00-' || md5(id) || '-' || left(md5(workspace_id), 16) || '-01' FROM event_log
		 WHERE id >= $1 AND id LIKE 'evt\_%00'`, fmt.Sprintf("evt_%07d", first))
	if err != nil {
		return 0, fmt.Errorf("cannot record traces: %w", err)
	}
	if err := workload.SkipProjection(ctx, b.Database); err != nil {
		return 0, err
	}
	return goodWebhooks * each, b.Quiesce(ctx)
}
