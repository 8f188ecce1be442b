package delivery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// readAhead is how many messages of a lot are read for a webhook at a time.
	readAhead = 128

	// A webhook that chose rare types steps over many entries. How many one
	// statement looks at is bounded, so that it does not hold others up;
	// missed events cost a look into the history each.
	logWindow    = 50_000
	missedWindow = 4_000
)

// question is what is to be read for a webhook.
type question struct {
	key                 key
	events              []string // nil: all
	after               int64    // read the log after it
	room                int      // at most so many
	retryRoom           int
	replay, replayUntil int64
	replayRoom          int
	lane                *lane
	version             int
}

// answer is what there is for it.
type answer struct {
	found           bool
	version         int
	visible         int64
	nextAttempt     time.Time
	jobs            [lots][]*job
	scanned, replay int64
}

// Kinds of rows that the poll returns.
const (
	rowState = iota + 10
)

const pollSQL = `
	WITH k AS MATERIALIZED (
	    SELECT k.n, k.w, k.h, k.after, k.room, k.retry_room, w.version, w.epoch, v.position AS visible,
	           w.events
	      FROM unnest($1::text[], $2::text[], $3::bigint[], $4::integer[], $5::integer[])
	           WITH ORDINALITY AS k (w, h, after, room, retry_room, n)
	      JOIN webhook w ON w.workspace_id = k.w AND w.webhook_id = k.h
	      JOIN log_checkpoint v ON v.workspace_id = k.w AND v.consumer = 'read_models')
	SELECT k.n, 10, k.visible, '', '', '', now(), k.version, 0, false, (
	           SELECT min(q.next_attempt_at) FROM webhook_waiting q
	            WHERE q.workspace_id = k.w AND q.webhook_id = k.h AND q.next_attempt_at > $6)
	  FROM k
	UNION ALL
	SELECT k.n, 0, e.position, e.id, e.type, e.public_event, e.created_at, 0, 0, false, NULL
	  FROM k CROSS JOIN LATERAL (
	       SELECT e.position, e.id, e.type, e.public_event, e.created_at FROM event_log e
	        WHERE e.workspace_id = k.w AND e.position > k.after AND e.position <= least(k.visible, k.after + $7) AND e.public_event IS NOT NULL
	          AND CASE WHEN e.type = 'test.ping' THEN e.data->>'webhook_id' = k.h
	                   ELSE k.events IS NULL OR e.type = ANY (k.events) END
	        ORDER BY e.position LIMIT k.room) AS e
	 WHERE k.room > 0
	UNION ALL
	SELECT k.n, 1, q.position, e.id, e.type, e.public_event, e.created_at, q.attempts, q.before, q.once, q.created_at
	  FROM k CROSS JOIN LATERAL (
	       SELECT * FROM webhook_waiting q
	        WHERE q.workspace_id = k.w AND q.webhook_id = k.h AND q.next_attempt_at <= $6 AND q.epoch = k.epoch
	        ORDER BY q.next_attempt_at LIMIT k.retry_room) AS q
	  JOIN event_log e ON e.workspace_id = k.w AND e.position = q.position
	 WHERE k.retry_room > 0`

// poll reads for many webhooks at once: the next entries of the log, up to the
// visible position, and the deliveries that are due.
func (r *rows) poll(ctx context.Context, questions []*question, now time.Time) ([]answer, error) {
	var (
		ws, hs        = make([]string, len(questions)), make([]string, len(questions))
		after         = make([]int64, len(questions))
		room, retries = make([]int, len(questions)), make([]int, len(questions))
	)
	for i, q := range questions {
		ws[i], hs[i], after[i], room[i], retries[i] = q.key.workspaceID, q.key.webhookID, q.after, q.room, q.retryRoom
	}
	list, err := r.pool.Query(ctx, pollSQL, ws, hs, after, room, retries, now, int64(logWindow))
	if err != nil {
		return nil, fmt.Errorf("read what is due: %w", err)
	}
	answers := make([]answer, len(questions))
	if err := scanPolled(list, answers); err != nil {
		return nil, fmt.Errorf("read what is due: %w", err)
	}
	for i := range answers {
		a, q := &answers[i], questions[i]
		slices.SortFunc(a.jobs[fresh], func(x, y *job) int { return int(x.position - y.position) })
		a.scanned = max(min(a.visible, q.after+logWindow), q.after)
		if q.room == 0 {
			a.scanned = q.after
		} else if n := len(a.jobs[fresh]); n >= q.room {
			a.scanned = a.jobs[fresh][n-1].position
		}
	}
	return answers, nil
}

func scanPolled(list pgx.Rows, answers []answer) error {
	defer list.Close()
	for list.Next() {
		var (
			n, kind int
			j       job
			at      *time.Time
		)
		err := list.Scan(&n, &kind, &j.position, &j.eventID, &j.eventType, &j.body, &j.published, &j.attempts, &j.before, &j.once, &at)
		if err != nil {
			return err
		}
		a := &answers[n-1]
		if kind == rowState {
			a.found, a.visible, a.version = true, j.position, j.attempts
			if at != nil {
				a.nextAttempt = *at
			}
			continue
		}
		j.lot = lot(kind)
		if at != nil {
			j.made = at.UTC()
		}
		a.jobs[kind] = append(a.jobs[kind], &j)
	}
	return list.Err()
}

// missed reads the next missed events of a webhook: those of its types that
// were neither delivered nor wait to be. One that failed or was cancelled
// before goes on under its old row.
func (r *rows) missed(ctx context.Context, q *question) (jobs []*job, through int64, err error) {
	through = min(q.replayUntil, q.replay+missedWindow)
	list, err := r.pool.Query(ctx, missedSQL+`
		SELECT e.position, e.id, e.type, e.public_event, e.created_at, coalesce(d.attempts, 0), d.created_at FROM e
		  LEFT JOIN LATERAL (
		       SELECT d.created_at, jsonb_array_length(d.attempts) AS attempts FROM webhook_delivery d
		        WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position = e.position
		        ORDER BY d.created_at DESC LIMIT 1) AS d ON true
		 ORDER BY e.position LIMIT $6`,
		q.key.workspaceID, q.key.webhookID, q.events, q.replay, through, q.replayRoom)
	if err != nil {
		return nil, 0, fmt.Errorf("read missed events: %w", err)
	}
	defer list.Close()
	for list.Next() {
		var (
			j    = &job{lot: missed}
			made *time.Time
		)
		if err := list.Scan(&j.position, &j.eventID, &j.eventType, &j.body, &j.published, &j.attempts, &made); err != nil {
			return nil, 0, fmt.Errorf("read missed events: %w", err)
		}
		if made != nil {
			j.made = made.UTC()
		}
		j.before = j.attempts
		jobs = append(jobs, j)
	}
	if err := list.Err(); err != nil {
		return nil, 0, fmt.Errorf("read missed events: %w", err)
	}
	if len(jobs) == q.replayRoom {
		through = jobs[len(jobs)-1].position
	}
	return jobs, through, nil
}

// missedSQL names, as e, the missed events of webhook $2 in workspace $1 among
// the types $3 (null: all) at the positions after $4 through $5.
const missedSQL = `
	WITH e AS NOT MATERIALIZED (
	    SELECT e.* FROM event_log e
	     WHERE e.workspace_id = $1 AND e.position > $4 AND e.position <= $5 AND e.public_event IS NOT NULL
	       AND e.type <> 'test.ping' AND ($3::text[] IS NULL OR e.type = ANY ($3))
	       AND NOT EXISTS (SELECT FROM webhook_delivery d
	                        WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position = e.position
	                          AND d.state IN ('succeeded', 'pending')))`
