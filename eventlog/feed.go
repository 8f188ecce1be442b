package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Feed reads the events of workspaces: the public entries of their logs up to the
// visible position. It is safe for concurrent use.
type Feed struct {
	pool   *pgxpool.Pool
	places *placesOfFeeds
}

// NewFeed makes a Feed.
func NewFeed(pool *pgxpool.Pool) *Feed { return &Feed{pool: pool, places: newPlacesOfFeeds()} }

// statement reads something of a workspace, which is $1. It scans each row into columns and then
// calls each.
type statement struct {
	sql     string
	args    []any // from $2 on
	columns []any
	each    func()
}

func (s *statement) scan(rows pgx.Rows) error {
	_, err := pgx.ForEachRow(rows, s.columns, func() error {
		s.each()
		return nil
	})
	if err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	return nil
}

// read reads what statements find of a workspace, in one round trip.
func (f *Feed) read(ctx context.Context, workspaceID string, statements ...statement) error {
	var b pgx.Batch
	for i := range statements {
		s := &statements[i]
		b.Queue(s.sql, append([]any{workspaceID}, s.args...)...).Query(s.scan)
	}
	if err := f.pool.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("read the feed of %s: %w", workspaceID, err)
	}
	return nil
}

// NeedsPay is the condition, as SQL, that only readers with pay:read may see the event of an entry:
// of a payout, and of a charge whose entry says that it is not billed to the client
// (docs/contract/log.md, "What the feed and webhooks show"). Row is the name of the row of
// event_log; empty: it has none. It is never NULL. This is the only place that decides it, so that
// lists, the trees and what checks them agree.
func NeedsPay(row string) string {
	if row != "" {
		row += "."
	}
	return `(` + row + `type = '` + domain.TypePayoutPaid + `' OR ` + row + `type IN ('` + domain.TypeChargeCreated + `', '` + domain.TypeChargeDeleted + `')
		AND ` + row + `data ->> 'billed_to_client' IS NOT DISTINCT FROM 'false')`
}

// Event returns the public form of one event, or ok = false for what the feed would
// not show: unknown ids, internal entries, events that are not visible yet or were
// published before oldest, and, unless pay is set, those that need pay:read. Visible is the
// position up to which events may show, in either case. The error is a
// *domain.UnknownWorkspaceError when there is no such workspace.
func (f *Feed) Event(ctx context.Context, workspaceID, id string, oldest time.Time, pay bool) (event string, visible int64, ok bool, err error) {
	var found *string
	err = QueryRowInOrder(ctx, f.pool, []any{&visible, &found}, `
		SELECT c.position, (SELECT e.public_event FROM event_log e
		         WHERE e.workspace_id = $1 AND e.id BETWEEN $2 AND $2 AND e.public_event IS NOT NULL AND e.position <= c.position
		           AND e.created_at >= $3 AND ($4 OR NOT `+NeedsPay("e")+`) ORDER BY e.id)
		  FROM log_checkpoint c WHERE c.workspace_id = $1 AND c.consumer = '`+ReadModels+`'`,
		workspaceID, id, oldest, pay)
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

// MaxFeedPage is the most events of a page.
const MaxFeedPage = 100

// FeedQuery asks for events of a workspace, oldest first.
type FeedQuery struct {
	WorkspaceID string

	// The page has events at positions higher than that of After. Resumed: After comes from a
	// cursor, and an event that is no longer kept after it is reported as Missed.
	// Otherwise the page starts at the oldest event that is kept, if that is later.
	After   Mark
	Resumed bool

	Since  time.Time // only events published then or later; zero: all
	Oldest time.Time // events published before are past their retention
	Type   string    // only events of this type; empty: all
	Pay    bool      // with the events that need pay:read
	Limit  int       // the most events of a page, 1 to MaxFeedPage
}

// FeedEvent is one event in its public form, byte for byte.
type FeedEvent struct {
	Mark

	JSON string
}

// FeedPage is a page of the feed. All that it says of entries is of one log.
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

// errSetBack says that the log was set back during each reading of a page.
var errSetBack = errors.New("the log is set back while it is read")

// mostReadings is how often a page is read at most while the log is set back.
const mostReadings = 3

// Page reads a page of events. The error is a *domain.UnknownWorkspaceError when
// there is no such workspace.
func (f *Feed) Page(ctx context.Context, q FeedQuery) (*FeedPage, error) {
	if q.Limit < 1 || q.Limit > MaxFeedPage {
		return nil, fmt.Errorf("read the feed of %s: a page has 1 to %d events, not %d", q.WorkspaceID, MaxFeedPage, q.Limit)
	}
	q.Oldest = inMicroseconds(q.Oldest)
	for range mostReadings {
		page, err := f.page(ctx, &q)
		if err != nil {
			return nil, err
		}
		if page != nil {
			f.places.Add(q.WorkspaceID, knownPlaces{page.Kept, page.Visible})
			return page, nil
		}
	}
	return nil, fmt.Errorf("read the feed of %s: %w", q.WorkspaceID, errSetBack)
}

// page reads a page: in one round trip, if the feed begins where it did, and if the page has
// more behind it or ends with an event, or where the reader or the page before did. It is nil if
// the log was set back meanwhile.
func (f *Feed) page(ctx context.Context, q *FeedQuery) (*FeedPage, error) {
	known := f.known(q.WorkspaceID)
	searched := known.kept == 0
	if searched {
		var err error
		if known.kept, err = f.searchKept(ctx, q.WorkspaceID, q.Oldest); err != nil {
			return nil, err
		}
	}
	r, err := f.readPage(ctx, q, known)
	if err == nil && !searched && r.settled() && !begins(known.kept, q.Oldest, r.entries, r.before.visible) {
		known.kept, err = f.searchKept(ctx, q.WorkspaceID, q.Oldest)
		if err == nil && !q.Resumed { // it did not begin at the right place
			r, err = f.readPage(ctx, q, known)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case r.before == nil:
		return nil, &domain.UnknownWorkspaceError{WorkspaceID: q.WorkspaceID}
	case !r.settled():
		return nil, nil
	}
	page, end := r.page(q, known.kept)
	if end == 0 {
		return page, nil
	}
	// All of the page is read again: the entry may be of another log, if another server has
	// taken over meanwhile.
	known.visible = end
	again, err := f.readPage(ctx, q, known)
	if err != nil || !again.settled() || again.before.visible < r.before.visible {
		return nil, err
	}
	again.before = r.before
	if page, end = again.page(q, known.kept); end > 0 {
		page.Next = Mark{Position: end} // what is visible is not in the log
	}
	return page, nil
}

// readings are what the statements of a page find.
type readings struct {
	before, after *visibleAt // first and last of all; nil: there is no such workspace
	entries       map[int64]entryAt
	events        []FeedEvent
}

// visibleAt is the visible position, and when it was moved there.
type visibleAt struct{ visible, movedAt int64 } // movedAt in microseconds; 0: never

// settled reports whether the log was not set back between the first and the last statement. A
// workspace that leaves and comes back takes far longer.
func (r *readings) settled() bool {
	return r.before != nil && r.after != nil && r.before.visible <= r.after.visible
}

// readPage reads a page in one round trip. Each statement is about one table, because
// PostgreSQL keeps the plans of those, so they are of
// several snapshots, and what is above the visible position may show in the later ones. What is
// visible stays as it is: entries are never changed, and removed only after the visible position
// was set back, which is why it is read once more at the end.
func (f *Feed) readPage(ctx context.Context, q *FeedQuery, known knownPlaces) (*readings, error) {
	from := q.After.Position
	if !q.Resumed {
		from = max(from, known.kept-1)
	}
	r := &readings{entries: map[int64]entryAt{}}
	err := f.read(ctx, q.WorkspaceID,
		visibleStatement(&r.before),
		entriesStatement(r.entries, known.kept-1, known.kept, q.After.Position, known.visible),
		eventsStatement(&r.events, q, from),
		visibleStatement(&r.after))
	return r, err
}

// visibleStatement reads the visible position.
func visibleStatement(into **visibleAt) statement {
	v := &visibleAt{}
	return statement{
		sql: `SELECT c.position, coalesce((extract(epoch FROM c.moved_at) * 1000000)::bigint, 0)
		        FROM log_checkpoint c WHERE c.workspace_id = $1 AND c.consumer = '` + ReadModels + `'`,
		columns: []any{&v.visible, &v.movedAt},
		each:    func() { *into = v },
	}
}

// eventsStatement reads the events behind a position: one more than a page has, so that it shows
// whether there are more.
func eventsStatement(into *[]FeedEvent, q *FeedQuery, from int64) statement {
	filter, args := "", []any{from, q.Limit + 1}
	and := func(condition string, value any) {
		args = append(args, value)
		filter += fmt.Sprintf(` AND `+condition, len(args)+1) // $1 is the workspace
	}
	if !q.Pay { // with the type payout.paid nothing is left
		filter = ` AND NOT ` + NeedsPay("e")
	}
	if q.Type != "" {
		and(`e.type = $%d`, q.Type)
	}
	if !q.Since.IsZero() {
		and(`e.position >= log_position_since($1, $%d)`, q.Since)
	}
	var (
		position int64
		event    string
		chain    []byte
	)
	return statement{
		sql: `SELECT e.position, e.public_event, ` + ChainStart + ` FROM event_log e
		       WHERE e.workspace_id = $1 AND e.position > $2
		         AND e.position <= (SELECT c.position FROM log_checkpoint c WHERE c.workspace_id = $1 AND c.consumer = '` + ReadModels + `')
		         AND e.public_event IS NOT NULL` + filter + `
		       ORDER BY e.position LIMIT $3`,
		args:    args,
		columns: []any{&position, &event, &chain},
		each:    func() { *into = append(*into, FeedEvent{NewMark(position, chain), event}) },
	}
}

// page is the page that was read. End is the position after which the reader continues, if the
// entry there has still to be read for it; 0: it has not.
func (r *readings) page(q *FeedQuery, kept int64) (page *FeedPage, end int64) {
	page = &FeedPage{Visible: r.before.visible, Kept: kept, Next: q.After, Diverged: !r.holds(q.After)}
	if r.before.movedAt > 0 {
		page.MovedAt = time.UnixMicro(r.before.movedAt).UTC()
	}
	for i := range r.events {
		if r.events[i].Position > page.Visible {
			break
		}
		page.Events = r.events[:i+1]
	}
	page.Missed = q.Resumed && !page.Diverged && len(page.Events) > 0 && page.Events[0].Position < kept
	if page.Missed || page.Diverged {
		page.Events = nil
	}
	if len(page.Events) > q.Limit {
		page.Events, page.More = page.Events[:q.Limit], true
	}
	if n := len(page.Events); n > 0 {
		page.Next = page.Events[n-1].Mark
	}
	if page.More {
		return page, 0
	}
	end = page.Visible
	if !q.Resumed {
		end = max(end, kept-1)
	}
	switch _, found := r.entries[end]; {
	case end < page.Next.Position: // the read models are behind the reader
		return page, 0
	case found, end == 0:
		page.Next = r.entries[end].Mark
		return page, 0
	case len(page.Events) > 0 && end == page.Next.Position:
		return page, 0
	}
	return page, end
}

// holds reports whether the log holds a Mark. It does if its bytes are not known.
func (r *readings) holds(m Mark) bool {
	if m.Chain == (Mark{}).Chain {
		return true
	}
	return r.entries[m.Position].Mark == m
}

// knownPlaces are places of a workspace's feed as they were when it was last read, so that they
// need not be searched for again.
type knownPlaces struct {
	kept    int64 // where it began; it moves with the clock, so it is nearly always there still; 0: not known
	visible int64 // where it ended
}

// placesOfFeeds are the places of the feeds of workspaces.
type placesOfFeeds = lru.Cache[string, knownPlaces]

// mostPlaces is of how many workspaces places are known.
const mostPlaces = 20_000

func newPlacesOfFeeds() *placesOfFeeds {
	places, _ := lru.New[string, knownPlaces](mostPlaces) // fails only for sizes below 1
	return places
}

func (f *Feed) known(workspaceID string) knownPlaces {
	known, _ := f.places.Get(workspaceID)
	return known
}

// KeptFrom returns the first position of a workspace that was published at
// oldest or later; one past the newest when there is none.
func (f *Feed) KeptFrom(ctx context.Context, workspaceID string, oldest time.Time) (int64, error) {
	oldest = inMicroseconds(oldest)
	known := f.known(workspaceID)
	if known.kept > 0 {
		entries := map[int64]entryAt{}
		if err := f.read(ctx, workspaceID, entriesStatement(entries, known.kept-1, known.kept)); err != nil {
			return 0, err
		}
		if begins(known.kept, oldest, entries, math.MaxInt64) {
			return known.kept, nil
		}
	}
	kept, err := f.searchKept(ctx, workspaceID, oldest)
	if err != nil {
		return 0, err
	}
	known.kept = kept
	f.places.Add(workspaceID, known)
	return kept, nil
}

// inMicroseconds is a time as the database gets it, so that both compare alike.
func inMicroseconds(t time.Time) time.Time { return t.Truncate(time.Microsecond) }

// searchKept is KeptFrom without what is known.
func (f *Feed) searchKept(ctx context.Context, workspaceID string, oldest time.Time) (kept int64, err error) {
	err = f.read(ctx, workspaceID, statement{
		sql:     `SELECT log_position_since($1::text, $2)`,
		args:    []any{oldest},
		columns: []any{&kept},
		each:    func() {},
	})
	if err != nil {
		return 0, fmt.Errorf("find where it begins: %w", err)
	}
	return kept, nil
}

// entryAt is what a page needs to know of an entry.
type entryAt struct {
	Mark

	createdAt time.Time
}

// entriesStatement reads those of the entries at positions that are in the log.
func entriesStatement(into map[int64]entryAt, positions ...int64) statement {
	var (
		position  int64
		createdAt time.Time
		chain     []byte
	)
	return statement{
		// As position = ANY ($2) it would read the whole log of a workspace that has more entries than
		// most, because the plan is the same for all.
		sql: `SELECT e.* FROM unnest($2::bigint[]) AS k (position) CROSS JOIN LATERAL (
		        SELECT e.position, e.created_at, ` + ChainStart + ` FROM event_log e
		         WHERE e.workspace_id = $1 AND e.position BETWEEN k.position AND k.position ORDER BY e.position LIMIT 1) AS e`,
		args:    []any{positions},
		columns: []any{&position, &createdAt, &chain},
		each:    func() { into[position] = entryAt{NewMark(position, chain), createdAt} },
	}
}

// begins reports whether the feed begins at a position, from the entries there and before: the
// one is not published before oldest, the other is. Publish times rise with the positions. What
// is above the visible position does not matter: it may have been appended since.
func begins(position int64, oldest time.Time, entries map[int64]entryAt, visible int64) bool {
	if e, found := entries[position]; found && position <= visible && e.createdAt.Before(oldest) {
		return false
	}
	e, found := entries[position-1]
	return found && e.createdAt.Before(oldest) || position == 1
}

// Mark is a position of a workspace's log with the start of the chain there. A
// reader that keeps a Mark outside the database can tell later whether the log up
// to there is still the one that it has read: an older backup that was restored, or
// a server that took over without the last commits, gives the same positions to
// other entries. The zero Mark is the start of every log.
type Mark struct {
	Position int64
	Chain    [8]byte // the first bytes of the entry's chain value; zero at position 0, or if they are not known
}

// NewMark makes a Mark of what ChainStart selects for a position; nil at position 0.
func NewMark(position int64, chain []byte) Mark {
	m := Mark{Position: position}
	copy(m.Chain[:], chain)
	return m
}

// ChainStart is the SQL of the bytes of a Mark, of a row e of event_log.
const ChainStart = `substr(e.chain, 1, 8)`

// HoldsMark is the SQL condition that the log of a workspace holds a Mark, from the
// SQL of the workspace's id and of the Mark's position and bytes. It is true if the bytes
// are not known.
func HoldsMark(workspaceID, position, chain string) string {
	return `(` + chain + `::bytea = '\x0000000000000000' OR coalesce(` + AtPosition(ChainStart, workspaceID, position+`::bigint`) + ` = ` + chain + `, false))`
}

// AtPosition is the SQL of a value of the entry e at a position of a workspace's log; null: there
// is no entry. A range of one position in the order of positions is read along their index,
// whatever the statistics say of the workspace.
func AtPosition(value, workspaceID, position string) string {
	return `(SELECT ` + value + ` FROM event_log e WHERE e.workspace_id = ` + workspaceID +
		` AND e.position BETWEEN ` + position + ` AND ` + position + ` ORDER BY e.position LIMIT 1)`
}

// markOf is the Mark of an entry.
func markOf(e *domain.Entry) Mark { return NewMark(e.Position, e.Chain[:8]) }

// OtherLogError says that the log of a workspace is not the one that a Mark was taken
// of.
type OtherLogError struct {
	WorkspaceID string
	Position    int64 // of the Mark
	Head        int64 // newest position of the log
}

// Error says what is different, and how that comes about.
func (e *OtherLogError) Error() string {
	what := "holds another entry there"
	if e.Head < e.Position {
		what = fmt.Sprintf("has come to position %d only", e.Head)
	}
	return fmt.Sprintf("cannot continue after position %d of %s: the log %s, because an older backup was restored or a server without the last commits took over",
		e.Position, e.WorkspaceID, what)
}

// WalkAfter is Walk after a Mark. The error is an *OtherLogError when the log does not
// hold the Mark, also when that comes about during the walk. A Mark of a position
// whose chain is not known, all zero, is not compared.
func (l *Log) WalkAfter(ctx context.Context, workspaceID string, after Mark, do func(*domain.Entry) error) error {
	for {
		known := after.Chain != [8]byte{}
		from := after.Position
		if known {
			from-- // the entry of the Mark, too
		}
		entries, err := l.Read(ctx, workspaceID, from, readPage)
		if err != nil {
			return err
		}
		full := len(entries) == readPage
		if known {
			if len(entries) == 0 || markOf(&entries[0]) != after {
				return l.otherLog(ctx, workspaceID, after)
			}
			entries = entries[1:]
		}
		for i := range entries {
			if err := do(&entries[i]); err != nil {
				return err
			}
			after = markOf(&entries[i])
		}
		if !full {
			return nil
		}
	}
}

func (l *Log) otherLog(ctx context.Context, workspaceID string, m Mark) error {
	head, err := l.Head(ctx, workspaceID)
	if _, gone := errors.AsType[*domain.UnknownWorkspaceError](err); err != nil && !gone {
		return err
	}
	return &OtherLogError{WorkspaceID: workspaceID, Position: m.Position, Head: head.Position}
}
