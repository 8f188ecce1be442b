package delivery

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
)

// loaded is a webhook as its rows say.
type loaded struct {
	key                           key
	hook                          *hook
	health                        Health
	position, replay, replayUntil int64
	void                          bool // deliveries wait that are to be cancelled
}

// load reads webhooks; those that are gone are missing from the result.
func (r *rows) load(ctx context.Context, keys []key) (map[key]*loaded, error) {
	ws, hs := split(keys)
	list, err := r.pool.Query(ctx, `
		SELECT w.workspace_id, w.webhook_id, w.url, w.events, w.state = 'on', w.version, w.epoch,
		       w.secret, w.old_secret, w.old_secret_until, w.failing_since, w.failure_marks, w.warned,
		       c.position, coalesce(c.replay_position, 0), coalesce(c.replay_until, 0),
		       EXISTS (SELECT FROM webhook_waiting q
		                WHERE q.workspace_id = w.workspace_id AND q.webhook_id = w.webhook_id AND q.epoch < w.epoch)
		  FROM unnest($1::text[], $2::text[]) AS k (w, h)
		  JOIN webhook w ON w.workspace_id = k.w AND w.webhook_id = k.h
		  JOIN webhook_cursor c ON c.workspace_id = k.w AND c.webhook_id = k.h`, ws, hs)
	if err != nil {
		return nil, fmt.Errorf("load webhooks: %w", err)
	}
	found, err := pgx.CollectRows(list, r.scanLoaded)
	if err != nil {
		return nil, fmt.Errorf("load webhooks: %w", err)
	}
	all := make(map[key]*loaded, len(found))
	for _, l := range found {
		all[l.key] = l
	}
	return all, nil
}

func (r *rows) scanLoaded(row pgx.CollectableRow) (*loaded, error) {
	var (
		l           = &loaded{hook: &hook{}}
		h           = l.hook
		secret, old []byte
		until       *time.Time
		since       *time.Time
		marks       []int64
	)
	err := row.Scan(&l.key.workspaceID, &l.key.webhookID, &h.address, &h.events, &h.on, &h.version, &h.epoch,
		&secret, &old, &until, &since, &marks, &l.health.Warned, &l.position, &l.replay, &l.replayUntil, &l.void)
	if err != nil {
		return nil, err
	}
	if since != nil {
		l.health.FailingSince = since.UTC()
	}
	for _, ms := range marks {
		l.health.Marks = append(l.health.Marks, time.UnixMilli(ms).UTC())
	}
	if h.url, err = url.Parse(h.address); err != nil {
		h.broken = fmt.Errorf("the address of %s: %w", l.key.webhookID, err)
	}
	if h.secret, err = r.keyring.open(l.key.workspaceID, l.key.webhookID, secret); err != nil {
		h.broken = err
	}
	if until != nil {
		h.oldUntil = *until
		// An old secret that does not open is not worth stopping for.
		h.oldSecret, _ = r.keyring.open(l.key.workspaceID, l.key.webhookID, old)
	}
	return l, nil
}

// journal reads which positions after each webhook's cursor were sent before.
func (r *rows) journal(ctx context.Context, all map[key]*loaded) (map[key]map[int64]struct{}, error) {
	var (
		keys  []key
		after []int64
	)
	for k, l := range all {
		keys, after = append(keys, k), append(after, l.position)
	}
	ws, hs := split(keys)
	list, err := r.pool.Query(ctx, `
		SELECT d.workspace_id, d.webhook_id, d.position
		  FROM unnest($1::text[], $2::text[], $3::bigint[]) AS k (w, h, after)
		  JOIN webhook_delivery d ON d.workspace_id = k.w AND d.webhook_id = k.h AND d.position > k.after`, ws, hs, after)
	if err != nil {
		return nil, fmt.Errorf("read what was sent before: %w", err)
	}
	defer list.Close()
	sent := map[key]map[int64]struct{}{}
	for list.Next() {
		var (
			k key
			p int64
		)
		if err := list.Scan(&k.workspaceID, &k.webhookID, &p); err != nil {
			return nil, fmt.Errorf("read what was sent before: %w", err)
		}
		if sent[k] == nil {
			sent[k] = map[int64]struct{}{}
		}
		sent[k][p] = struct{}{}
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("read what was sent before: %w", err)
	}
	return sent, nil
}

// cancelChunk bounds what one statement cancels.
const cancelChunk = 5000

// cancelVoid cancels what waits under an older epoch of a webhook.
func (r *rows) cancelVoid(ctx context.Context, k key) error {
	for {
		var n int
		err := r.pool.QueryRow(ctx, `SELECT webhook_cancel($1, $2, $3)`, k.workspaceID, k.webhookID, cancelChunk).Scan(&n)
		if err != nil {
			return fmt.Errorf("cancel the waiting deliveries of %s: %w", k.webhookID, err)
		}
		if n < cancelChunk {
			return nil
		}
	}
}
