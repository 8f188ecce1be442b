package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// writeByNode writes a record on a cluster: the parts of it that are of one node in one
// transaction. It returns the parts of single webhooks that could not be written, with an error
// of one of them, and those that are locked, or whose node is away.
func writeByNode(ctx context.Context, d *Dispatcher, r *scheduler.Record) (failed, locked []*scheduler.Record, err error) {
	if r.Empty() {
		return nil, nil, nil
	}
	var workspaces []string
	byWorkspace := map[string][]*scheduler.Record{}
	for _, p := range r.Split() {
		w := p.Key().WorkspaceID
		if byWorkspace[w] == nil {
			workspaces = append(workspaces, w)
		}
		byWorkspace[w] = append(byWorkspace[w], p)
	}
	of := func(workspaces []string) (parts []*scheduler.Record) {
		for _, w := range workspaces {
			parts = append(parts, byWorkspace[w]...)
		}
		return parts
	}
	failures, err := d.store.nodes.Each(ctx, workspaces, func(ctx context.Context, workspaces []string) error {
		return writeTogether(ctx, d, of(workspaces))
	})
	if err != nil {
		return []*scheduler.Record{r}, nil, err
	}
	for _, f := range failures {
		parts := of(f.WorkspaceIDs)
		switch {
		case pg.NodeAway(f.Err):
			locked = append(locked, parts...)
		case pg.Locked(f.Err):
			some, waiting, failure := writeEach(ctx, d, parts)
			failed, locked = append(failed, some...), append(locked, waiting...)
			if failure != nil {
				err = failure
			}
		default:
			failed, err = append(failed, parts...), f.Err
		}
	}
	return failed, locked, err
}

// writeTogether writes parts of one node in one transaction and releases their webhooks.
func writeTogether(ctx context.Context, d *Dispatcher, parts []*scheduler.Record) error {
	if err := recordByOne(ctx, d.store, parts, d.clock()); err != nil {
		return err
	}
	var releases []scheduler.CursorRecord
	for _, p := range parts {
		countAttempts(d.rollups, p.Attempts)
		releases = append(releases, p.Releases...)
	}
	d.release(ctx, parts[0].Lease, releases)
	return nil
}

// recordByOne is record for parts of one node, with a statement for each row.
func recordByOne(ctx context.Context, s *store, parts []*scheduler.Record, now time.Time) error {
	b := &pgx.Batch{}
	queueLease(b, parts[0].Lease, now)
	for _, r := range parts {
		for i := range r.Attempts {
			queueAttempt(b, &r.Attempts[i], now)
		}
		for i := range r.Cursors {
			queueCursor(b, r.Lease, &r.Cursors[i])
		}
		for i := range r.Health {
			h := &r.Health[i]
			var since *time.Time
			if !h.Health.FailingSince.IsZero() {
				since = &h.Health.FailingSince
			}
			b.Queue(`UPDATE webhook SET failing_since = $4, failures = $5::text::jsonb, warned = $6 WHERE workspace_id = $1 AND webhook_id = $2 AND epoch = $3 AND url_version = $7`,
				h.Key.WorkspaceID, h.Key.WebhookID, h.Epoch, since, memoryJSON(&h.Health.Memory), h.Health.Warned, h.AddressVersion)
		}
	}
	if b.Len() == 1 {
		return nil // only releases
	}
	if err := inLimitedTx(ctx, s, b); err != nil {
		return fmt.Errorf("record attempts: %w", err)
	}
	return nil
}

// queueAttempt adds one attempt, as queueAttempts does many.
func queueAttempt(b *pgx.Batch, a *scheduler.AttemptRecord, now time.Time) {
	if a.Number == 1 {
		b.Queue(`
			INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, next_attempt_at, attempts)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, jsonb_build_array($9::jsonb))
			    ON CONFLICT DO NOTHING`,
			a.Key.WorkspaceID, a.Key.WebhookID, a.Position, a.CreatedAt, a.EventID, a.EventType, string(a.State), nextOf(a), string(a.Result.AppendJSON(nil)))
	} else {
		queueLaterAttempt(b, a)
	}
	if a.State == policy.Pending {
		b.Queue(`
			INSERT INTO webhook_waiting AS q (workspace_id, webhook_id, position, created_at, attempts, before, next_attempt_at, epoch)
			SELECT w.workspace_id, w.webhook_id, $3::bigint, $4::timestamptz, $5::integer, $6::integer,
			       CASE WHEN w.url_version = $9::integer THEN $7::timestamptz ELSE least($7::timestamptz, $10::timestamptz) END, $8::integer
			  FROM webhook w WHERE w.workspace_id = $1 AND w.webhook_id = $2
			    ON CONFLICT (workspace_id, webhook_id, position) DO UPDATE
			       SET attempts = excluded.attempts, before = excluded.before, next_attempt_at = excluded.next_attempt_at, once = false, epoch = excluded.epoch
			     WHERE q.attempts < excluded.attempts`,
			a.Key.WorkspaceID, a.Key.WebhookID, a.Position, a.CreatedAt, a.Number, a.Before, a.Next, a.Epoch, a.AddressVersion, now)
	}
}

// queueCursor moves one cursor, as queueCursors does many.
func queueCursor(b *pgx.Batch, lease string, c *scheduler.CursorRecord) {
	var replayed *int64
	if c.Replayed > 0 {
		replayed = &c.Replayed
	}
	b.Queue(`
		UPDATE webhook_cursor c
		   SET expired = c.expired + CASE WHEN $6::bigint > c.position THEN $8::bigint ELSE 0 END
		               + CASE WHEN $5::integer = w.version AND $7::bigint > c.replay_position THEN $9::bigint ELSE 0 END,
		       position = greatest(c.position, $6),
		       replay_position = CASE WHEN $7 IS NULL OR $5 <> w.version THEN c.replay_position
		                              WHEN $7 < c.replay_until THEN $7 END,
		       replay_until = CASE WHEN $5 = w.version AND $7 >= c.replay_until THEN NULL ELSE c.replay_until END
		  FROM webhook w
		 WHERE w.workspace_id = $2 AND w.webhook_id = $3 AND w.epoch = $4
		   AND c.workspace_id = $2 AND c.webhook_id = $3 AND c.holder = $1`,
		lease, c.Key.WorkspaceID, c.Key.WebhookID, c.Epoch, c.Version, c.Position, replayed, c.Expired, c.ReplayExpired)
}
