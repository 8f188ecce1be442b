package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Claim is what a handler gets: segments of some workspaces, and the transaction Tx that has locked
// their checkpoints. The handler works in Tx but neither commits it nor rolls it back. The
// Subscriber commits it with the new checkpoints on Ack, and rolls it back on Nack.
type Claim struct {
	Tx       pgx.Tx
	Segments []Segment

	// Solo means that the claim holds one workspace and that only other slow claims wait for it, so
	// the handler may take some seconds. Mass means that the handler may also change very many
	// rows. It calls TakesLong when that takes more than some seconds. It must end with ErrStopped
	// soon after Stopping is closed.
	Solo, Mass bool
	Stopping   <-chan struct{}

	consumer string
	rules    int
	err      error               // the handler's
	left     map[string]claiming // how workspaces without a segment are claimed next
	deadly   *deadlyEntryError   // why nothing is handled; nil: the claim is handled
	places   places              // for mass changes that take long; nil: the claim needs none
	placed   bool                // the claim has taken one of places
}

// ErrStopped is the error of a handler that ended because Claim.Stopping was closed. The claim is
// rolled back, and no failure is recorded.
var ErrStopped = errors.New("stopped because the program ends")

// ErrTooLong is the error of TakesLong. The claim is rolled back, and its workspace is claimed
// again when another long claim has ended.
var ErrTooLong = errors.New("the claim takes long, and too many long claims are under way")

// TakesLong reserves a place for a Mass claim that takes long. If none is free, it returns
// ErrTooLong, and the handler must end with that error: otherwise long claims could occupy all
// workers while shorter claims of other workspaces wait. It may be called again.
func (c *Claim) TakesLong() error {
	if c.places == nil || c.placed {
		return nil
	}
	if c.placed = c.places.take(); !c.placed {
		return ErrTooLong
	}
	return nil
}

// places is a semaphore: it holds a token for each place that is taken.
type places chan struct{}

func (p places) take() bool {
	select {
	case p <- struct{}{}:
		return true
	default:
		return false
	}
}

func (p places) give() { <-p }

// LeaveFrom removes the entries from a position on from a segment, because handling them takes
// long. The solo worker then claims the workspace.
func (c *Claim) LeaveFrom(workspaceID string, position int64) {
	for i := range c.Segments {
		if s := &c.Segments[i]; s.WorkspaceID == workspaceID {
			s.cut(position)
			s.next = solo
		}
	}
}

// LeaveMass removes the entries from a position on from a segment, because the entry there changes
// very many rows. The next claim of the workspace is a Mass claim.
func (c *Claim) LeaveMass(workspaceID string, position int64) {
	for i := range c.Segments {
		if s := &c.Segments[i]; s.WorkspaceID == workspaceID {
			s.cut(position)
			s.next = mass
		}
	}
}

// Shorten removes the entries from a position on from a segment, because they cannot be handled
// now. They are claimed again.
func (c *Claim) Shorten(workspaceID string, position int64) {
	for i := range c.Segments {
		if s := &c.Segments[i]; s.WorkspaceID == workspaceID {
			s.cut(position)
			s.full = true
		}
	}
}

// KeepError keeps the handler's error, to record it with the failure.
func (c *Claim) KeepError(err error) { c.err = err }

// ClaimOf returns the claim that a message of a Subscriber carries.
func ClaimOf(msg *message.Message) (*Claim, error) {
	c, err := flow.Work[*Claim](msg)
	if err != nil {
		return nil, fmt.Errorf("cannot find the claim: %w", err)
	}
	return c, nil
}

// KeepError is the middleware that keeps a handler's error with its claim. It goes
// outside the middleware that recovers panics.
func KeepError(next message.HandlerFunc) message.HandlerFunc {
	return flow.KeepError[*Claim](next)
}

// segmentRange is a segment in the payload of a message, which is for people and
// logs; handlers use ClaimOf.
type segmentRange struct {
	WorkspaceID string `json:"workspace_id"`
	After       int64  `json:"after"`
	Through     int64  `json:"through"`
}

func (c *Claim) message(ctx context.Context) (*message.Message, error) {
	ranges := make([]segmentRange, len(c.Segments))
	for i := range c.Segments {
		s := &c.Segments[i]
		ranges[i] = segmentRange{s.WorkspaceID, s.After, s.End()}
	}
	payload, err := json.Marshal(ranges)
	if err != nil {
		return nil, fmt.Errorf("write the segments of a claim as JSON: %w", err)
	}
	return flow.Message(ctx, watermill.NewUUID(), payload, c), nil
}

// claimer makes the claims of one consumer.
type claimer struct {
	pool     pg.DB // for ordinary claims
	massPool pg.DB // for claims of mass changes
	auxPool  pg.DB // for writes alongside a claim
	clock    func() time.Time
	consumer string
	rules    int    // see SubscriberConfig
	entries  int    // maximum per claim
	after    string // see SubscriberConfig
	public   bool   // see SubscriberConfig
	noData   bool   // see SubscriberConfig
	process  string // names this process in the marks of segments in flight
}

// claim locks the checkpoints of workspaces, except those that another claim holds, and reads their
// next entries. Shared claims leave out failing workspaces. The claim may have no segments; its
// transaction is open even then.
func (k *claimer) claim(ctx context.Context, workspaces []string, how claiming) (*Claim, error) {
	pool := k.pool
	if how >= mass {
		pool = k.massPool
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin a claim: %w", err)
	}
	if how >= solo {
		// It waits longer for locks, because a lock timeout would lose its work and only one worker
		// waits meanwhile.
		if err := pg.LimitLocks(ctx, tx, soloLockTimeout); err != nil {
			pg.Rollback(ctx, tx)
			return nil, fmt.Errorf("begin a claim: %w", err)
		}
	}
	c := &Claim{Tx: tx, Solo: how >= solo, Mass: how >= mass, Stopping: ctx.Done(), consumer: k.consumer, rules: k.rules, left: map[string]claiming{}}
	if err := k.fill(ctx, c, workspaces, how != shared); err != nil {
		pg.Rollback(ctx, tx)
		return nil, err
	}
	return c, nil
}

// lockSQL locks the checkpoint of one workspace if it may be claimed now.
const lockSQL = `
	SELECT position, least(coalesce(segment_max, $4), $4), failures, coalesce(failed_to, 0)
	  FROM log_checkpoint
	 WHERE workspace_id = $2 AND consumer = $1
	   AND (retry_at IS NULL OR retry_at <= $3) AND (failures = 0 OR $5)
	   FOR UPDATE SKIP LOCKED`

// lock locks the checkpoints of the workspaces that may be claimed now. To limit how many entries
// are read for each, it divides the entries of a claim equally among all the workspaces.
func (k *claimer) lock(ctx context.Context, c *Claim, workspaces []string, failing bool) (found []toRead, err error) {
	each := max(1, k.entries/len(workspaces))
	if c.Solo {
		each = min(each, soloEntries)
	}
	now := k.clock()
	var locks pgx.Batch
	for _, id := range workspaces {
		locks.Queue(lockSQL, k.consumer, id, now, each, failing).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				r := toRead{segment: &Segment{WorkspaceID: id}}
				if err := rows.Scan(&r.segment.After, &r.limit, &r.segment.failures, &r.segment.failedTo); err != nil {
					return err
				}
				found = append(found, r)
			}
			return rows.Err()
		})
	}
	if err := c.Tx.SendBatch(ctx, &locks).Close(); err != nil {
		return nil, fmt.Errorf("lock checkpoints: %w", err)
	}
	return found, nil
}

// toRead is a segment whose checkpoint is locked; limit is the maximum number of entries to read.
type toRead struct {
	segment *Segment
	limit   int32
}

func (k *claimer) fill(ctx context.Context, c *Claim, workspaces []string, failing bool) error {
	found, err := k.lock(ctx, c, workspaces, failing)
	if err != nil {
		return err
	}
	locked := make(map[string]*Segment, len(found))
	for _, r := range found {
		locked[r.segment.WorkspaceID] = r.segment
	}
	if err := k.leaveNew(ctx, c, workspaces, locked); err != nil || len(found) == 0 {
		return err
	}
	whole, err := k.readSegments(ctx, c.Tx, found)
	if err != nil {
		return err
	}
	for _, r := range found {
		s := r.segment
		s.full = len(s.Entries) == int(r.limit) || !whole
		switch {
		case len(s.Entries) > 0:
			c.Segments = append(c.Segments, *s)
		case s.full:
			c.left[s.WorkspaceID] = shared
		}
	}
	return k.markUnderWay(ctx, c)
}

// soloEntries is the maximum number of entries in a solo claim. It is small because the handler may
// handle only one of them and leave the rest to the next claim.
const soloEntries = 100

// soloLockTimeout is the lock timeout of a solo claim. Other claims use the setting of their
// connections.
const soloLockTimeout = 10 * time.Second

// claimBytes bounds the total size of a claim's entries. A single large entry may exceed it.
const claimBytes = 4 << 20

// readSegments reads the entries of the segments. It uses separate statements after the locks, so
// that their snapshots contain everything that was committed before the locks. It stops at
// claimBytes, and reports whether it read everything.
func (k *claimer) readSegments(ctx context.Context, tx pgx.Tx, found []toRead) (whole bool, err error) {
	sql, bytes := k.segmentSQL(), 0
	var reads pgx.Batch
	whole = true
	for _, r := range found {
		reads.Queue(sql, r.segment.WorkspaceID, r.segment.After, r.limit).Query(func(rows pgx.Rows) error {
			if whole {
				whole, err = k.readSegment(rows, r.segment, &bytes)
				return err
			}
			return nil
		})
	}
	if err := tx.SendBatch(ctx, &reads).Close(); err != nil {
		return false, fmt.Errorf("read segments: %w", err)
	}
	for _, r := range found {
		s := r.segment
		for i := range s.Entries {
			if want := s.After + int64(i) + 1; s.Entries[i].Position != want {
				return false, fmt.Errorf("the log of %s has position %d where %d is expected: an entry is missing", s.WorkspaceID, s.Entries[i].Position, want)
			}
		}
	}
	return whole, nil
}

// readSegment reads the entries of one segment and adds their size to bytes. It stops at
// claimBytes, and reports whether it read everything.
func (k *claimer) readSegment(rows pgx.Rows, s *Segment, bytes *int) (whole bool, err error) {
	var (
		public string
		pay    bool
	)
	for rows.Next() {
		before := *bytes
		for _, v := range rows.RawValues() {
			*bytes += len(v)
		}
		if *bytes > claimBytes && before > 0 {
			return false, nil
		}
		e := domain.Entry{WorkspaceID: s.WorkspaceID} // all entries share one string
		if err := scanEntry(rows, &e, &public, &pay); err != nil {
			return false, err
		}
		s.Entries = append(s.Entries, e)
		if k.public {
			s.Public, s.Pay = append(s.Public, public), append(s.Pay, pay)
		}
	}
	return true, rows.Err()
}

// commit moves the checkpoints and commits the handler's work with them.
func (c *Claim) commit(ctx context.Context, now time.Time) error {
	var (
		ids  []string
		ends []int64
	)
	for i := range c.Segments {
		if s := &c.Segments[i]; len(s.Entries) > 0 {
			ids, ends = append(ids, s.WorkspaceID), append(ends, s.End())
		}
	}
	// The failure state is cleared once the checkpoint has passed failed_to. rules is the oldest
	// version that made any of the rows: the handler's if the claim begins at position 1, otherwise
	// the older of the stored one and the handler's.
	const sql = `
		UPDATE log_checkpoint c SET
		       position    = k.position,
		       moved_at    = $4,
		       rules       = CASE WHEN c.position = 0 THEN $5 ELSE least(c.rules, $5) END,
		       failures    = CASE WHEN k.position >= coalesce(c.failed_to, 0) THEN 0 ELSE c.failures END,
		       segment_max = CASE WHEN k.position >= coalesce(c.failed_to, 0) THEN NULL ELSE c.segment_max END,
		       error       = CASE WHEN k.position >= coalesce(c.failed_to, 0) THEN NULL ELSE c.error END,
		       failed_to   = CASE WHEN k.position >= coalesce(c.failed_to, 0) THEN NULL ELSE c.failed_to END,
		       retry_at    = NULL,
		       quarantined = false
		  FROM unnest($2::text[], $3::bigint[]) AS k (workspace_id, position)
		 WHERE c.workspace_id = ANY ($2) AND c.workspace_id = k.workspace_id AND c.consumer = $1`
	if _, err := c.Tx.Exec(ctx, sql, c.consumer, ids, ends, now, c.rules); err != nil {
		return fmt.Errorf("move the checkpoints: %w", err)
	}
	if err := c.Tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit a claim: %w", err)
	}
	return nil
}

// segmentSQL returns the SQL that reads at most $3 entries of workspace $1 after position $2.
func (k *claimer) segmentSQL() string {
	public, upTo := `'', false`, ""
	if k.public {
		public = `coalesce(e.public_event, ''), e.public_event IS NOT NULL AND ` + NeedsPay("e")
	}
	if k.after != "" {
		upTo = ` AND e.position <= (SELECT v.position FROM log_checkpoint v WHERE v.workspace_id = $1 AND v.consumer = ` + literal(k.after) + `)`
	}
	columns, from := entryColumns, FromLog
	if k.noData {
		columns = strings.NewReplacer("e.data::text", "''", "d.salt", "NULL::bytea", "d.value", "NULL::text").Replace(columns)
		from = "event_log e"
	}
	return `
		SELECT ` + columns + `, ` + public + `
		  FROM ` + from + `
		 WHERE e.workspace_id = $1 AND e.position > $2` + upTo + `
		 ORDER BY e.position LIMIT $3`
}

// sweepSQL returns the SQL that finds the workspaces in which consumer $1 is behind and may try
// again at time $2.
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

// literal returns the name of a consumer as an SQL literal.
func literal(consumer string) string { return `'` + consumer + `'` }

// makeCheckpoints makes the missing checkpoints of a consumer that comes after another, in the
// given workspaces or, if none are given, in all. It returns the workspaces that got one. The
// statement is its own transaction, so that other processes wait only as long as it runs.
//
// The statement looks up each workspace's checkpoint separately. PostgreSQL would turn NOT EXISTS
// into a join. For a consumer that its statistics do not know yet, that join compares each
// workspace with all checkpoints: nine seconds for 20,000 workspaces.
func (k *claimer) makeCheckpoints(ctx context.Context, workspaces ...string) (made []string, err error) {
	rows, err := k.auxPool.Query(ctx, `
		WITH new AS MATERIALIZED (
		    SELECT v.workspace_id, $1::text FROM log_checkpoint v
		     WHERE v.consumer = $2 AND ($3::text[] IS NULL OR v.workspace_id = ANY ($3))
		       AND (SELECT c.position FROM log_checkpoint c WHERE c.workspace_id = v.workspace_id AND c.consumer = $1) IS NULL)
		INSERT INTO log_checkpoint (workspace_id, consumer)
		SELECT * FROM new
		    ON CONFLICT DO NOTHING RETURNING workspace_id`, k.consumer, k.after, workspaces)
	if err == nil {
		made, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, fmt.Errorf("make the checkpoints of %s: %w", k.consumer, err)
	}
	return made, nil
}

// leaveNew makes checkpoints for workspaces that could not be locked because they have none, and
// leaves these workspaces to the next claim.
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

// Segment holds the next entries of one workspace for a consumer.
type Segment struct {
	WorkspaceID string
	After       int64 // the checkpoint: position of the last entry handled before
	Entries     []domain.Entry
	Public      []string // with SubscriberConfig.Public, the public forms of the entries; empty: internal
	Pay         []bool   // with SubscriberConfig.Public, whether only readers with pay:read may see their events

	failures int
	failedTo int64
	full     bool     // there may be more entries after these
	next     claiming // how the workspace is claimed after this claim; 0: as usual
}

// End is the position of the segment's last entry.
func (s *Segment) End() int64 { return s.After + int64(len(s.Entries)) }

// cut removes the entries from a position on.
func (s *Segment) cut(position int64) { s.Entries = s.Entries[:position-s.After-1] }

// died is the SQL condition that the process of mark a ended before its work was done. A mark of
// this process does not count, because that work failed. Nor does one from before the database
// server started, because that work may have failed with the server.
const died = `(a.under_way AND a.position = excluded.position AND a.process <> excluded.process AND a.server_started = excluded.server_started)`

// suspectTo is the SQL for the position up to which entries are handled one by one.
const suspectTo = `(CASE WHEN ` + died + ` THEN greatest(a.suspect_to, a.through) ELSE a.suspect_to END)`

// markUnderWay marks the segments of a claim as in flight. If a segment is suspected of crashing
// the process, a claim of the solo worker cuts it to one entry, and other claims leave it out.
//
// It uses a different connection from the claim's, because the mark must outlive the claim's
// transaction. The table is unlogged: a mark means nothing after a crash of the server.
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
				c.Mass = true // a mass worker could handle it alongside another suspected entry, so it stays here
			}
			if m[0].Deaths >= deathsUntilQuarantine {
				c.deadly = &deadlyEntryError{m[0].Deaths}
			}
			marked = append(marked, s)
			return nil
		})
	}
	if err := k.auxPool.SendBatch(ctx, &marks).Close(); err != nil {
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

// markSQL marks one segment. It returns no row for a segment that is left to the solo worker.
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
