package dispatch

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// number stores the numbers of events before the attempts that carry them.
func number(ctx context.Context, d *Dispatcher, n *scheduler.Number) scheduler.Event {
	limited, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	stored, err := storeNumbers(limited, d.store, n)
	if ctx.Err() == nil {
		d.outages.numbering.Note(ctx, err)
	}
	if err != nil {
		flow.Pause(ctx, retryPause)
	}
	return scheduler.NumbersStored{Number: n, Keys: stored}
}

// storeNumbers stores the numbers of the webhooks that are held under the lease and whose cursor
// no other transaction has locked, and returns which these are. Repeating it is safe.
func storeNumbers(ctx context.Context, s *store, n *scheduler.Number) (stored []scheduler.Key, err error) {
	if s.nodes != nil {
		return storeNumbersByNode(ctx, s, n)
	}
	var (
		ws, hs = make([]string, len(n.Webhooks)), make([]string, len(n.Webhooks))
		cols   = newNumberColumns(len(n.Webhooks))
	)
	for i := range n.Webhooks {
		w := &n.Webhooks[i]
		ws[i], hs[i] = w.Key.WorkspaceID, w.Key.WebhookID
		cols.set(i, w)
	}
	// The lock of a table would hold up the numbers of all webhooks.
	b := &pgx.Batch{}
	b.Queue(`SELECT set_config('lock_timeout', $1, true)`, pg.Milliseconds(lockTimeout))
	b.Queue(`
		WITH n AS MATERIALIZED (
		    SELECT * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[]) AS n (w, h, last, positions, sequences)
		), held AS MATERIALIZED (
		    SELECT c.workspace_id, c.webhook_id FROM n
		      JOIN webhook_cursor c ON c.workspace_id = n.w AND c.webhook_id = n.h
		     WHERE c.holder = $1 AND EXISTS (SELECT FROM webhook_instance i WHERE i.instance_id = $1 AND `+holds+`)
		       FOR NO KEY UPDATE OF c SKIP LOCKED)
		UPDATE webhook_cursor c
		   SET sequence = n.last, numbered_positions = n.positions::bigint[], numbered_sequences = n.sequences::bigint[]
		  FROM held JOIN n ON n.w = held.workspace_id AND n.h = held.webhook_id
		 WHERE c.workspace_id = held.workspace_id AND c.webhook_id = held.webhook_id
		RETURNING c.workspace_id, c.webhook_id`, n.Lease, ws, hs, cols.last, cols.positions, cols.sequences).Query(func(rows pgx.Rows) error {
		stored, err = pgx.CollectRows(rows, pgx.RowToStructByPos[scheduler.Key])
		return err
	})
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("store numbers of events: %w", err)
	}
	return stored, nil
}

// numberColumns are the numbers of webhooks as columns, for unnest, which cannot take
// arrays of different lengths. Null leaves a webhook's as they are.
type numberColumns struct {
	last                 []*int64
	positions, sequences []*string
}

func newNumberColumns(n int) *numberColumns {
	return &numberColumns{last: make([]*int64, n), positions: make([]*string, n), sequences: make([]*string, n)}
}

func (c *numberColumns) set(i int, n *scheduler.Numbers) {
	if n == nil {
		return
	}
	positions, sequences := bigintArray(n.Positions), bigintArray(n.Sequences)
	c.last[i], c.positions[i], c.sequences[i] = &n.Last, &positions, &sequences
}

// bigintArray writes an array in PostgreSQL's text form.
func bigintArray(list []int64) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, n := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(n, 10))
	}
	b.WriteByte('}')
	return b.String()
}
