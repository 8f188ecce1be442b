package eventlog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// A segment may be the end of the process that handles it: it takes all memory, or
// stops the run time. Nothing is left then that could record a failure, and the
// next process dies of it too. So each segment is marked as under way before it is
// handled. A mark that outlives its process, at a checkpoint that has not moved, is
// a death. From then on the solo worker handles the segment, entry by entry and
// nothing else beside them that is suspected; an entry with deathsUntilQuarantine
// deaths is quarantined without being handled. What merely was under way beside it,
// or was killed by an operator, is handled then and has no deaths any more.

// deathsUntilQuarantine is how many processes in a row an entry may end.
const deathsUntilQuarantine = 3

// deadlyEntryError says that the first entry of a claim has ended so many processes.
type deadlyEntryError struct{ deaths int }

func (e *deadlyEntryError) Error() string {
	return fmt.Sprintf("the process ended %d times in a row while it handled this entry, so it is not tried again by itself; "+
		"look for the reason in the log of that time (out of memory, a crash), then use ledgerfeed quarantine retry or skip", e.deaths)
}

// died is SQL for a mark a whose process ended before it was done. A mark of this
// process is of work that failed, and one of before the server started may be of
// work that failed with it.
const died = `(a.under_way AND a.position = excluded.position AND a.process <> excluded.process AND a.server_started = excluded.server_started)`

// suspectTo is SQL for the position up to which entries are handled one by one.
const suspectTo = `(CASE WHEN ` + died + ` THEN greatest(a.suspect_to, a.through) ELSE a.suspect_to END)`

// markUnderWay marks the segments of a claim. Those that are suspected of ending
// the process are taken out of a claim that is not the solo worker's, and cut to one
// entry in one that is.
//
// It does so on another connection than the claim's, because the mark must be
// there when the claim is not. The table is not logged: a mark means nothing after
// a crash of the server.
func (k *claimer) markUnderWay(ctx context.Context, c *Claim) error {
	if len(c.Segments) == 0 {
		return nil
	}
	var (
		marks  pgx.Batch
		marked []Segment
	)
	for i := range c.Segments {
		s := c.Segments[i]
		marks.Queue(markSQL, k.consumer, s.WorkspaceID, s.After, s.End(), k.process, c.Solo && !c.Mass).Query(func(rows pgx.Rows) error {
			m, err := pgx.CollectRows(rows, pgx.RowToStructByPos[mark])
			if err != nil || len(m) == 0 {
				c.left[s.WorkspaceID] = solo
				return err
			}
			if m[0].SuspectTo > s.After {
				s.Entries = s.Entries[:1]
				s.next = solo
				c.Mass = true // beside a claim that was made for it there might be another one that is suspected
			}
			if m[0].Deaths >= deathsUntilQuarantine {
				c.deadly = &deadlyEntryError{m[0].Deaths}
			}
			marked = append(marked, s)
			return nil
		})
	}
	if err := k.pool.SendBatch(ctx, &marks).Close(); err != nil {
		return fmt.Errorf("mark segments as under way: %w", err)
	}
	c.Segments = marked
	return nil
}

// mark is what markSQL returns.
type mark struct {
	Deaths    int
	SuspectTo int64
}

// markSQL marks one segment; it returns nothing of one that is left to the solo worker.
const markSQL = `
	INSERT INTO log_under_way AS a (workspace_id, consumer, position, through, process, server_started, under_way, deaths, suspect_to)
	VALUES ($2, $1, $3, $4, $5, pg_postmaster_start_time(), true, 0, 0)
	    ON CONFLICT (workspace_id, consumer) DO UPDATE SET
	       position = excluded.position, process = excluded.process, server_started = excluded.server_started,
	       through = CASE WHEN ` + suspectTo + ` > excluded.position THEN excluded.position + 1 ELSE excluded.through END,
	       deaths = CASE WHEN ` + died + ` THEN a.deaths + 1 WHEN a.position = excluded.position THEN a.deaths ELSE 0 END,
	       suspect_to = ` + suspectTo + `, under_way = true
	 WHERE $6::boolean OR ` + suspectTo + ` <= excluded.position
	RETURNING deaths, suspect_to`

// markEnded takes the marks off segments that were not handled: of all, or of those
// without entries where the others were. A checkpoint that has moved makes its mark
// void by itself.
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
	// A row that another transaction has locked does not keep the marks on the others.
	const sql = `
		UPDATE log_under_way SET under_way = false
		 WHERE workspace_id = $2 AND consumer = $1 AND process = $3 AND consumer IN (
		       SELECT consumer FROM log_under_way WHERE workspace_id = $2 AND consumer = $1 FOR UPDATE SKIP LOCKED)`
	var each pgx.Batch
	for _, id := range ids {
		each.Queue(sql, c.consumer, id, c.process)
	}
	if err := c.pool.SendBatch(ctx, &each).Close(); err != nil {
		c.cfg.Logger.WarnContext(ctx, "cannot mark segments as no longer under way; if the program ends before they are handled, that counts as one of three deaths",
			"consumer", c.consumer, "workspaces", len(ids), "error", err)
	}
}

// quarantineDeadly quarantines the workspace of a solo claim before the entry that
// has ended too many processes, without handling it.
func (c *consumer) quarantineDeadly(ctx context.Context, claim *Claim, ids []string) {
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	pg.Rollback(finish, claim.Tx)
	c.markEnded(finish, claim, false)
	claim.Segments[0].failures = max(claim.Segments[0].failures, failuresBeforeHalving)
	c.failed(finish, claim, ids, claim.deadly)
}

// forgetDeaths lets an entry be handled again whatever it did before.
const forgetDeaths = `DELETE FROM log_under_way WHERE workspace_id = $1 AND consumer = $2`
