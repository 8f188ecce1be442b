package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
)

// numbered are events with their numbers, as columns.
type numbered struct {
	ws, hs               []string
	positions, sequences []int64
}

func (n *numbered) add(k scheduler.Key, position, sequence int64) {
	n.ws, n.hs = append(n.ws, k.WorkspaceID), append(n.hs, k.WebhookID)
	n.positions, n.sequences = append(n.positions, position), append(n.sequences, sequence)
}

// numberedEvents are the events that have a number by the cursors of webhooks.
func numberedEvents(webhooks []webhookRow) (n numbered) {
	for i := range webhooks {
		w := &webhooks[i]
		for j, p := range w.numberedPositions {
			n.add(w.Key, p, w.numberedSequences[j])
		}
	}
	return n
}

// readInterrupted adds to webhooks the events that have a number and that a process before
// may have sent without recording it.
func readInterrupted(ctx context.Context, s *store, webhooks []webhookRow) error {
	n := numberedEvents(webhooks)
	if len(n.positions) == 0 {
		return nil
	}
	byKey := map[scheduler.Key]*webhookRow{}
	for i := range webhooks {
		byKey[webhooks[i].Key] = &webhooks[i]
	}
	if s.nodes != nil {
		return readInterruptedByOne(ctx, s, &n, byKey)
	}
	// As to the ranges of one value, see PoolSettings.
	rows, err := s.pool.Query(ctx, `
		SELECT n.w, n.h, n.position, n.sequence, e.id, e.type, e.public_event, e.created_at, coalesce(jsonb_array_length(d.attempts), 0), d.created_at
		  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS n (w, h, position, sequence)
		 CROSS JOIN LATERAL (
		       SELECT * FROM event_log e WHERE e.workspace_id = n.w AND e.position >= n.position AND e.position <= n.position ORDER BY e.position) AS e
		  LEFT JOIN LATERAL (
		       SELECT d.created_at, d.attempts, d.sequence FROM webhook_delivery d
		        WHERE d.workspace_id = n.w AND d.webhook_id = n.h AND d.position >= n.position AND d.position <= n.position
		        ORDER BY d.position DESC, d.created_at DESC LIMIT 1) AS d ON true
		 WHERE d.sequence IS NULL
		 ORDER BY n.sequence`, n.ws, n.hs, n.positions, n.sequences)
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
// has recorded meanwhile. It returns the webhooks of which another transaction has locked
// such a delivery.
func adoptNumbers(ctx context.Context, s *store, webhooks []webhookRow) (locked []scheduler.Key, err error) {
	without, err := withoutNumber(ctx, s, numberedEvents(webhooks))
	if err != nil || len(without.positions) == 0 {
		return nil, err
	}
	if s.nodes != nil {
		err = adoptByOne(ctx, s, &without)
	} else {
		err = adoptMany(ctx, s, &without)
	}
	if err != nil {
		return nil, fmt.Errorf("number what a version without numbers has sent: %w", err)
	}
	left, err := withoutNumber(ctx, s, without)
	for i := range left.positions {
		if k := (scheduler.Key{WorkspaceID: left.ws[i], WebhookID: left.hs[i]}); !slices.Contains(locked, k) {
			locked = append(locked, k)
		}
	}
	return locked, err
}

// adoptMany numbers the deliveries that no other transaction has locked.
func adoptMany(ctx context.Context, s *store, without *numbered) error {
	for _, table := range []string{"webhook_delivery", "webhook_waiting"} {
		// A row that was changed meanwhile is not at its place any more, and is left like one that is
		// locked. Those of webhook_delivery, which has partitions, have their whole key.
		condition, found := "", "t.ctid = u.place"
		if table == "webhook_delivery" {
			condition = adoptable
			found = "t.workspace_id = u.workspace_id AND t.webhook_id = u.webhook_id AND t.position = u.position AND t.created_at = u.created_at"
		}
		err := s.limited(ctx, `
			WITH unlocked AS MATERIALIZED (
			    SELECT t.workspace_id, t.webhook_id, t.position, t.created_at, t.place, n.sequence
			      FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS n (w, h, position, sequence)
			     CROSS JOIN LATERAL (
			           SELECT t.workspace_id, t.webhook_id, t.position, t.created_at, t.ctid AS place FROM `+table+` t
			            WHERE t.workspace_id = n.w AND t.webhook_id = n.h AND t.position >= n.position AND t.position <= n.position AND t.sequence IS NULL`+condition+`
			            ORDER BY t.position FOR NO KEY UPDATE SKIP LOCKED) AS t)
			UPDATE `+table+` t SET sequence = u.sequence FROM unlocked u WHERE `+found,
			without.ws, without.hs, without.positions, without.sequences)
		if err != nil {
			return err
		}
	}
	return nil
}

// adoptable is true, in SQL, of a delivery t that is not sent again.
const adoptable = ` AND t.state IN ('succeeded', 'pending')`

// withoutNumber returns those of the events that were recorded without their number.
func withoutNumber(ctx context.Context, s *store, events numbered) (without numbered, err error) {
	if len(events.positions) == 0 {
		return without, nil
	}
	if s.nodes != nil {
		return withoutNumberByOne(ctx, s, &events)
	}
	rows, err := s.pool.Query(ctx, `
		SELECT n.w, n.h, n.position, n.sequence
		  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS n (w, h, position, sequence)
		  LEFT JOIN LATERAL (
		       SELECT true AS found FROM webhook_delivery t
		        WHERE t.workspace_id = n.w AND t.webhook_id = n.h AND t.position >= n.position AND t.position <= n.position AND t.sequence IS NULL`+adoptable+`
		        ORDER BY t.position LIMIT 1) AS d ON true
		  LEFT JOIN LATERAL (
		       SELECT true AS found FROM webhook_waiting t
		        WHERE t.workspace_id = n.w AND t.webhook_id = n.h AND t.position >= n.position AND t.position <= n.position AND t.sequence IS NULL
		        ORDER BY t.position LIMIT 1) AS q ON true
		 WHERE d.found OR q.found`, events.ws, events.hs, events.positions, events.sequences)
	if err != nil {
		return without, fmt.Errorf("look for events that were sent without their number: %w", err)
	}
	var (
		k                  scheduler.Key
		position, sequence int64
	)
	_, err = pgx.ForEachRow(rows, []any{&k.WorkspaceID, &k.WebhookID, &position, &sequence}, func() error {
		without.add(k, position, sequence)
		return nil
	})
	if err != nil {
		return without, fmt.Errorf("look for events that were sent without their number: %w", err)
	}
	return without, nil
}

// readInterruptedByOne is readInterrupted.
func readInterruptedByOne(ctx context.Context, s *store, n *numbered, byKey map[scheduler.Key]*webhookRow) error {
	b := &pgx.Batch{}
	for i, p := range n.positions {
		w := byKey[scheduler.Key{WorkspaceID: n.ws[i], WebhookID: n.hs[i]}]
		b.Queue(`
			SELECT e.id, e.type, e.public_event, e.created_at, coalesce(jsonb_array_length(d.attempts), 0), d.created_at
			  FROM event_log e
			  LEFT JOIN LATERAL (
			       SELECT d.created_at, d.attempts, d.sequence FROM webhook_delivery d
			        WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position = $3
			        ORDER BY d.created_at DESC LIMIT 1) AS d ON true
			 WHERE e.workspace_id = $1 AND e.position = $3 AND d.sequence IS NULL`, n.ws[i], n.hs[i], p).Query(func(rows pgx.Rows) error {
			a := &scheduler.Attempt{Position: p, Sequence: n.sequences[i]}
			var created *time.Time
			if _, err := pgx.ForEachRow(rows, []any{&a.EventID, &a.EventType, &a.Body, &a.Published, &a.Made, &created}, func() error {
				if created != nil {
					a.CreatedAt = created.UTC()
				}
				a.Before = a.Made
				w.Interrupted = append(w.Interrupted, a)
				return nil
			}); err != nil {
				return fmt.Errorf("scan: %w", err)
			}
			return nil
		})
	}
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("read what may have been sent: %w", err)
	}
	for _, w := range byKey {
		slices.SortFunc(w.Interrupted, func(x, y *scheduler.Attempt) int { return cmp.Compare(x.Sequence, y.Sequence) })
	}
	return nil
}

// adoptByOne is adoptMany.
func adoptByOne(ctx context.Context, s *store, without *numbered) error {
	b := &pgx.Batch{}
	for _, table := range []string{"webhook_delivery", "webhook_waiting"} {
		condition := ""
		if table == "webhook_delivery" {
			condition = adoptable
		}
		for i, p := range without.positions {
			b.Queue(`
				UPDATE `+table+` t SET sequence = $4
				 WHERE t.workspace_id = $1 AND t.webhook_id = $2 AND t.position = $3 AND t.created_at IN (
				       SELECT t.created_at FROM `+table+` t
				        WHERE t.workspace_id = $1 AND t.webhook_id = $2 AND t.position = $3 AND t.sequence IS NULL`+condition+`
				          FOR NO KEY UPDATE SKIP LOCKED)`, without.ws[i], without.hs[i], p, without.sequences[i])
		}
	}
	return inLimitedTx(ctx, s, b)
}

// withoutNumberByOne is withoutNumber.
func withoutNumberByOne(ctx context.Context, s *store, events *numbered) (without numbered, err error) {
	b := &pgx.Batch{}
	for i, p := range events.positions {
		k := scheduler.Key{WorkspaceID: events.ws[i], WebhookID: events.hs[i]}
		b.Queue(`
			SELECT EXISTS (SELECT 1 FROM webhook_delivery t
			                WHERE t.workspace_id = $1 AND t.webhook_id = $2 AND t.position = $3 AND t.sequence IS NULL`+adoptable+`)
			    OR EXISTS (SELECT 1 FROM webhook_waiting t
			                WHERE t.workspace_id = $1 AND t.webhook_id = $2 AND t.position = $3 AND t.sequence IS NULL)`,
			k.WorkspaceID, k.WebhookID, p).QueryRow(func(row pgx.Row) error {
			var found bool
			err := row.Scan(&found)
			if found {
				without.add(k, p, events.sequences[i])
			}
			return err
		})
	}
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return numbered{}, fmt.Errorf("look for events that were sent without their number: %w", err)
	}
	return without, nil
}
