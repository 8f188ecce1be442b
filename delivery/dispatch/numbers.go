package dispatch

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// number stores the numbers of events before the attempts that carry them.
func (d *Dispatcher) number(ctx context.Context, n *scheduler.Number) scheduler.Event {
	limited, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	stored, err := d.store.number(limited, n)
	if err != nil {
		if ctx.Err() == nil {
			d.logger.WarnContext(ctx, "cannot store the numbers of events that are to be delivered; trying again", "webhooks", len(n.Webhooks), "error", err, "retry_in", retryPause)
		}
		flow.Pause(ctx, retryPause)
	}
	return scheduler.NumbersStored{Number: n, Keys: stored}
}

// number stores the numbers of the webhooks that are held under the lease and whose cursor
// no other transaction has locked, and returns which these are. Repeating it is safe.
func (s *store) number(ctx context.Context, n *scheduler.Number) (stored []scheduler.Key, err error) {
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

// readInterrupted adds to webhooks the events that have a number and that a process before
// may have sent without recording it.
func (s *store) readInterrupted(ctx context.Context, webhooks []webhookRow) error {
	byKey := map[scheduler.Key]*webhookRow{}
	var ws, hs []string
	var positions, sequences []int64
	for i := range webhooks {
		w := &webhooks[i]
		byKey[w.Key] = w
		for j, p := range w.numberedPositions {
			ws, hs = append(ws, w.Key.WorkspaceID), append(hs, w.Key.WebhookID)
			positions, sequences = append(positions, p), append(sequences, w.numberedSequences[j])
		}
	}
	if len(positions) == 0 {
		return nil
	}
	if err := s.adoptNumbers(ctx, ws, hs, positions, sequences); err != nil {
		return err
	}
	rows, err := s.pool.Query(ctx, `
		SELECT n.w, n.h, n.position, n.sequence, e.id, e.type, e.public_event, e.created_at, coalesce(jsonb_array_length(d.attempts), 0), d.created_at
		  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS n (w, h, position, sequence)
		  JOIN event_log e ON e.workspace_id = n.w AND e.position = n.position
		  LEFT JOIN LATERAL (
		       SELECT d.created_at, d.attempts, d.sequence FROM webhook_delivery d
		        WHERE d.workspace_id = n.w AND d.webhook_id = n.h AND d.position = n.position
		        ORDER BY d.created_at DESC LIMIT 1) AS d ON true
		 WHERE d.sequence IS NULL
		 ORDER BY n.sequence`, ws, hs, positions, sequences)
	if err != nil {
		return fmt.Errorf("read what may have been sent: %w", err)
	}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (none struct{}, err error) {
		var (
			k       scheduler.Key
			a       = &scheduler.Attempt{}
			created *time.Time
		)
		err = row.Scan(&k.WorkspaceID, &k.WebhookID, &a.Position, &a.Sequence, &a.EventID, &a.EventType, &a.Body, &a.Published, &a.Made, &created)
		if err != nil {
			return none, err
		}
		if created != nil {
			a.CreatedAt = created.UTC()
		}
		a.Before = a.Made
		byKey[k].Interrupted = append(byKey[k].Interrupted, a)
		return none, nil
	})
	if err != nil {
		return fmt.Errorf("read what may have been sent: %w", err)
	}
	return nil
}

// adoptNumbers gives deliveries their numbers that a process of a version without numbers
// has recorded meanwhile.
func (s *store) adoptNumbers(ctx context.Context, ws, hs []string, positions, sequences []int64) error {
	for _, table := range []string{"webhook_delivery", "webhook_waiting"} {
		condition := ""
		if table == "webhook_delivery" {
			condition = " AND t.state IN ('succeeded', 'pending')"
		}
		err := s.limited(ctx, `
			UPDATE `+table+` t SET sequence = n.sequence
			  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS n (w, h, position, sequence)
			 WHERE t.workspace_id = n.w AND t.webhook_id = n.h AND t.position = n.position AND t.sequence IS NULL`+condition,
			ws, hs, positions, sequences)
		if err != nil {
			return fmt.Errorf("number what a version without numbers has sent: %w", err)
		}
	}
	return nil
}
