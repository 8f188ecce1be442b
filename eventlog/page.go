package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

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
