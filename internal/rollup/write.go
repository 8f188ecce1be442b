package rollup

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// sumLatency adds two arrays element by element. A count stops at the largest integer.
const sumLatency = `ARRAY(SELECT least(coalesce(x, 0)::bigint + coalesce(y, 0), 2147483647)::integer
	FROM unnest(t.latency, excluded.latency) WITH ORDINALITY AS u (x, y, i) ORDER BY i)`

// write adds counts to the rows in one transaction. Every statement changes its rows in the order
// of their key, and every transaction runs its statements in the same order, so that no two
// processes deadlock. pg.Locked tells whether the error means that a row was locked.
func write(ctx context.Context, pool pg.DB, workspaces map[string]*cells) error {
	b := &pgx.Batch{}
	queueRequests(b, workspaces)
	queueKeys(b, workspaces)
	queueAttempts(b, workspaces)
	if b.Len() == 0 {
		return nil
	}
	err := pg.InLimitedTx(ctx, pool, lockTimeout, func(tx pgx.Tx) error {
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return fmt.Errorf("write counts by interval: %w", err)
	}
	return nil
}

func queueRequests(b *pgx.Batch, workspaces map[string]*cells) {
	var (
		ids, routes, latencies []string
		steps, classes         []int16
		times                  []time.Time
		counts                 []int64
	)
	for id, c := range workspaces {
		for cell, t := range c.requests {
			ids, steps, times = append(ids, id), append(steps, int16(cell.step)), append(times, cell.at)
			routes, classes = append(routes, cell.routeClass), append(classes, cell.statusClass)
			counts, latencies = append(counts, t.n), append(latencies, t.latency.array())
		}
	}
	if len(ids) == 0 {
		return
	}
	b.Queue(`
		INSERT INTO request_rollup AS t (workspace_id, step, at, route_class, status_class, requests, latency)
		SELECT w, s, a, r, c, n, l::integer[]
		  FROM unnest($1::text[], $2::smallint[], $3::timestamptz[], $4::text[], $5::smallint[], $6::bigint[], $7::text[]) AS u (w, s, a, r, c, n, l)
		 ORDER BY w COLLATE "C", s, a, r COLLATE "C", c
		    ON CONFLICT (workspace_id, step, at, route_class, status_class) DO UPDATE
		       SET requests = t.requests + excluded.requests, latency = `+sumLatency,
		ids, steps, times, routes, classes, counts, latencies)
}

func queueAttempts(b *pgx.Batch, workspaces map[string]*cells) {
	var (
		ids, webhooks, outcomes, latencies []string
		steps                              []int16
		times                              []time.Time
		counts                             []int64
	)
	for id, c := range workspaces {
		for cell, t := range c.attempts {
			ids, steps, times = append(ids, id), append(steps, int16(cell.step)), append(times, cell.at)
			webhooks, outcomes = append(webhooks, cell.webhookID), append(outcomes, cell.outcome)
			counts, latencies = append(counts, t.n), append(latencies, t.latency.array())
		}
	}
	if len(ids) == 0 {
		return
	}
	b.Queue(`
		INSERT INTO attempt_rollup AS t (workspace_id, step, at, webhook_id, outcome, attempts, latency)
		SELECT w, s, a, h, o, n, l::integer[]
		  FROM unnest($1::text[], $2::smallint[], $3::timestamptz[], $4::text[], $5::text[], $6::bigint[], $7::text[]) AS u (w, s, a, h, o, n, l)
		 ORDER BY w COLLATE "C", s, a, h COLLATE "C", o COLLATE "C"
		    ON CONFLICT (workspace_id, step, at, webhook_id, outcome) DO UPDATE
		       SET attempts = t.attempts + excluded.attempts, latency = `+sumLatency,
		ids, steps, times, webhooks, outcomes, counts, latencies)
}

// queueKeys writes the minutes first. They include the counts of all processes and so give the peak
// of the hour.
func queueKeys(b *pgx.Batch, workspaces map[string]*cells) {
	var (
		ids, keys                                                  []string
		times                                                      []time.Time
		requests, clientErrors, serverErrors, rateLimited, refused []int64
	)
	for id, c := range workspaces {
		for cell, k := range c.keys {
			ids, times, keys = append(ids, id), append(times, cell.at), append(keys, cell.keyID)
			requests, clientErrors = append(requests, k.requests), append(clientErrors, k.clientErrors)
			serverErrors, rateLimited = append(serverErrors, k.serverErrors), append(rateLimited, k.rateLimited)
			refused = append(refused, k.refused)
		}
	}
	if len(ids) == 0 {
		return
	}
	const add = `ON CONFLICT (workspace_id, step, at, key_id) DO UPDATE
		       SET requests = t.requests + excluded.requests, client_errors = t.client_errors + excluded.client_errors,
		           server_errors = t.server_errors + excluded.server_errors, rate_limited = t.rate_limited + excluded.rate_limited,
		           refused = t.refused + excluded.refused, `
	b.Queue(`
		WITH added AS (
			SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]) AS u (w, a, k, n, c, s, r, f)
		), minutes AS (
			INSERT INTO key_rollup AS t (workspace_id, step, at, key_id, requests, client_errors, server_errors, rate_limited, refused, peak)
			SELECT w, 1, a, k, n, c, s, r, f, n FROM added ORDER BY w COLLATE "C", a, k COLLATE "C"
			    `+add+`peak = t.requests + excluded.requests
			RETURNING workspace_id, at, key_id, peak
		)
		INSERT INTO key_rollup AS t (workspace_id, step, at, key_id, requests, client_errors, server_errors, rate_limited, refused, peak)
		SELECT m.workspace_id, 60, date_bin('1 hour', m.at, 'epoch'), m.key_id, sum(n), sum(c), sum(s), sum(r), sum(f), max(m.peak)
		  FROM minutes m JOIN added ON w = m.workspace_id AND a = m.at AND k = m.key_id
		 GROUP BY 1, 3, 4 ORDER BY 1, 3, 4
		    `+add+`peak = greatest(t.peak, excluded.peak)`,
		ids, times, keys, requests, clientErrors, serverErrors, rateLimited, refused)
}

// removeAtOnce is the most rows that one statement of RemoveOld deletes.
const removeAtOnce = 5000

// RemoveOld deletes counts that are no longer kept. It leaves rows that another transaction has
// locked for the next time. pg.Locked tells whether the error means that a whole table was locked.
func RemoveOld(ctx context.Context, pool pg.DB, now time.Time) error {
	for _, table := range []string{"request_rollup", "key_rollup", "attempt_rollup", "event_rollup"} {
		for step, before := range map[Step]time.Time{Minute: now.Add(-minuteRetention), Hour: now.Add(-hourRetention)} {
			for deleted := int64(removeAtOnce); deleted == removeAtOnce; {
				err := pg.InLimitedTx(ctx, pool, lockTimeout, func(tx pgx.Tx) error {
					tag, err := tx.Exec(ctx, `
						DELETE FROM `+table+` WHERE ctid = ANY (ARRAY(
						       SELECT ctid FROM `+table+` WHERE step = $1 AND at < $2 LIMIT $3 FOR UPDATE SKIP LOCKED))`, step, before, removeAtOnce)
					if err != nil {
						return fmt.Errorf("delete old counts of %s: %w", table, err)
					}
					deleted = tag.RowsAffected()
					return nil
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}
