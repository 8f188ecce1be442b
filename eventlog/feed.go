package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Feed reads the events of workspaces: the public entries of their logs up to the
// visible position. It is safe for concurrent use.
type Feed struct {
	pool   pg.DB
	places *placesOfFeeds
}

// NewFeed makes a Feed.
func NewFeed(pool pg.DB) *Feed { return &Feed{pool: pool, places: newPlacesOfFeeds()} }

// statement is a query about one workspace, whose id is $1. It scans each row into columns and then
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

// read runs statements for a workspace in one round trip.
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

// NeedsPay returns the SQL condition that only readers with pay:read may see an entry's event: a
// payout, or a charge whose entry says that it is not billed to the client (docs/contract/log.md,
// "What the feed and webhooks show"). row is the alias of event_log; empty: it has none. The
// condition is never NULL. No other code decides this, so that lists, trees and their checks agree.
func NeedsPay(row string) string {
	if row != "" {
		row += "."
	}
	return `(` + row + `type = '` + domain.TypePayoutPaid + `' OR ` + row + `type IN ('` + domain.TypeChargeCreated + `', '` + domain.TypeChargeDeleted + `')
		AND ` + row + `data ->> 'billed_to_client' IS NOT DISTINCT FROM 'false')`
}

// Event returns the public form of one event, or ok = false for what the feed would not show:
// unknown ids, internal entries, events that are not visible yet or were published before oldest,
// and, unless pay is set, events that need pay:read. visible is the visible position in both cases.
// The error is a *domain.UnknownWorkspaceError if there is no such workspace.
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

// MaxFeedPage is the maximum number of events in a page.
const MaxFeedPage = 100

// FeedQuery asks for events of a workspace, oldest first.
type FeedQuery struct {
	WorkspaceID string

	// The page has events at positions after After. Resumed means that After comes from a cursor:
	// if the next event is no longer kept, the page reports Missed. Otherwise the page starts at
	// the oldest event that is kept, if that is later.
	After   Mark
	Resumed bool

	Since  time.Time // only events published then or later; zero: all
	Oldest time.Time // events published before it are past their retention
	Type   string    // only events of this type; empty: all
	Pay    bool      // include events that need pay:read
	Limit  int       // maximum events in the page, 1 to MaxFeedPage
}

// FeedEvent is one event in its public form, byte for byte.
type FeedEvent struct {
	Mark

	JSON string
}

// FeedPage is a page of the feed. It never mixes entries from before and after the log was set
// back.
type FeedPage struct {
	Visible int64     // the visible position
	MovedAt time.Time // when Visible last moved; zero: never
	Kept    int64     // first position that is within its retention
	Events  []FeedEvent
	More    bool // there are events after the last one

	// Next is where the reader continues: after the last event if there are more, and otherwise
	// after everything that the page has looked at, so that events that the query leaves out are
	// skipped only once.
	Next Mark

	// Missed: the next event for a Resumed reader is past its retention. Diverged: the log does not
	// hold the entry at which the reader stopped, see [Mark]. Events is empty in both cases.
	Missed, Diverged bool
}

// errSetBack says that the log was set back during every attempt to read a page.
var errSetBack = errors.New("the log is set back while it is read")

// maxReads is the maximum number of attempts to read a page while the log is set back.
const maxReads = 3

// Page reads a page of events. The error is a *domain.UnknownWorkspaceError when
// there is no such workspace.
func (f *Feed) Page(ctx context.Context, q FeedQuery) (*FeedPage, error) {
	if q.Limit < 1 || q.Limit > MaxFeedPage {
		return nil, fmt.Errorf("read the feed of %s: a page has 1 to %d events, not %d", q.WorkspaceID, MaxFeedPage, q.Limit)
	}
	q.Oldest = inMicroseconds(q.Oldest)
	for range maxReads {
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

// page reads a page; nil: the log was set back meanwhile. It needs one round trip if the feed still
// begins where it last did and the Mark to continue from is already known. That is the Mark of the
// page's last event, of the reader, or of the end of the page before.
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
		if err == nil && !q.Resumed { // the page did not begin at the right place
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
	// Read the whole page again with the entry at end. That entry alone is not enough: it may
	// belong to another log if another server has taken over meanwhile.
	known.visible = end
	again, err := f.readPage(ctx, q, known)
	if err != nil || !again.settled() || again.before.visible < r.before.visible {
		return nil, err
	}
	again.before = r.before
	if page, end = again.page(q, known.kept); end > 0 {
		page.Next = Mark{Position: end} // the log has no entry at the visible position
	}
	return page, nil
}

// readings holds what the statements of a page find.
type readings struct {
	before, after *visibleAt // from the first and the last statement; nil: there is no such workspace
	entries       map[int64]entryAt
	events        []FeedEvent
}

// visibleAt is the visible position, and when it moved there.
type visibleAt struct{ visible, movedAt int64 } // movedAt in microseconds; 0: never

// settled reports whether the log was not set back between the first and the last statement. It
// does not detect a workspace that moves away and back, which takes far longer.
func (r *readings) settled() bool {
	return r.before != nil && r.after != nil && r.before.visible <= r.after.visible
}

// readPage reads a page in one round trip. Each statement reads one table, because PostgreSQL then
// keeps its plan. So the statements have different snapshots, and the later ones may find entries
// above the visible position. Visible entries never change, and are removed only after the visible
// position was set back. The last statement reads that position again to detect this.
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

// eventsStatement reads the events after a position: one more than the page may have, to find out
// whether there are more.
func eventsStatement(into *[]FeedEvent, q *FeedQuery, from int64) statement {
	filter, args := "", []any{from, q.Limit + 1}
	and := func(condition string, value any) {
		args = append(args, value)
		filter += fmt.Sprintf(` AND `+condition, len(args)+1) // $1 is the workspace
	}
	if !q.Pay { // together with the type payout.paid, this finds nothing
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

// page makes the page from the readings. end is the position after which the reader continues, if
// the entry there must still be read for its Mark; 0: page.Next is complete.
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

// holds reports whether the log holds a Mark. A Mark whose bytes are not known counts as held.
func (r *readings) holds(m Mark) bool {
	if m.Chain == (Mark{}).Chain {
		return true
	}
	return r.entries[m.Position].Mark == m
}

// knownPlaces remembers where a workspace's feed began and ended when it was last read, which saves
// a search.
type knownPlaces struct {
	kept    int64 // where it began; nearly always still right, because it moves with the clock; 0: not known
	visible int64 // where it ended
}

// placesOfFeeds caches the knownPlaces of workspaces.
type placesOfFeeds = lru.Cache[string, knownPlaces]

// mostPlaces is the maximum number of workspaces in the cache.
const mostPlaces = 20_000

func newPlacesOfFeeds() *placesOfFeeds {
	places, _ := lru.New[string, knownPlaces](mostPlaces) // fails only for sizes below 1
	return places
}

func (f *Feed) known(workspaceID string) knownPlaces {
	known, _ := f.places.Get(workspaceID)
	return known
}

// KeptFrom returns the first position of a workspace that was published at oldest or later; one
// past the newest position if there is none.
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

// inMicroseconds truncates a time to the database's precision, so that Go compares it as SQL does.
func inMicroseconds(t time.Time) time.Time { return t.Truncate(time.Microsecond) }

// searchKept is KeptFrom without the cache.
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

// entryAt is what a page needs to know about an entry.
type entryAt struct {
	Mark

	createdAt time.Time
}

// entriesStatement reads the entries that the log has at the given positions.
func entriesStatement(into map[int64]entryAt, positions ...int64) statement {
	var (
		position  int64
		createdAt time.Time
		chain     []byte
	)
	return statement{
		// With position = ANY ($2), PostgreSQL would read the whole log of a workspace that has
		// more entries than most, because it uses the same plan for all workspaces.
		sql: `SELECT e.* FROM unnest($2::bigint[]) AS k (position) CROSS JOIN LATERAL (
		        SELECT e.position, e.created_at, ` + ChainStart + ` FROM event_log e
		         WHERE e.workspace_id = $1 AND e.position BETWEEN k.position AND k.position ORDER BY e.position LIMIT 1) AS e`,
		args:    []any{positions},
		columns: []any{&position, &createdAt, &chain},
		each:    func() { into[position] = entryAt{NewMark(position, chain), createdAt} },
	}
}

// begins reports whether the feed begins at a position: the entry there was not published before
// oldest, and the entry before it was. Publish times never fall, so these two are enough. An entry
// above the visible position does not matter: it may have been appended since.
func begins(position int64, oldest time.Time, entries map[int64]entryAt, visible int64) bool {
	if e, found := entries[position]; found && position <= visible && e.createdAt.Before(oldest) {
		return false
	}
	e, found := entries[position-1]
	return found && e.createdAt.Before(oldest) || position == 1
}

// Mark is a position of a workspace's log with the first bytes of the chain value there. A reader
// that keeps a Mark outside the database can tell later whether the log up to there is still the
// one that it has read. If an older backup was restored, or a server took over without the last
// commits, other entries get the same positions. The zero Mark is the start of every log.
type Mark struct {
	Position int64
	Chain    [8]byte // the first bytes of the entry's chain value; zero at position 0, or if they are not known
}

// NewMark makes a Mark from a position and what ChainStart selects there; nil at position 0.
func NewMark(position int64, chain []byte) Mark {
	m := Mark{Position: position}
	copy(m.Chain[:], chain)
	return m
}

// ChainStart is the SQL for the bytes of a Mark, from a row e of event_log.
const ChainStart = `substr(e.chain, 1, 8)`

// HoldsMark returns the SQL condition that the log of a workspace holds a Mark. The arguments are
// SQL for the workspace's id and the Mark's position and bytes. The condition is true if the bytes
// are not known.
func HoldsMark(workspaceID, position, chain string) string {
	return `(` + chain + `::bytea = '\x0000000000000000' OR coalesce(` + AtPosition(ChainStart, workspaceID, position+`::bigint`) + ` = ` + chain + `, false))`
}

// AtPosition returns the SQL for a value of the entry e at a position of a workspace's log; null:
// there is no entry. Selecting a range of one position, in the order of positions, makes PostgreSQL
// use the index on positions, whatever its statistics say about the workspace.
func AtPosition(value, workspaceID, position string) string {
	return `(SELECT ` + value + ` FROM event_log e WHERE e.workspace_id = ` + workspaceID +
		` AND e.position BETWEEN ` + position + ` AND ` + position + ` ORDER BY e.position LIMIT 1)`
}

// markOf returns the Mark of an entry.
func markOf(e *domain.Entry) Mark { return NewMark(e.Position, e.Chain[:8]) }

// OtherLogError says that the log of a workspace is not the one that a Mark was taken from.
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

// WalkAfter is Walk after a Mark. The error is an *OtherLogError if the log does not hold the Mark,
// or stops holding it during the walk. A Mark whose chain is not known (all zero) is not compared.
func (l *Log) WalkAfter(ctx context.Context, workspaceID string, after Mark, do func(*domain.Entry) error) error {
	for {
		known := after.Chain != [8]byte{}
		from := after.Position
		if known {
			from-- // read the entry of the Mark, too
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
