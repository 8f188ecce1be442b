package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/seededbug"
)

// Feed reads the events of workspaces: the public entries of their logs up to the
// visible position. It is safe for concurrent use.
type Feed struct {
	pool *pgxpool.Pool
	kept *keptHints

	named *pg.NamedWorkspaces // nil: it is one PostgreSQL
}

// NewFeed makes a Feed.
func NewFeed(pool *pgxpool.Pool) *Feed { return &Feed{pool: pool, kept: newKeptHints()} }

// mostNamed is how many workspaces have statements of their own on a cluster. Each has five at
// most, and each takes 400 kB of each connection there.
const mostNamed = 40

// NewClusterFeed makes a Feed of a Citus cluster, where statements name their workspace
// (pg.NamedWorkspaces): a page that is planned each time takes twice as long.
func NewClusterFeed(pool *pgxpool.Pool) *Feed {
	f := NewFeed(pool)
	f.named = pg.NewNamedWorkspaces(mostNamed)
	return f
}

// At is a feed of the same kind that is read with other connections.
func (f *Feed) At(pool *pgxpool.Pool) *Feed {
	if f.named != nil {
		return NewClusterFeed(pool)
	}
	return NewFeed(pool)
}

// read reads what a statement finds of a workspace, whose SQL it is given. The workspace is
// the statement's last argument, if it is one.
func (f *Feed) read(ctx context.Context, workspaceID string, statement func(workspace string) string, args []any, scan func(pgx.Rows) error) error {
	err := f.query(ctx, workspaceID, statement, args, scan)
	if err != nil {
		return fmt.Errorf("read the feed of %s: %w", workspaceID, err)
	}
	return nil
}

func (f *Feed) query(ctx context.Context, workspaceID string, statement func(workspace string) string, args []any, scan func(pgx.Rows) error) error {
	if f.named != nil && f.named.Has(workspaceID) {
		// Connections to a cluster make plans for the values, which would be each time. This
		// holds to the end of the batch, which is a transaction. The plan of log_position_since
		// must be for its values, so it is not said what plan this one has.
		var b pgx.Batch
		b.Queue(`SELECT set_config('plan_cache_mode', 'auto', true)`)
		b.Queue(statement(pg.Literal(workspaceID)), args...).Query(scan)
		return f.pool.SendBatch(ctx, &b).Close()
	}
	args = append(args, workspaceID)
	rows, err := f.pool.Query(ctx, statement("$"+strconv.Itoa(len(args))), args...)
	if err == nil {
		err = scan(rows)
	}
	return err
}

// FeedQuery asks for events of a workspace, oldest first.
type FeedQuery struct {
	WorkspaceID string

	// The page has events at positions higher than that of After. Resumed: After comes from a
	// cursor, and an event that is no longer kept after it is reported as Missed.
	// Otherwise the page starts at the oldest event that is kept, if that is later.
	After   Mark
	Resumed bool

	Since   time.Time // only events published then or later; zero: all
	Oldest  time.Time // events published before are past their retention
	Type    string    // only events of this type; empty: all
	Payouts bool      // with payout.paid, which needs pay:read
	Limit   int       // the most events of a page, 1 to MaxFeedPage
}

// FeedEvent is one event in its public form, byte for byte.
type FeedEvent struct {
	Mark

	JSON string
}

// FeedPage is a page of the feed. All of it is of one snapshot.
type FeedPage struct {
	Visible int64     // position up to which events may show
	MovedAt time.Time // when Visible last moved; zero: never
	Kept    int64     // first position that is within its retention
	Events  []FeedEvent
	More    bool // there are events after the last one

	// Next is where the reader continues: after the last event if there are more,
	// and otherwise after everything that the page has looked at, so that what the
	// query leaves out is stepped over once.
	Next Mark

	// Missed: the event that a Resumed reader must get next is past its
	// retention. Diverged: the log does not hold the entry at which the reader
	// stopped, see [Mark]. Events is empty in both cases.
	Missed, Diverged bool
}

// feedStatement makes the statement for a workspace and a combination of filters. The first row
// has the workspace's positions, the others are the events. It is one statement so
// that both are of one snapshot.
//
// The inner LIMIT is a literal so that the plan, which is made once for all
// values, is one for a few rows.
func feedStatement(workspace string, typed, payouts bool) string {
	filter := ""
	switch {
	case typed && !payouts: // with the type payout.paid nothing is left
		filter = ` AND type = $8 AND type <> '` + domain.TypePayoutPaid + `'`
	case typed:
		filter = ` AND type = $8`
	case !payouts:
		filter = ` AND type <> '` + domain.TypePayoutPaid + `'`
	}
	visible := "c.position"
	if seededbug.Active == seededbug.EventAheadOfData {
		visible = "(SELECT h.position FROM log_head h WHERE h.workspace_id = c.workspace_id)"
	}
	return `
		WITH positions AS MATERIALIZED (
			SELECT ` + visible + ` AS visible, c.moved_at, ` + keptFrom(workspace, "$1", "$7") + ` AS kept,
			       coalesce(log_position_since(c.workspace_id, $2), 1) AS since
			  FROM log_checkpoint c WHERE c.workspace_id = ` + workspace + ` AND c.consumer = '` + ReadModels + `'
		), seen AS MATERIALIZED (
			SELECT CASE WHEN $4 THEN visible ELSE greatest(visible, kept - 1) END AS seen_to FROM positions
		)
		(SELECT visible AS position, kept, coalesce((extract(epoch FROM moved_at) * 1000000)::bigint, 0)::text AS event, seen_to,
		        (SELECT ` + ChainStart + ` FROM event_log e WHERE e.workspace_id = ` + workspace + ` AND e.position = seen_to) AS chain,
		        ` + HoldsMark(workspace, "$3", "$6") + ` AS held
		   FROM positions, seen)
		UNION ALL
		(SELECT position, 0, public_event, 0, chain, true FROM (
			SELECT position, public_event, ` + ChainStart + ` AS chain FROM event_log e
			 WHERE workspace_id = ` + workspace + `
			   AND position > (SELECT greatest($3, since - 1, CASE WHEN $4 THEN 0 ELSE kept - 1 END) FROM positions)
			   AND position <= (SELECT visible FROM positions)
			   AND public_event IS NOT NULL` + filter + `
			 ORDER BY position LIMIT 101
		) e LIMIT $5)`
}

// MaxFeedPage is the most events of a page.
const MaxFeedPage = 100

// Page reads a page of events. The error is a *domain.UnknownWorkspaceError when
// there is no such workspace.
func (f *Feed) Page(ctx context.Context, q FeedQuery) (*FeedPage, error) {
	if q.Limit < 1 || q.Limit > MaxFeedPage {
		return nil, fmt.Errorf("read the feed of %s: a page has 1 to %d events, not %d", q.WorkspaceID, MaxFeedPage, q.Limit)
	}
	var since *time.Time
	if !q.Since.IsZero() {
		since = &q.Since
	}
	args := []any{q.Oldest, since, q.After.Position, q.Resumed, q.Limit + 1, q.After.Chain[:], f.hint(q.WorkspaceID)}
	if q.Type != "" {
		args = append(args, q.Type)
	}
	var page *FeedPage
	err := f.read(ctx, q.WorkspaceID, func(workspace string) string { return feedStatement(workspace, q.Type != "", q.Payouts) }, args,
		func(rows pgx.Rows) (err error) {
			page, err = scanFeed(rows)
			return err
		})
	if err != nil {
		return nil, err
	}
	if page == nil {
		return nil, &domain.UnknownWorkspaceError{WorkspaceID: q.WorkspaceID}
	}
	f.kept.Add(q.WorkspaceID, page.Kept)
	page.finish(&q)
	return page, nil
}

// finish completes a page by what its query asks for.
func (p *FeedPage) finish(q *FeedQuery) {
	if len(p.Events) > q.Limit {
		p.Events, p.More = p.Events[:q.Limit], true
		p.Next = p.Events[q.Limit-1].Mark
	}
	if p.Next.Position < q.After.Position { // the read models are behind the reader
		p.Next = q.After
	}
	p.Missed = q.Resumed && !p.Diverged && len(p.Events) > 0 && p.Events[0].Position < p.Kept
	if p.Missed || p.Diverged {
		p.Events, p.More = nil, false
	}
}

func scanFeed(rows pgx.Rows) (*FeedPage, error) {
	defer rows.Close()
	var page *FeedPage
	for rows.Next() {
		var (
			position, kept, seenTo int64
			event                  string
			chain                  []byte
			held                   bool
		)
		if err := rows.Scan(&position, &kept, &event, &seenTo, &chain, &held); err != nil {
			return nil, fmt.Errorf("scan: %w", err)
		}
		if page == nil {
			page = &FeedPage{Visible: position, Kept: kept, Next: NewMark(seenTo, chain), Diverged: !held}
			if micros, err := strconv.ParseInt(event, 10, 64); err == nil && micros > 0 {
				page.MovedAt = time.UnixMicro(micros).UTC()
			}
			continue
		}
		page.Events = append(page.Events, FeedEvent{NewMark(position, chain), event})
	}
	return page, rows.Err()
}

// KeptFrom returns the first position of a workspace that was published at
// oldest or later; one past the newest when there is none.
func (f *Feed) KeptFrom(ctx context.Context, workspaceID string, oldest time.Time) (int64, error) {
	var position int64
	err := f.read(ctx, workspaceID, func(workspace string) string {
		return `SELECT ` + keptFrom(workspace+"::text", "$1::timestamptz", "$2")
	}, []any{oldest, f.hint(workspaceID)},
		func(rows pgx.Rows) (err error) {
			if position, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64]); err != nil {
				return fmt.Errorf("find where it begins: %w", err)
			}
			return nil
		})
	if err != nil {
		return 0, err
	}
	f.kept.Add(workspaceID, position)
	return position, nil
}

// hint is the hint for a workspace.
func (f *Feed) hint(workspaceID string) int64 {
	first, _ := f.kept.Get(workspaceID)
	return first
}

// Event returns the public form of one event, or ok = false for what the feed would
// not show: unknown ids, internal entries, events that are not visible yet or were
// published before oldest, and, unless payouts is set, payout.paid. Visible is the
// position up to which events may show, in either case. The error is a
// *domain.UnknownWorkspaceError when there is no such workspace.
func (f *Feed) Event(ctx context.Context, workspaceID, id string, oldest time.Time, payouts bool) (event string, visible int64, ok bool, err error) {
	var found *string
	err = f.pool.QueryRow(ctx, `
		SELECT c.position, (SELECT e.public_event FROM event_log e
		         WHERE e.workspace_id = $1 AND e.id = $2 AND e.public_event IS NOT NULL AND e.position <= c.position
		           AND e.created_at >= $3 AND ($4 OR e.type <> '`+domain.TypePayoutPaid+`'))
		  FROM log_checkpoint c WHERE c.workspace_id = $1 AND c.consumer = '`+ReadModels+`'`,
		workspaceID, id, oldest, payouts).Scan(&visible, &found)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", 0, false, &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
	}
	if err != nil {
		return "", 0, false, fmt.Errorf("read event %s of %s: %w", id, workspaceID, err)
	}
	if found == nil {
		return "", visible, false, nil
	}
	return *found, visible, true, nil
}
