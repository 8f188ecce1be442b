package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
)

// record writes a record and then releases webhooks. It tries again until the record is written or
// the lease has ended, because the result of an attempt must not be lost when the database is away.
// It returns parts that another transaction has locked to the scheduler, which has them written
// apart.
func (d *Dispatcher) record(ctx context.Context, r *scheduler.Record) {
	var locked []*scheduler.Record
	defer func() { d.post(scheduler.Recorded{Record: r, Locked: locked}) }()
	rest := []*scheduler.Record{r}
	for wait := retryPause; ; wait = min(2*wait, maxRetryPause) {
		var waiting []*scheduler.Record
		var err error
		rest, waiting, err = d.writeParts(ctx, rest)
		if !r.Apart {
			locked = append(locked, waiting...)
		} else {
			rest = append(rest, waiting...)
		}
		switch {
		case len(rest) == 0:
			return
		case leaseIsOver(err):
			d.logger.WarnContext(ctx, "the lease was over before attempts could be recorded; they are made again by the processes that take over", "attempts", len(r.Attempts))
			d.post(scheduler.LeaseLost{Lease: r.Lease})
			return
		case ctx.Err() != nil:
			return
		}
		d.logger.WarnContext(ctx, "cannot record attempts; trying again", "attempts", len(r.Attempts), "error", err, "retry_in", wait)
		flow.Sleep(ctx, wait)
	}
}

// writersApart is how many parts of a record are written concurrently.
const writersApart = 4

// writeParts writes parts of a record, each in a transaction of its own. It splits a part of
// several webhooks if one of them is locked. It returns the parts that could not be written, with
// the error of one of them, and the parts of single webhooks that are locked.
func (d *Dispatcher) writeParts(ctx context.Context, parts []*scheduler.Record) (failed, locked []*scheduler.Record, err error) {
	if len(parts) == 1 {
		err = d.writePart(ctx, parts[0])
		if err == nil {
			return nil, nil, nil
		}
		if !pg.Locked(err) {
			return parts, nil, err
		}
		if parts[0].Apart {
			return nil, parts, err
		}
		parts = parts[0].Split()
	}
	return writeEach(ctx, d, parts)
}

// writeEach writes parts of single webhooks concurrently.
func writeEach(ctx context.Context, d *Dispatcher, parts []*scheduler.Record) (failed, locked []*scheduler.Record, err error) {
	errs := make([]error, len(parts))
	var group errgroup.Group
	group.SetLimit(writersApart)
	for i, p := range parts {
		group.Go(func() error {
			errs[i] = d.writePart(ctx, p)
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	for i, p := range parts {
		switch {
		case errs[i] == nil:
		case pg.Locked(errs[i]):
			locked = append(locked, p)
		default:
			failed, err = append(failed, p), errs[i]
		}
	}
	return failed, locked, err
}

// writePart writes a part of a record and releases its webhooks.
func (d *Dispatcher) writePart(ctx context.Context, r *scheduler.Record) error {
	err := d.store.record(ctx, r, d.clock(), func(b *pgx.Batch) { d.queueWarnings(b, r.Changes) })
	if err != nil {
		return err
	}
	countAttempts(d.rollups, r.Attempts)
	d.release(ctx, r.Lease, r.Releases)
	return nil
}

// countAttempts counts recorded attempts by interval.
func countAttempts(w *rollup.Writer, attempts []scheduler.AttemptRecord) {
	for i := range attempts {
		a := &attempts[i]
		w.AddAttempt(&rollup.Attempt{
			At: a.Result.At, WorkspaceID: a.Key.WorkspaceID, WebhookID: a.Key.WebhookID, Outcome: string(a.Result.Outcome), Duration: a.Result.Duration,
		})
	}
}

// release releases webhooks. A webhook that another transaction has locked stays held under the
// lease until a renewal finds it.
func (d *Dispatcher) release(ctx context.Context, lease string, releases []scheduler.CursorRecord) {
	if len(releases) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err := d.store.release(limited, lease, releases, d.clock())
	switch {
	case err == nil || ctx.Err() != nil:
	case pg.Locked(err) && len(releases) > 1:
		for i := range releases {
			d.release(ctx, lease, releases[i:i+1])
		}
	case pg.Locked(err):
		d.logger.WarnContext(ctx, "cannot release a webhook, because another transaction has locked its row; trying again at the next renewal of the lease",
			"webhook", releases[0].Key.WebhookID)
	default:
		d.logger.WarnContext(ctx, "cannot release webhooks; taking a new lease frees them", "webhooks", len(releases), "error", err)
		d.post(scheduler.LeaseLost{Lease: lease})
	}
}

// record writes all parts of a record, and what more queues, in one round trip and one transaction.
// Repeating it after an error is safe: a first attempt that is stored already is not stored again,
// and a later attempt is added only if the right number came before it. The error satisfies
// leaseIsOver if nothing was written because the lease has ended or the clock is wrong, and pg.Locked
// if a row was locked.
func (s *store) record(ctx context.Context, r *scheduler.Record, now time.Time, more func(*pgx.Batch)) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	b := &pgx.Batch{}
	b.Queue(`SELECT webhook_lease(CASE WHEN `+eventlog.RightClock("$3")+` THEN $1 ELSE '' END), set_config('lock_timeout', $2, true)`, r.Lease, pg.Milliseconds(lockTimeout), now)
	queueAttempts(b, r.Attempts, now)
	queueCursors(b, r.Lease, r.Cursors)
	queueHealth(b, r.Health)
	more(b)
	if b.Len() == 1 {
		return nil // only releases
	}
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("record attempts: %w", err)
	}
	return nil
}

// queueAttempts adds first attempts to the history as new deliveries, adds later ones to their
// delivery, and stores pending deliveries for their next attempt.
func queueAttempts(b *pgx.Batch, attempts []scheduler.AttemptRecord, now time.Time) {
	var first, pending []scheduler.AttemptRecord
	for i := range attempts {
		a := &attempts[i]
		if a.State == policy.Pending {
			pending = append(pending, *a)
		}
		if a.Number == 1 {
			first = append(first, *a)
			continue
		}
		queueLaterAttempt(b, a)
	}
	if len(first) > 0 {
		queueFirstAttempts(b, first)
	}
	if len(pending) > 0 {
		queuePending(b, pending, now)
	}
}

func queueFirstAttempts(b *pgx.Batch, list []scheduler.AttemptRecord) {
	var (
		n                = len(list)
		ws, hs           = make([]string, n), make([]string, n)
		positions        = make([]int64, n)
		created          = make([]time.Time, n)
		ids, types       = make([]string, n), make([]string, n)
		states, attempts = make([]string, n), make([]string, n)
		next             = make([]*time.Time, n)
	)
	for i := range list {
		a := &list[i]
		ws[i], hs[i], positions[i], created[i], ids[i], types[i] = a.Key.WorkspaceID, a.Key.WebhookID, a.Position, a.CreatedAt, a.EventID, a.EventType
		states[i], attempts[i], next[i] = string(a.State), string(a.Result.AppendJSON(nil)), nextOf(a)
	}
	b.Queue(`
		INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, next_attempt_at, attempts)
		SELECT w, h, position, created_at, event_id, event_type, state, next, jsonb_build_array(attempt::jsonb)
		  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::timestamptz[], $9::text[])
		       AS a (w, h, position, created_at, event_id, event_type, state, next, attempt)
		    ON CONFLICT DO NOTHING`, ws, hs, positions, created, ids, types, states, next, attempts)
}

// nextOf returns the time of the next attempt; nil: there is none.
func nextOf(a *scheduler.AttemptRecord) *time.Time {
	if a.State != policy.Pending {
		return nil
	}
	return &a.Next
}

// queueLaterAttempt queues a statement for each attempt, because one for all of them would search
// every day's partition of the history.
func queueLaterAttempt(b *pgx.Batch, a *scheduler.AttemptRecord) {
	b.Queue(`
		UPDATE webhook_delivery
		   SET state = $5, next_attempt_at = $6, attempts = attempts || $7::jsonb
		 WHERE workspace_id = $1 AND webhook_id = $2 AND position = $3 AND created_at = $4 AND jsonb_array_length(attempts) = $8`,
		a.Key.WorkspaceID, a.Key.WebhookID, a.Position, a.CreatedAt,
		string(a.State), nextOf(a), string(a.Result.AppendJSON(nil)), a.Number-1)
	if a.State != policy.Pending {
		// A one-value range uses the key's index, see PoolSettings. A DELETE has no ORDER BY, so it
		// finds the row by ctid, which the lock keeps.
		b.Queue(`
			SELECT 1 FROM webhook_waiting q
			 WHERE q.workspace_id = $1 AND q.webhook_id = $2 AND q.position >= $3 AND q.position <= $3 AND q.attempts < $4 ORDER BY q.position FOR UPDATE`,
			a.Key.WorkspaceID, a.Key.WebhookID, a.Position, a.Number)
		b.Queue(`
			DELETE FROM webhook_waiting WHERE ctid = ANY (ARRAY(
			       SELECT q.ctid FROM webhook_waiting q
			        WHERE q.workspace_id = $1 AND q.webhook_id = $2 AND q.position >= $3 AND q.position <= $3 AND q.attempts < $4 ORDER BY q.position))`,
			a.Key.WorkspaceID, a.Key.WebhookID, a.Position, a.Number)
	}
}

// queuePending makes each delivery wait for its next attempt. If it was sent to an address that the
// webhook no longer has, it is due at once. The statement locks the webhook's row before it reads
// it, so that it sees a change of the address, or the change finds the row that it writes.
func queuePending(b *pgx.Batch, list []scheduler.AttemptRecord, now time.Time) {
	var (
		n             = len(list)
		ws, hs        = make([]string, n), make([]string, n)
		positions     = make([]int64, n)
		created, next = make([]time.Time, n), make([]time.Time, n)
		made, before  = make([]int, n), make([]int, n)
		epochs        = make([]int, n)
		addresses     = make([]int, n)
	)
	for i := range list {
		a := &list[i]
		addresses[i] = a.AddressVersion
		ws[i], hs[i], positions[i], created[i], next[i] = a.Key.WorkspaceID, a.Key.WebhookID, a.Position, a.CreatedAt, a.Next
		made[i], before[i], epochs[i] = a.Number, a.Before, a.Epoch
	}
	b.Queue(`
		WITH w AS MATERIALIZED (
		    SELECT w.workspace_id, w.webhook_id, w.url_version
		      FROM (SELECT DISTINCT k.w, k.h FROM unnest($1::text[], $2::text[]) AS k (w, h)) k
		      JOIN webhook w ON w.workspace_id = k.w AND w.webhook_id = k.h
		       FOR SHARE OF w)
		INSERT INTO webhook_waiting AS q (workspace_id, webhook_id, position, created_at, attempts, before, next_attempt_at, epoch)
		SELECT a.w, a.h, a.position, a.created_at, a.made, a.before, CASE WHEN a.address = w.url_version THEN a.next ELSE least(a.next, $10) END, a.epoch
		  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[], $5::integer[], $6::integer[], $7::timestamptz[], $8::integer[], $9::integer[])
		       AS a (w, h, position, created_at, made, before, next, epoch, address)
		  JOIN w ON w.workspace_id = a.w AND w.webhook_id = a.h
		    ON CONFLICT (workspace_id, webhook_id, position) DO UPDATE
		       SET attempts = excluded.attempts, before = excluded.before, next_attempt_at = excluded.next_attempt_at, once = false, epoch = excluded.epoch
		     WHERE q.attempts < excluded.attempts`, ws, hs, positions, created, made, before, next, epochs, addresses, now)
}

func queueCursors(b *pgx.Batch, lease string, list []scheduler.CursorRecord) {
	if len(list) > 0 {
		b.Queue(moveCursors(``, ` AND w.epoch = m.epoch`), cursorArguments(lease, list)...)
	}
}

// moveCursors is an UPDATE of cursors with the cursorArguments that also makes other assignments and
// has further conditions. Moving a cursor again does nothing, and so counts nothing again. The
// comparison of the holder uses no index on purpose: a process may hold many webhooks, which would be
// read for each row.
func moveCursors(assignments, conditions string) string {
	return `
		UPDATE webhook_cursor c
		   SET ` + assignments + `expired = c.expired + CASE WHEN w.epoch = m.epoch AND m.position > c.position THEN m.expired ELSE 0 END
		               + CASE WHEN w.version = m.version AND m.replayed > c.replay_position THEN m.replay_expired ELSE 0 END,
		       position = CASE WHEN w.epoch = m.epoch THEN greatest(c.position, m.position) ELSE c.position END,
		       replay_position = CASE WHEN w.version <> m.version OR m.replayed = 0 THEN c.replay_position
		                              WHEN m.replayed < c.replay_until THEN m.replayed END,
		       replay_until = CASE WHEN w.version = m.version AND m.replayed > 0 AND m.replayed >= c.replay_until THEN NULL ELSE c.replay_until END
		  FROM unnest($2::text[], $3::text[], $4::integer[], $5::integer[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
		       AS m (w, h, epoch, version, position, replayed, expired, replay_expired)
		  JOIN webhook w ON w.workspace_id = m.w AND w.webhook_id = m.h
		 WHERE c.workspace_id = m.w AND c.webhook_id = m.h AND c.holder IS NOT DISTINCT FROM $1` + conditions
}

func cursorArguments(lease string, list []scheduler.CursorRecord) []any {
	var (
		n                      = len(list)
		ws, hs                 = make([]string, n), make([]string, n)
		epochs, versions       = make([]int, n), make([]int, n)
		positions, replayed    = make([]int64, n), make([]int64, n)
		expired, replayExpired = make([]int64, n), make([]int64, n)
	)
	for i := range list {
		c := &list[i]
		ws[i], hs[i], epochs[i], versions[i], positions[i], replayed[i] = c.Key.WorkspaceID, c.Key.WebhookID, c.Epoch, c.Version, c.Position, c.Replayed
		expired[i], replayExpired[i] = c.Expired, c.ReplayExpired
	}
	return []any{lease, ws, hs, epochs, versions, positions, replayed, expired, replayExpired}
}

func queueHealth(b *pgx.Batch, list []scheduler.HealthRecord) {
	if len(list) == 0 {
		return
	}
	var (
		n              = len(list)
		ws, hs         = make([]string, n), make([]string, n)
		epochs, warned = make([]int, n), make([]int, n)
		since          = make([]*time.Time, n)
		memories       = make([]string, n)
		addresses      = make([]int, n)
	)
	for i := range list {
		h := &list[i]
		ws[i], hs[i], epochs[i], warned[i], memories[i] = h.Key.WorkspaceID, h.Key.WebhookID, h.Epoch, h.Health.Warned, memoryJSON(&h.Health.Memory)
		addresses[i] = h.AddressVersion
		if !h.Health.FailingSince.IsZero() {
			since[i] = &h.Health.FailingSince
		}
	}
	b.Queue(`
		UPDATE webhook w SET failing_since = f.since, failures = f.memory::jsonb, warned = f.warned
		  FROM unnest($1::text[], $2::text[], $3::integer[], $4::timestamptz[], $5::text[], $6::integer[], $7::integer[]) AS f (w, h, epoch, since, memory, warned, address)
		 WHERE w.workspace_id = f.w AND w.webhook_id = f.h AND w.epoch = f.epoch AND w.url_version = f.address`, ws, hs, epochs, since, memories, warned, addresses)
}

// memoryJSON returns what the rules for turning a webhook off remember, as its row stores it.
func memoryJSON(m *policy.Memory) string {
	text, err := json.Marshal(m)
	if err != nil {
		return "{}" // cannot happen: every Memory has a JSON form
	}
	return string(text)
}
