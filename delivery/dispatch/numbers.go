package dispatch

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// number stores the numbers of events before the attempts that carry them.
func number(ctx context.Context, d *Dispatcher, n *scheduler.Number) scheduler.Event {
	limited, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	stored, err := storeNumbers(limited, d.store, n)
	if err != nil {
		if ctx.Err() == nil {
			d.logger.WarnContext(ctx, "cannot store the numbers of events that are to be delivered; trying again", "webhooks", len(n.Webhooks), "error", err, "retry_in", retryPause)
		}
		flow.Pause(ctx, retryPause)
	}
	return scheduler.NumbersStored{Number: n, Keys: stored}
}

// storeNumbers stores the numbers of the webhooks that are held under the lease and whose cursor
// no other transaction has locked, and returns which these are. Repeating it is safe.
func storeNumbers(ctx context.Context, s *store, n *scheduler.Number) (stored []scheduler.Key, err error) {
	// The lock of a table would hold up the numbers of all webhooks.
	b := &pgx.Batch{}
	b.Queue(`SELECT webhook_lease($1), set_config('lock_timeout', $2, true)`, n.Lease, pg.Milliseconds(lockTimeout))
	for i := range n.Webhooks {
		w := &n.Webhooks[i]
		numbers := numbersOf(w)
		b.Queue(`
			UPDATE webhook_cursor SET sequence = $4, numbered_positions = $5, numbered_sequences = $6
			 WHERE workspace_id = $2 AND webhook_id IN (
			       SELECT webhook_id FROM webhook_cursor
			        WHERE workspace_id = $2 AND webhook_id = $3 AND holder = $1 FOR NO KEY UPDATE SKIP LOCKED)`,
			n.Lease, w.Key.WorkspaceID, w.Key.WebhookID, numbers.last, numbers.positions, numbers.sequences).Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() > 0 {
				stored = append(stored, w.Key)
			}
			return nil
		})
	}
	switch err := s.pool.SendBatch(ctx, b).Close(); {
	case leaseIsOver(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("store numbers of events: %w", err)
	}
	return stored, nil
}

// cursorNumbers are the numbers of a webhook as columns of its cursor. Null leaves them as
// they are.
type cursorNumbers struct {
	last                 *int64
	positions, sequences []int64
}

func numbersOf(n *scheduler.Numbers) cursorNumbers {
	if n == nil {
		return cursorNumbers{}
	}
	c := cursorNumbers{last: &n.Last, positions: n.Positions, sequences: n.Sequences}
	if c.positions == nil {
		c.positions, c.sequences = []int64{}, []int64{}
	}
	return c
}
