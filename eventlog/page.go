package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/seededbug"
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

// FeedPage is a page of the feed. All of it is of one state of the log.
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

// errUnsettled says that the log was set back during each reading of a page.
var errUnsettled = errors.New("the log changes while it is read")

// mostReadings is how often a page is read at most: once more when the feed does not begin where
// it did, once more when it does not end where it did and the page does not show the entry there,
// and a few times when the log is set back meanwhile.
const mostReadings = 4

// Page reads a page of events. The error is a *domain.UnknownWorkspaceError when
// there is no such workspace.
func (f *Feed) Page(ctx context.Context, q FeedQuery) (*FeedPage, error) {
	if q.Limit < 1 || q.Limit > MaxFeedPage {
		return nil, fmt.Errorf("read the feed of %s: a page has 1 to %d events, not %d", q.WorkspaceID, MaxFeedPage, q.Limit)
	}
	known := f.known(q.WorkspaceID)
	var page *FeedPage
	for range mostReadings {
		if known.kept == 0 {
			var err error
			if known.kept, err = f.searchKept(ctx, q.WorkspaceID, q.Oldest); err != nil {
				return nil, err
			}
		}
		r, err := f.readPage(ctx, &q, known)
		if err != nil {
			return nil, err
		}
		if r.before == nil {
			return nil, &domain.UnknownWorkspaceError{WorkspaceID: q.WorkspaceID}
		}
		if r.after == nil || r.after.visible < r.before.visible {
			known = knownPlaces{}
			continue
		}
		if !begins(known.kept, q.Oldest, r.entries) {
			known.kept = 0
			continue
		}
		var whole bool
		if page, whole = r.page(&q, known.kept); whole {
			break
		}
		known.visible = page.Visible
	}
	if page == nil {
		return nil, fmt.Errorf("read the feed of %s: %w", q.WorkspaceID, errUnsettled)
	}
	f.places.Add(q.WorkspaceID, knownPlaces{page.Kept, page.Visible})
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

// readPage reads a page in one round trip. Each statement is about one table, because a Citus
// cluster keeps the plans of those, and one PostgreSQL is faster with them, too. So they are of
// several snapshots, which shows in nothing: entries are appended above what is visible, never
// changed, and removed only after the visible position was set back, which is why it is read once
// more at the end.
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
	visible := "c.position"
	if seededbug.Active == seededbug.EventAheadOfData {
		visible = "(SELECT h.position FROM log_head h WHERE h.workspace_id = c.workspace_id)"
	}
	v := &visibleAt{}
	return statement{
		sql: func(workspace string) string {
			return `SELECT ` + visible + `, coalesce((extract(epoch FROM c.moved_at) * 1000000)::bigint, 0)
				  FROM log_checkpoint c WHERE c.workspace_id = ` + workspace + ` AND c.consumer = '` + ReadModels + `'`
		},
		columns: []any{&v.visible, &v.movedAt},
		each:    func() { *into = v },
	}
}

// eventsStatement reads the events behind a position: one more than a page has, so that it shows
// whether there are more.
func eventsStatement(into *[]FeedEvent, q *FeedQuery, from int64) statement {
	filter, args := "", []any{from, q.Limit + 1}
	if !q.Payouts { // with the type payout.paid nothing is left
		filter = ` AND e.type <> '` + domain.TypePayoutPaid + `'`
	}
	if q.Type != "" {
		filter, args = filter+fmt.Sprintf(` AND e.type = $%d`, len(args)+1), append(args, q.Type)
	}
	var (
		since    string
		position int64
		event    string
		chain    []byte
	)
	if !q.Since.IsZero() {
		since, args = fmt.Sprintf(`$%d`, len(args)+1), append(args, q.Since)
	}
	return statement{
		sql: func(workspace string) string {
			behind := ""
			if since != "" {
				behind = ` AND e.position >= log_position_since(` + workspace + `, ` + since + `)`
			}
			return `SELECT e.position, e.public_event, ` + ChainStart + ` FROM event_log e
				 WHERE e.workspace_id = ` + workspace + ` AND e.position > $1` + behind + ` AND e.public_event IS NOT NULL` + filter + `
				 ORDER BY e.position LIMIT $2`
		},
		args:    args,
		columns: []any{&position, &event, &chain},
		each:    func() { *into = append(*into, FeedEvent{NewMark(position, chain), event}) },
	}
}

// page is the page that was read. Whole: Next is as far as it can be.
func (r *readings) page(q *FeedQuery, kept int64) (page *FeedPage, whole bool) {
	p := &FeedPage{Visible: r.before.visible, Kept: kept, Next: q.After, Diverged: !r.holds(q.After)}
	if r.before.movedAt > 0 {
		p.MovedAt = time.UnixMicro(r.before.movedAt).UTC()
	}
	for i := range r.events {
		if r.events[i].Position > p.Visible {
			r.events = r.events[:i]
			break
		}
	}
	p.Events = r.events
	p.Missed = q.Resumed && !p.Diverged && len(p.Events) > 0 && p.Events[0].Position < kept
	if p.Missed || p.Diverged {
		p.Events = nil
	}
	if len(p.Events) > q.Limit {
		p.Events, p.More = p.Events[:q.Limit], true
	}
	if n := len(p.Events); n > 0 {
		p.Next = p.Events[n-1].Mark
	}
	if p.More {
		return p, true
	}
	end := p.Visible
	if !q.Resumed {
		end = max(end, kept-1)
	}
	if end <= p.Next.Position { // or the read models are behind the reader
		return p, true
	}
	e, found := r.entries[end]
	if found {
		p.Next = e.Mark
	}
	return p, found
}

// holds reports whether the log holds a Mark. It does if its bytes are not known.
func (r *readings) holds(m Mark) bool {
	if m.Chain == (Mark{}).Chain || seededbug.Active == seededbug.UncheckedChain {
		return true
	}
	return r.entries[m.Position].Mark == m
}
