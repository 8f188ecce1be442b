package eventlog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// A segment that fails is tried again, each time after twice the wait. After
// failuresBeforeHalving failures it is halved each time, until it is the entry that
// fails alone; then the workspace is quarantined there. Other workspaces continue.
const (
	failuresBeforeHalving = 5
	firstWait             = time.Second

	// quarantineWait is how often a quarantined workspace is tried again. A program
	// that starts tries at once, because it may be a newer version.
	quarantineWait = 5 * time.Minute
)

// retry is what is recorded of a failure.
type retry struct {
	failures    int
	segmentMax  *int // nil: the usual size
	wait        time.Duration
	quarantined bool
}

// afterFailure decides how a segment with that many entries is tried again.
//
// A row that another transaction has locked is no fault of an entry: the workspace is
// claimed alone until the row is free, and is not quarantined.
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

// recordFailure records why a segment failed, in a transaction of its own. When
// another instance has moved the checkpoint since, there is nothing to record.
func (k *claimer) recordFailure(ctx context.Context, s *Segment, reason error) (retry, error) {
	r := afterFailure(s.failures, len(s.Entries), pg.Locked(reason))
	now := k.clock()
	text := strings.ToValidUTF8(strings.ReplaceAll(reason.Error(), "\x00", ""), "\uFFFD") // PostgreSQL takes neither as text
	err := pg.InTx(ctx, k.pool, func(tx pgx.Tx) error {
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

// retryQuarantined lets every quarantined workspace be tried at once.
func (k *claimer) retryQuarantined(ctx context.Context) error {
	for last, more := "", true; more; {
		found, err := k.pool.Query(ctx, `
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

// retryAtOnce lets workspaces be tried at once, each by a statement of its own. One whose
// checkpoint another transaction has locked is tried later.
func (k *claimer) retryAtOnce(ctx context.Context, workspaceIDs []string) error {
	var each pgx.Batch
	for _, id := range workspaceIDs {
		each.Queue(`
			UPDATE log_checkpoint SET retry_at = NULL
			 WHERE workspace_id = $2 AND consumer = $1 AND consumer IN (
			       SELECT consumer FROM log_checkpoint
			        WHERE workspace_id = $2 AND consumer = $1 AND failures > 0 AND quarantined FOR UPDATE SKIP LOCKED)`, k.consumer, id)
	}
	if err := k.pool.SendBatch(ctx, &each).Close(); err != nil {
		return fmt.Errorf("retry quarantined workspaces: %w", err)
	}
	return nil
}

// keptFailures is how many different failures of a workspace the history has.
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
