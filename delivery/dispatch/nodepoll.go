package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// pollByNode is poll on a cluster. Webhooks of a node that could not be asked are left unread.
func pollByNode(ctx context.Context, s *store, p *scheduler.Poll, now time.Time) (polled scheduler.Polled, err error) {
	byWorkspace := map[string][]int{} // requests
	var workspaces []string
	for i := range p.Requests {
		w := p.Requests[i].Key.WorkspaceID
		if byWorkspace[w] == nil {
			workspaces = append(workspaces, w)
		}
		byWorkspace[w] = append(byWorkspace[w], i)
	}
	polled = scheduler.Polled{Poll: p, Results: make([]scheduler.PollResult, len(p.Requests)), Changed: map[scheduler.Key]*scheduler.Loaded{}}
	for i := range polled.Results {
		polled.Results[i].Unread = true
	}
	var mu sync.Mutex
	failures, err := s.nodes.Each(ctx, workspaces, func(ctx context.Context, workspaces []string) error {
		var (
			here  scheduler.Poll
			which []int
		)
		for _, w := range workspaces {
			for _, i := range byWorkspace[w] {
				here.Requests, which = append(here.Requests, p.Requests[i]), append(which, i)
			}
		}
		part, err := pollAll(ctx, s, &here, now)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for n, i := range which {
			polled.Results[i] = part.Results[n]
		}
		for k, changed := range part.Changed {
			polled.Changed[k] = changed
		}
		return nil
	})
	for i := range failures {
		if !pg.NodeAway(failures[i].Err) {
			err = errors.Join(err, failures[i].Err)
		}
	}
	return polled, err
}

// dueOneSQL is of webhook $2 in workspace $1, after position $3: at most $4 entries of the log,
// of the next $7 positions, and $5 deliveries whose retry is due at $6.
const dueOneSQL = `
	(SELECT 10, v.position, '', '', '', now(), w.version, 0, false, (
	        SELECT min(q.next_attempt_at) FROM webhook_waiting q
	         WHERE q.workspace_id = $1 AND q.webhook_id = $2 AND q.next_attempt_at > $6)
	   FROM webhook w JOIN log_checkpoint v ON v.workspace_id = $1 AND v.consumer = 'read_models'
	  WHERE w.workspace_id = $1 AND w.webhook_id = $2)
	UNION ALL
	(SELECT 0, e.position, e.id, e.type, e.public_event, e.created_at, 0, 0, false, NULL::timestamptz
	   FROM webhook w
	   JOIN log_checkpoint v ON v.workspace_id = $1 AND v.consumer = 'read_models'
	   JOIN event_log e ON e.workspace_id = $1 AND e.position > $3 AND e.position <= least(v.position, $3::bigint + $7::bigint) AND e.public_event IS NOT NULL
	    AND CASE WHEN e.type = 'test.ping' THEN e.data->>'webhook_id' = $2
	             ELSE w.events IS NULL OR e.type = ANY (w.events) END
	  WHERE w.workspace_id = $1 AND w.webhook_id = $2 AND $4 > 0
	  ORDER BY e.position LIMIT $4::integer)
	UNION ALL
	(SELECT 1, q.position, e.id, e.type, e.public_event, e.created_at, q.attempts, q.before, q.once, q.created_at
	   FROM webhook w
	   JOIN webhook_waiting q ON q.workspace_id = $1 AND q.webhook_id = $2 AND q.next_attempt_at <= $6
	    AND q.epoch >= CASE WHEN w.state = 'on' THEN ` + KeptEpoch + ` ELSE w.epoch END
	   JOIN event_log e ON e.workspace_id = $1 AND e.position = q.position
	  WHERE w.workspace_id = $1 AND w.webhook_id = $2 AND $5 > 0
	  ORDER BY q.next_attempt_at LIMIT $5::integer)`

// readDueByOne is readDueMany: a statement for each webhook, in one round trip.
func readDueByOne(ctx context.Context, s *store, requests []scheduler.PollRequest, answers []scheduler.PollResult, versions []int, now time.Time) error {
	b := &pgx.Batch{}
	for i := range requests {
		r := &requests[i]
		b.Queue(dueOneSQL, r.Key.WorkspaceID, r.Key.WebhookID, r.After, r.LiveLimit, r.RetryLimit, now, int64(logWindow)).Query(func(rows pgx.Rows) error {
			return scanDueOne(rows, &answers[i], &versions[i])
		})
	}
	return s.pool.SendBatch(ctx, b).Close()
}

func scanDueOne(rows pgx.Rows, a *scheduler.PollResult, version *int) error {
	for rows.Next() {
		var (
			kind int
			m    scheduler.Attempt
			at   *time.Time
		)
		if err := rows.Scan(&kind, &m.Position, &m.EventID, &m.EventType, &m.Body, &m.Published, &m.Made, &m.Before, &m.Once, &at); err != nil {
			return err
		}
		if addDue(kind, &m, at, a) {
			*version = m.Made
		}
	}
	return rows.Err()
}

// sweepOnCluster is sweep: of all nodes, or, while one is away, of those of the others.
func sweepOnCluster(ctx context.Context, s *store, lease string, now time.Time) (found []scheduler.Candidate, outdated []scheduler.Key, err error) {
	var mu sync.Mutex
	err = s.nodes.Everywhere(ctx, func(ctx context.Context, workspaces []string) error {
		over, err := leasesOver(ctx, s.pool, workspaces)
		if err != nil {
			return err
		}
		rows, err := s.pool.Query(ctx, sweepPartSQL(workspaces), append([]any{now, lease, over}, argsOf(workspaces)...)...)
		if err != nil {
			return fmt.Errorf("search for webhooks with something to do: %w", err)
		}
		some, err := pgx.CollectRows(rows, scanCandidate)
		if err != nil {
			return fmt.Errorf("search for webhooks with something to do: %w", err)
		}
		off, err := s.keys(ctx, "search for deliveries to cancel", outdatedPartSQL(workspaces), argsOf(workspaces)...)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		found, outdated = append(found, some...), append(outdated, off...)
		return nil
	})
	return found, outdated, err
}

// sweepPartSQL is the search of a sweep among workspaces, where $3 are the leases that are over.
func sweepPartSQL(workspaces []string) string {
	here := func(tables ...string) string { return among("$4", workspaces, tables...) }
	return `
		SELECT workspace_id, webhook_id, max(visible) FROM (
		       SELECT c.workspace_id, c.webhook_id, v.position AS visible FROM webhook_cursor c
		         JOIN webhook w ON w.workspace_id = c.workspace_id AND w.webhook_id = c.webhook_id AND w.state = 'on'
		         JOIN log_checkpoint v ON v.workspace_id = c.workspace_id AND v.consumer = 'read_models'
		        WHERE (v.position > c.position OR c.replay_until IS NOT NULL) AND (c.holder = $2 OR ` + freeOf + `)` + here("c", "w", "v") + `
		       UNION ALL
		       SELECT c.workspace_id, c.webhook_id, 0 FROM webhook_cursor c
		         JOIN webhook w ON w.workspace_id = c.workspace_id AND w.webhook_id = c.webhook_id AND w.state = 'paused'
		        WHERE c.holder = $2` + here("c", "w") + `
		       UNION ALL
		       SELECT c.workspace_id, c.webhook_id, 0
		         FROM (SELECT DISTINCT q.workspace_id, q.webhook_id, q.epoch FROM webhook_waiting q WHERE q.next_attempt_at <= $1` + here("q") + `) q
		         JOIN webhook_cursor c ON c.workspace_id = q.workspace_id AND c.webhook_id = q.webhook_id
		         JOIN webhook w ON w.workspace_id = c.workspace_id AND w.webhook_id = c.webhook_id AND (w.state = 'on' OR w.epoch = q.epoch)
		        WHERE (c.holder = $2 OR ` + freeOf + `)` + here("c", "w") + `) AS f
		 GROUP BY workspace_id, webhook_id`
}

// outdatedPartSQL finds, among workspaces, webhooks that are off and have deliveries to cancel.
func outdatedPartSQL(workspaces []string) string {
	return `
		SELECT DISTINCT w.workspace_id, w.webhook_id FROM webhook w
		  JOIN webhook_waiting q ON q.workspace_id = w.workspace_id AND q.webhook_id = w.webhook_id AND q.epoch < w.epoch
		 WHERE w.state = 'off'` + among("$1", workspaces, "w", "q")
}
