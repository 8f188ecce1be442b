package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Quarantine lets operators look at a consumer's failures and end its quarantines. A workspace is
// quarantined where the consumer stopped because it cannot handle an entry. It is safe for
// concurrent use.
type Quarantine struct {
	pool     pg.DB
	consumer string
	clock    func() time.Time
	notify   NotifyFunc
}

// NewQuarantine makes the Quarantine of a consumer, such as ReadModels.
func NewQuarantine(pool pg.DB, consumer string, clock func() time.Time, notify NotifyFunc) *Quarantine {
	return &Quarantine{pool: pool, consumer: consumer, clock: clock, notify: notify}
}

// Consumers returns the names of all consumers that have a checkpoint, sorted.
func Consumers(ctx context.Context, pool pg.DB) ([]string, error) {
	names, err := pg.Collect(ctx, pool, pgx.RowTo[string], `SELECT DISTINCT consumer FROM log_checkpoint ORDER BY consumer`)
	if err != nil {
		return nil, fmt.Errorf("list the consumers: %w", err)
	}
	return names, nil
}

// Failure is one way in which a consumer failed at a segment of a workspace.
type Failure struct {
	From    int64     `json:"from"` // first position of the segment
	Through int64     `json:"through"`
	Error   string    `json:"error"`
	Times   int64     `json:"times"`
	FirstAt time.Time `json:"first_at"`
	LastAt  time.Time `json:"last_at"`
}

// Failures returns the history of the consumer's failures in a workspace, oldest first. The newest
// 50 are kept.
func (q *Quarantine) Failures(ctx context.Context, workspaceID string) ([]Failure, error) {
	list, err := pg.Collect(ctx, q.pool, pgx.RowToStructByPos[Failure], `
		SELECT from_position, through_position, error, times, first_at, last_at
		  FROM log_failure WHERE workspace_id = $1 AND consumer = $2
		 ORDER BY first_at, from_position, through_position DESC`, workspaceID, q.consumer)
	if err != nil {
		return nil, fmt.Errorf("read the failures in %s: %w", workspaceID, err)
	}
	for i := range list {
		list[i].FirstAt, list[i].LastAt = list[i].FirstAt.UTC(), list[i].LastAt.UTC()
	}
	return list, nil
}

// NotQuarantinedError says that a workspace is not quarantined.
type NotQuarantinedError struct{ WorkspaceID string }

// Error names the workspace.
func (e *NotQuarantinedError) Error() string {
	return fmt.Sprintf("workspace %s is not quarantined", e.WorkspaceID)
}

// Retry lets the consumer try a quarantined workspace again at its next sweep. The
// error is a *domain.UnknownWorkspaceError or a *NotQuarantinedError when there is
// nothing to try.
func (q *Quarantine) Retry(ctx context.Context, workspaceID string) error {
	err := pg.InTx(ctx, q.pool, func(tx pgx.Tx) error {
		var (
			position    int64
			quarantined bool
		)
		err := tx.QueryRow(ctx, `
			UPDATE log_checkpoint SET retry_at = CASE WHEN quarantined THEN NULL ELSE retry_at END
			 WHERE workspace_id = $1 AND consumer = $2
			RETURNING position, quarantined`, workspaceID, q.consumer).Scan(&position, &quarantined)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
		case err != nil:
			return fmt.Errorf("retry %s: %w", workspaceID, err)
		case !quarantined:
			return &NotQuarantinedError{workspaceID}
		}
		return audit.Add(ctx, tx, q.clock(), audit.Change{WorkspaceID: workspaceID, Action: audit.EntryRetry, ObjectName: audit.EntryName(position + 1)})
	})
	if err != nil {
		return err
	}
	if _, err := q.pool.Exec(ctx, forgetDeaths, workspaceID, q.consumer); err != nil {
		return fmt.Errorf("forget how often the process ended while it handled the entry in %s: %w", workspaceID, err)
	}
	q.notify(TopicAppended, workspaceID)
	return nil
}

// Skip is an entry that an operator made the consumer skip. It has no effect, even when the log is
// folded again.
type Skip struct {
	Consumer    string    `json:"consumer"`
	WorkspaceID string    `json:"workspace_id"`
	Position    int64     `json:"position"`
	EventID     string    `json:"event_id"`
	Type        string    `json:"type"`
	Error       string    `json:"error"`  // why the consumer could not handle it
	Reason      string    `json:"reason"` // the operator's words
	SkippedAt   time.Time `json:"skipped_at"`
}

// Skip makes the consumer skip the entry at which a workspace is quarantined, and
// records that with the reason. The error is a *domain.UnknownWorkspaceError or a
// *NotQuarantinedError when there is no such entry.
func (q *Quarantine) Skip(ctx context.Context, workspaceID, reason string) (Skip, error) {
	if reason == "" {
		return Skip{}, errors.New("skipping an entry needs a reason")
	}
	s := Skip{Consumer: q.consumer, WorkspaceID: workspaceID, Reason: reason, SkippedAt: q.clock().UTC().Truncate(time.Millisecond)}
	err := pg.InTx(ctx, q.pool, func(tx pgx.Tx) error { return s.record(ctx, tx) })
	if err != nil {
		return Skip{}, err
	}
	q.notify(TopicProjected, workspaceID) // for a consumer that comes after the read models
	q.notify(TopicAppended, workspaceID)  // for the read models
	return s, nil
}

// record fills in the entry, records the skip and moves the checkpoint.
func (s *Skip) record(ctx context.Context, tx pgx.Tx) error {
	var (
		checkpoint  int64
		quarantined bool
	)
	err := tx.QueryRow(ctx, `
		SELECT position, quarantined, coalesce(error, '') FROM log_checkpoint
		 WHERE workspace_id = $1 AND consumer = $2 FOR UPDATE`, s.WorkspaceID, s.Consumer).Scan(&checkpoint, &quarantined, &s.Error)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return &domain.UnknownWorkspaceError{WorkspaceID: s.WorkspaceID}
	case err != nil:
		return fmt.Errorf("lock the checkpoint of %s: %w", s.WorkspaceID, err)
	case !quarantined:
		return &NotQuarantinedError{s.WorkspaceID}
	}
	s.Position = checkpoint + 1
	if err := tx.QueryRow(ctx, `SELECT id, type FROM event_log WHERE workspace_id = $1 AND position BETWEEN $2 AND $2 ORDER BY position`,
		s.WorkspaceID, s.Position).Scan(&s.EventID, &s.Type); err != nil {
		return fmt.Errorf("read the entry at which %s is quarantined, position %d: %w", s.WorkspaceID, s.Position, err)
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO log_skip (workspace_id, consumer, position, event_id, type, error, reason, skipped_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		s.WorkspaceID, s.Consumer, s.Position, s.EventID, s.Type, s.Error, s.Reason, s.SkippedAt); err != nil {
		return fmt.Errorf("record the skip of position %d of %s: %w", s.Position, s.WorkspaceID, err)
	}
	// While there are no rows, rules is the highest version, so that the handler's version replaces
	// it with the first rows.
	if _, err := tx.Exec(ctx, `
		UPDATE log_checkpoint SET position = $3, moved_at = $4, rules = CASE WHEN position = 0 THEN 2147483647 ELSE rules END, failures = 0, failed_to = NULL, segment_max = NULL,
		       error = NULL, retry_at = NULL, quarantined = false
		 WHERE workspace_id = $1 AND consumer = $2`, s.WorkspaceID, s.Consumer, s.Position, s.SkippedAt); err != nil {
		return fmt.Errorf("move the checkpoint of %s: %w", s.WorkspaceID, err)
	}
	return audit.Add(ctx, tx, s.SkippedAt, audit.Change{
		WorkspaceID: s.WorkspaceID, Action: audit.EntrySkip, ObjectID: s.EventID, ObjectName: audit.EntryName(s.Position), Detail: s.Reason,
	})
}

// Skips returns the skipped entries of one workspace, or of all if workspaceID is empty, in the
// order of the log.
func (q *Quarantine) Skips(ctx context.Context, workspaceID string) ([]Skip, error) {
	list, err := pg.Collect(ctx, q.pool, pgx.RowToStructByPos[Skip], `
		SELECT consumer, workspace_id, position, event_id, type, error, reason, skipped_at
		  FROM log_skip WHERE consumer = $1 AND ($2 = '' OR workspace_id = $2)
		 ORDER BY workspace_id, position`, q.consumer, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("read which entries were skipped: %w", err)
	}
	for i := range list {
		list[i].SkippedAt = list[i].SkippedAt.UTC()
	}
	return list, nil
}

// A segment that fails is retried, and the wait doubles each time. From failuresBeforeHalving
// failures on, each failure halves the segment instead, until only the failing entry is left. Then
// the workspace is quarantined before that entry. Other workspaces continue.
const (
	failuresBeforeHalving = 5
	firstWait             = time.Second

	// quarantineWait is the time between two retries of a quarantined workspace. A program that
	// starts retries at once, because it may be a newer version.
	quarantineWait = 5 * time.Minute
)

// retry is what is recorded about a failure.
type retry struct {
	failures    int
	segmentMax  *int // nil: the usual size
	wait        time.Duration
	quarantined bool
}

// afterFailure decides how a failed segment with that many entries is retried.
//
// If another transaction has locked a row, no entry is at fault: the workspace is claimed alone
// until the row is free, and is not quarantined.
func afterFailure(failuresBefore, entries int, locked bool) retry {
	if locked {
		return retry{
			failures: max(failuresBefore, min(failuresBefore+1, failuresBeforeHalving-1)),
			wait:     firstWait << min(failuresBefore, failuresBeforeHalving-2),
		}
	}
	r := retry{failures: failuresBefore + 1}
	switch {
	case r.failures < failuresBeforeHalving:
		r.wait = firstWait << failuresBefore // 1, 2, 4, 8 s
	case entries > 1:
		half := entries / 2
		r.segmentMax = &half
	default:
		r.quarantined = true
		r.wait = quarantineWait
		one := 1
		r.segmentMax = &one
	}
	return r
}

// recordFailure records why a segment failed, in its own transaction. If another instance has moved
// the checkpoint since, it records nothing.
func (k *claimer) recordFailure(ctx context.Context, s *Segment, reason error) (retry, error) {
	r := afterFailure(s.failures, len(s.Entries), pg.Locked(reason))
	now := k.clock()
	text := strings.ToValidUTF8(strings.ReplaceAll(reason.Error(), "\x00", ""), "\uFFFD") // PostgreSQL accepts neither in a text
	err := pg.InTx(ctx, k.auxPool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE log_checkpoint SET
			       failures    = $3,
			       failed_to   = greatest(coalesce(failed_to, 0), $4),
			       segment_max = $5,
			       error       = $6,
			       retry_at    = $7,
			       quarantined = $8
			 WHERE workspace_id = $1 AND consumer = $2 AND position = $9`,
			s.WorkspaceID, k.consumer, r.failures, s.End(), r.segmentMax, text, now.Add(r.wait), r.quarantined, s.After)
		if err != nil {
			return fmt.Errorf("update the checkpoint: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return addFailure(ctx, tx, k.consumer, s, text, now)
	})
	if err != nil {
		return r, fmt.Errorf("record that %s failed at position %d: %w", s.WorkspaceID, s.After+1, err)
	}
	return r, nil
}

// retryQuarantined makes every quarantined workspace due for a retry.
func (k *claimer) retryQuarantined(ctx context.Context) error {
	for last, more := "", true; more; {
		found, err := k.auxPool.Query(ctx, `
			SELECT workspace_id FROM log_checkpoint
			 WHERE consumer = $1 AND failures > 0 AND quarantined AND workspace_id > $2 ORDER BY workspace_id LIMIT $3`, k.consumer, last, retriedAtOnce)
		if err != nil {
			return fmt.Errorf("look for quarantined workspaces: %w", err)
		}
		ids, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("look for quarantined workspaces: %w", err)
		}
		if err := k.retryAtOnce(ctx, ids); err != nil {
			return err
		}
		if more = len(ids) == retriedAtOnce; more {
			last = ids[len(ids)-1]
		}
	}
	return nil
}

// retriedAtOnce is how many quarantined workspaces share a round trip.
const retriedAtOnce = 500

// retryAtOnce makes workspaces due for a retry, with a statement for each. It skips a checkpoint
// that another transaction has locked; that workspace is retried later.
func (k *claimer) retryAtOnce(ctx context.Context, workspaceIDs []string) error {
	var each pgx.Batch
	for _, id := range workspaceIDs {
		each.Queue(`
			UPDATE log_checkpoint SET retry_at = NULL
			 WHERE workspace_id = $2 AND consumer = $1 AND consumer IN (
			       SELECT consumer FROM log_checkpoint
			        WHERE workspace_id = $2 AND consumer = $1 AND failures > 0 AND quarantined FOR UPDATE SKIP LOCKED)`, k.consumer, id)
	}
	if err := k.auxPool.SendBatch(ctx, &each).Close(); err != nil {
		return fmt.Errorf("retry quarantined workspaces: %w", err)
	}
	return nil
}

// keptFailures is how many different failures of a workspace the history keeps.
const keptFailures = 50

// addFailure adds a failure to the history. The same failure of the same segment is
// counted, not repeated.
func addFailure(ctx context.Context, tx pgx.Tx, consumer string, s *Segment, text string, now time.Time) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO log_failure AS f (workspace_id, consumer, from_position, through_position, error_digest, error, times, first_at, last_at)
		VALUES ($1, $2, $3, $4, md5($5), $5, 1, $6, $6)
		ON CONFLICT (workspace_id, consumer, from_position, through_position, error_digest)
		DO UPDATE SET times = f.times + 1, last_at = excluded.last_at`,
		s.WorkspaceID, consumer, s.After+1, s.End(), text, now)
	if err != nil {
		return fmt.Errorf("add to the history of failures: %w", err)
	}
	_, err = tx.Exec(ctx, `
		DELETE FROM log_failure f WHERE f.workspace_id = $1 AND f.consumer = $2 AND f.last_at < (
		       SELECT o.last_at FROM log_failure o WHERE o.workspace_id = $1 AND o.consumer = $2
		        ORDER BY o.last_at DESC OFFSET $3 LIMIT 1)`, s.WorkspaceID, consumer, keptFailures-1)
	if err != nil {
		return fmt.Errorf("delete old failures: %w", err)
	}
	return nil
}

// A segment may crash the process that handles it: it takes all memory, or stops the Go runtime.
// Then nothing is left to record a failure, and the next process crashes too. So each segment is
// marked as in flight before it is handled. If a mark outlives its process and the checkpoint has
// not moved, that is a death. From then on the solo worker handles the segment, one entry at a time
// and with no other suspected entry in flight. An entry with deathsUntilQuarantine deaths is
// quarantined without being handled. An entry that was only in flight alongside it, or whose
// process an operator killed, succeeds then, which clears its deaths.

// deathsUntilQuarantine is how many deaths in a row quarantine an entry.
const deathsUntilQuarantine = 3

// deadlyEntryError says that the first entry of a claim has crashed that many processes in a row.
type deadlyEntryError struct{ deaths int }

func (e *deadlyEntryError) Error() string {
	return fmt.Sprintf("the process ended %d times in a row while it handled this entry, so it is not tried again by itself; "+
		"look for the reason in the log of that time (out of memory, a crash), then use ledgerfeed quarantine retry or skip", e.deaths)
}

// markEnded removes the marks of segments that were not handled: of all segments or, with handled,
// of those without entries. A checkpoint that has moved needs no removal, because it voids its
// mark.
func (c *consumer) markEnded(ctx context.Context, claim *Claim, handled bool) {
	var ids []string
	for i := range claim.Segments {
		if s := &claim.Segments[i]; !handled || len(s.Entries) == 0 {
			ids = append(ids, s.WorkspaceID)
		}
	}
	if len(ids) == 0 {
		return
	}
	// If another transaction has locked a row, the other marks are still removed.
	const sql = `
		UPDATE log_under_way SET under_way = false
		 WHERE workspace_id = $2 AND consumer = $1 AND process = $3 AND consumer IN (
		       SELECT consumer FROM log_under_way WHERE workspace_id = $2 AND consumer = $1 FOR UPDATE SKIP LOCKED)`
	var each pgx.Batch
	for _, id := range ids {
		each.Queue(sql, c.consumer, id, c.process)
	}
	if err := c.auxPool.SendBatch(ctx, &each).Close(); err != nil {
		c.cfg.Logger.WarnContext(ctx, "cannot record that work on some workspaces has been broken off; if the process dies before that work is done, the death counts towards the three that quarantine a workspace",
			"consumer", c.consumer, "workspaces", len(ids), "error", err)
	}
}

// quarantineDeadly quarantines the workspace of a solo claim before the entry that has crashed too
// many processes, without handling it.
func (c *consumer) quarantineDeadly(ctx context.Context, claim *Claim, ids []string) {
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	pg.Rollback(finish, claim.Tx)
	c.markEnded(finish, claim, false)
	claim.Segments[0].failures = max(claim.Segments[0].failures, failuresBeforeHalving)
	c.failed(finish, claim, ids, claim.deadly)
}

// forgetDeaths is the SQL that forgets an entry's deaths, so that it is handled again.
const forgetDeaths = `DELETE FROM log_under_way WHERE workspace_id = $1 AND consumer = $2`
