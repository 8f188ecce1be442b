package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

const (
	// A webhook that chose rare types skips many entries. logWindow and missedWindow bound how many
	// one statement examines, so that it does not delay others. Missed events also need a lookup in
	// the history each.
	logWindow    = 50_000
	missedWindow = 4_000
)

// poll reads what to send to webhooks, and the settings of webhooks that were changed.
func (d *Dispatcher) poll(ctx context.Context, p *scheduler.Poll) scheduler.Event {
	limited, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	polled, err := d.store.poll(limited, p, d.clock())
	if err != nil {
		if ctx.Err() == nil {
			d.outages.reading.LogTransition(ctx, err)
		}
		flow.Sleep(ctx, retryPause)
		return scheduler.PollFailed{Poll: p}
	}
	d.outages.reading.LogTransition(ctx, nil)
	if d.cfg.Tracer != nil {
		if err := d.store.readTraces(limited, &polled); err != nil {
			d.logger.DebugContext(ctx, "cannot read the traces of appends; attempts have traces of their own", "error", err)
		}
	}
	return polled
}

// poll reads what to send to webhooks.
func (s *store) poll(ctx context.Context, p *scheduler.Poll, now time.Time) (polled scheduler.Polled, err error) {
	answers, versions, err := s.readDue(ctx, p.Requests, now)
	if err != nil {
		return polled, fmt.Errorf("read what is due: %w", err)
	}
	polled = scheduler.Polled{Poll: p, Results: answers}
	var changed []scheduler.Key
	for i := range answers {
		if answers[i].Found && versions[i] != p.Requests[i].Version {
			changed = append(changed, p.Requests[i].Key)
		}
	}
	if len(changed) > 0 {
		loaded, err := s.load(ctx, changed)
		if err != nil {
			return polled, err
		}
		polled.Changed = make(map[scheduler.Key]*scheduler.Loaded, len(loaded))
		for i := range loaded {
			polled.Changed[loaded[i].Key] = &loaded[i].Loaded
		}
	}
	for i := range p.Requests {
		r, a := &p.Requests[i], &answers[i]
		if r.ReplayTo == 0 || r.ReplayLimit == 0 || polled.Changed[r.Key] != nil || !a.Found {
			continue
		}
		if a.Attempts[scheduler.Replay], a.ReplayTo, err = s.readMissed(ctx, r); err != nil {
			return polled, fmt.Errorf("read missed events of %s: %w", r.Key.WebhookID, err)
		}
	}
	return polled, nil
}

// rowState marks the one row per webhook that is not a message. Other rows have their
// scheduler.Source in that column.
const rowState = 10

const dueSQL = `
	WITH k AS MATERIALIZED (
	    SELECT k.n, k.w, k.h, k.after, k.live_limit, k.retry_limit, w.version, v.position AS visible,
	           w.events, CASE WHEN w.state = 'on' THEN ` + KeptEpoch + ` ELSE w.epoch END AS since
	      FROM unnest($1::text[], $2::text[], $3::bigint[], $4::integer[], $5::integer[])
	           WITH ORDINALITY AS k (w, h, after, live_limit, retry_limit, n)
	      JOIN webhook w ON w.workspace_id = k.w AND w.webhook_id = k.h
	      JOIN log_checkpoint v ON v.workspace_id = k.w AND v.consumer = 'read_models')
	SELECT k.n, 10, k.visible, '', '', '', now(), k.version, 0, false, (
	           SELECT q.next_attempt_at FROM webhook_waiting q
	            WHERE q.workspace_id = k.w AND q.webhook_id BETWEEN k.h AND k.h AND q.next_attempt_at > $6
	            ORDER BY q.webhook_id, q.next_attempt_at LIMIT 1)
	  FROM k
	UNION ALL
	SELECT k.n, 0, e.position, e.id, e.type, e.public_event, e.created_at, 0, 0, false, NULL
	  FROM k CROSS JOIN LATERAL (
	       SELECT e.position, e.id, e.type, e.public_event, e.created_at FROM event_log e
	        WHERE e.workspace_id = k.w AND e.position > k.after AND e.position <= least(k.visible, k.after + $7) AND e.public_event IS NOT NULL
	          AND CASE WHEN e.type = 'test.ping' THEN e.data->>'webhook_id' = k.h
	                   ELSE k.events IS NULL OR e.type = ANY (k.events) END
	        ORDER BY e.position LIMIT k.live_limit) AS e
	 WHERE k.live_limit > 0
	UNION ALL
	SELECT k.n, 1, q.position, e.id, e.type, e.public_event, e.created_at, q.attempts, q.before, q.once, q.created_at
	  FROM k CROSS JOIN LATERAL (
	       SELECT * FROM webhook_waiting q
	        WHERE q.workspace_id = k.w AND q.webhook_id BETWEEN k.h AND k.h AND q.next_attempt_at <= $6 AND q.epoch >= k.since
	        ORDER BY q.webhook_id, q.next_attempt_at LIMIT k.retry_limit) AS q
	 CROSS JOIN LATERAL (
	       SELECT e.id, e.type, e.public_event, e.created_at FROM event_log e
	        WHERE e.workspace_id = k.w AND e.position >= q.position AND e.position <= q.position ORDER BY e.position) AS e
	 WHERE k.retry_limit > 0`

// readDue reads, for many webhooks at once, the next entries of the log up to the visible position
// and the deliveries whose retry is due. It also returns the version of each webhook's settings.
func (s *store) readDue(ctx context.Context, requests []scheduler.PollRequest, now time.Time) (answers []scheduler.PollResult, versions []int, err error) {
	var (
		n               = len(requests)
		ws, hs          = make([]string, n), make([]string, n)
		after           = make([]int64, n)
		limits, retries = make([]int, n), make([]int, n)
	)
	for i := range requests {
		r := &requests[i]
		ws[i], hs[i], after[i], limits[i], retries[i] = r.Key.WorkspaceID, r.Key.WebhookID, r.After, r.LiveLimit, r.RetryLimit
	}
	rows, err := s.pool.Query(ctx, dueSQL, ws, hs, after, limits, retries, now, int64(logWindow))
	if err != nil {
		return nil, nil, fmt.Errorf("query: %w", err)
	}
	answers, versions = make([]scheduler.PollResult, n), make([]int, n)
	if err := scanDue(rows, answers, versions); err != nil {
		return nil, nil, err
	}
	for i := range answers {
		a, r := &answers[i], &requests[i]
		live := a.Attempts[scheduler.Live]
		slices.SortFunc(live, func(x, y *scheduler.Attempt) int { return int(x.Position - y.Position) })
		switch {
		case r.LiveLimit == 0:
			a.LiveTo = r.After
		case len(live) >= r.LiveLimit:
			a.LiveTo = live[len(live)-1].Position
		default:
			a.LiveTo = max(min(a.Visible, r.After+logWindow), r.After)
		}
	}
	return answers, versions, nil
}

func scanDue(rows pgx.Rows, answers []scheduler.PollResult, versions []int) error {
	defer rows.Close()
	for rows.Next() {
		var (
			n, kind int
			m       scheduler.Attempt
			at      *time.Time
		)
		err := rows.Scan(&n, &kind, &m.Position, &m.EventID, &m.EventType, &m.Body, &m.Published, &m.Made, &m.Before, &m.Once, &at)
		if err != nil {
			return err
		}
		if addDue(kind, &m, at, &answers[n-1]) {
			versions[n-1] = m.Made
		}
	}
	return rows.Err()
}

// addDue adds a row to the answer of its webhook. It reports whether the row is the webhook itself
// rather than a message.
func addDue(kind int, m *scheduler.Attempt, at *time.Time, a *scheduler.PollResult) (state bool) {
	if kind == rowState {
		a.Found, a.Visible = true, m.Position
		if at != nil {
			a.NextAttempt = *at
		}
		return true
	}
	if at != nil {
		m.CreatedAt = at.UTC()
	}
	a.Attempts[kind] = append(a.Attempts[kind], m)
	return false
}

// chosenSQL is an SQL condition: entry e may be a missed event. It is in workspace $1, has one of
// the types $3 (null: all), and its position is after $4 and at most $5.
const chosenSQL = `e.workspace_id = $1 AND e.position > $4 AND e.position <= $5 AND e.public_event IS NOT NULL
	AND e.type <> 'test.ping' AND ($3::text[] IS NULL OR e.type = ANY ($3))`

// Missed is a range of the log in which a webhook may have missed events.
type Missed struct {
	WorkspaceID, WebhookID string
	Types                  []string // the webhook's event types; nil: all
	After, To              int64    // positions above After, up to To
}

// Count returns how many events "Send missed" sends: those for which no attempt was made. It also
// returns how many deliveries are pending. It reads the range of the log and the range of the deliveries
// once each, whatever the statistics say. A join might not.
func (m *Missed) Count(ctx context.Context, tx pgx.Tx) (n, waiting int64, err error) {
	err = tx.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM event_log e WHERE `+chosenSQL+`)
		     - (SELECT count(DISTINCT d.position) FROM webhook_delivery d
		         WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position > $4 AND d.position <= $5
		           AND d.event_type <> 'test.ping' AND ($3::text[] IS NULL OR d.event_type = ANY ($3))),
		       (SELECT count(*) FROM webhook_waiting q WHERE q.workspace_id = $1 AND q.webhook_id = $2)`,
		m.WorkspaceID, m.WebhookID, m.Types, m.After, m.To).Scan(&n, &waiting)
	return n, waiting, err
}

// readMissed reads the next missed events of a webhook and returns the position that it has read up
// to. Events that have a delivery are not missed, whatever became of it. The statement
// looks up one delivery per event, in key order and with LIMIT 1, so that no statistics make it
// read all deliveries of the webhook for each event.
func (s *store) readMissed(ctx context.Context, r *scheduler.PollRequest) (list []*scheduler.Attempt, to int64, err error) {
	to = min(r.ReplayTo, r.ReplayAfter+missedWindow)
	list, err = pg.Collect(ctx, s.pool, scanMissed, `
		SELECT e.position, e.id, e.type, e.public_event, e.created_at
		  FROM event_log e
		  LEFT JOIN LATERAL (
		       SELECT d.state FROM webhook_delivery d
		        WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position BETWEEN e.position AND e.position
		        ORDER BY d.position DESC, d.created_at DESC LIMIT 1) AS d ON true
		 WHERE `+chosenSQL+` AND d.state IS NULL
		 ORDER BY e.position LIMIT $6`, r.Key.WorkspaceID, r.Key.WebhookID, r.Events, r.ReplayAfter, to, r.ReplayLimit)
	if err != nil {
		return nil, 0, fmt.Errorf("query: %w", err)
	}
	if len(list) == r.ReplayLimit {
		to = list[len(list)-1].Position
	}
	return list, to, nil
}

func scanMissed(row pgx.CollectableRow) (*scheduler.Attempt, error) {
	a := &scheduler.Attempt{}
	err := row.Scan(&a.Position, &a.EventID, &a.EventType, &a.Body, &a.Published)
	return a, err
}
