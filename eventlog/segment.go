package eventlog

import (
	"context"
	"fmt"
	"sort"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Segment is the next entries of one workspace for a consumer.
type Segment struct {
	WorkspaceID string
	After       int64 // the checkpoint: position of the last entry handled before
	Entries     []domain.Entry
	Public      []string // with SubscriberConfig.Public, the public forms of the entries; empty: internal

	failures int
	failedTo int64
	full     bool     // there may be more entries after these
	next     claiming // how the workspace is claimed after this claim; 0: as usual
}

// End is the position of the segment's last entry.
func (s *Segment) End() int64 { return s.After + int64(len(s.Entries)) }

// cut takes the entries at a position and after it away.
func (s *Segment) cut(position int64) { s.Entries = s.Entries[:position-s.After-1] }

// sort puts the entries in the order of the log: SQL promises no order across the rows
// of a lateral subquery.
func (s *Segment) sort() { sort.Stable((*byPosition)(s)) }

// byPosition sorts a segment.
type byPosition Segment

func (s *byPosition) Len() int           { return len(s.Entries) }
func (s *byPosition) Less(i, j int) bool { return s.Entries[i].Position < s.Entries[j].Position }
func (s *byPosition) Swap(i, j int) {
	s.Entries[i], s.Entries[j] = s.Entries[j], s.Entries[i]
	if s.Public != nil {
		s.Public[i], s.Public[j] = s.Public[j], s.Public[i]
	}
}

// segmentsSQL reads the next entries of workspaces $1 after positions $2, at most $3 of
// each.
func (k *claimer) segmentsSQL() string {
	public, bound, upTo := `''`, "", ""
	if k.public {
		public = `coalesce(e.public_event, '')`
	}
	if k.after != "" {
		bound = ` JOIN log_checkpoint v ON v.workspace_id = k.workspace_id AND v.consumer = ` + literal(k.after)
		upTo = ` AND l.position <= v.position`
	}
	return `
		SELECT ` + entryColumns + `, k.workspace_id, ` + public + `
		  FROM unnest($1::text[], $2::bigint[], $3::integer[]) AS k (workspace_id, after, most)` + bound + `
		 CROSS JOIN LATERAL (
		       SELECT * FROM event_log l
		        WHERE l.workspace_id = k.workspace_id AND l.position > k.after` + upTo + `
		        ORDER BY l.position LIMIT k.most) AS e`
}

// sweepSQL finds the workspaces in which the consumer $1 is behind and may try at $2.
func (k *claimer) sweepSQL() string {
	ahead := `log_head h ON h.workspace_id = c.workspace_id`
	if k.after != "" {
		ahead = `log_checkpoint h ON h.workspace_id = c.workspace_id AND h.consumer = ` + literal(k.after)
	}
	return `
		SELECT c.workspace_id, c.failures > 0
		  FROM log_checkpoint c JOIN ` + ahead + `
		 WHERE c.consumer = $1 AND h.position > c.position AND (c.retry_at IS NULL OR c.retry_at <= $2)
		 ORDER BY c.moved_at NULLS FIRST`
}

// literal is the name of a consumer in SQL.
func literal(consumer string) string { return `'` + consumer + `'` }

// makeCheckpoints gives a consumer that comes after another its checkpoints in those
// workspaces, or in all, that have none yet, and returns these. The statement is a
// transaction of its own, so that other processes wait no longer for it than it takes.
func (k *claimer) makeCheckpoints(ctx context.Context, workspaces ...string) (made []string, err error) {
	rows, err := k.pool.Query(ctx, `
		INSERT INTO log_checkpoint (workspace_id, consumer)
		SELECT v.workspace_id, $1 FROM log_checkpoint v
		 WHERE v.consumer = $2 AND ($3::text[] IS NULL OR v.workspace_id = ANY ($3))
		   AND NOT EXISTS (SELECT FROM log_checkpoint c WHERE c.workspace_id = v.workspace_id AND c.consumer = $1)
		    ON CONFLICT DO NOTHING RETURNING workspace_id`, k.consumer, k.after, workspaces)
	if err == nil {
		made, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, fmt.Errorf("make the checkpoints of %s: %w", k.consumer, err)
	}
	return made, nil
}

// leaveNew makes the checkpoints of workspaces that could not be locked because they have
// none, and leaves them for the next claim.
func (k *claimer) leaveNew(ctx context.Context, c *Claim, workspaces []string, locked map[string]*Segment) error {
	if k.after == "" || len(locked) == len(workspaces) {
		return nil
	}
	var missing []string
	for _, id := range workspaces {
		if locked[id] == nil {
			missing = append(missing, id)
		}
	}
	made, err := k.makeCheckpoints(ctx, missing...)
	for _, id := range made {
		c.left[id] = shared
	}
	return err
}
