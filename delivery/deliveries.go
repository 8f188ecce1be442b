package delivery

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Query selects deliveries.
type Query struct {
	State     policy.State // empty: all
	EventType string       // empty: all
	NoPay     bool         // leave out deliveries of events that need pay:read
	Since     time.Time    // only those first sent then or later; zero: all
	Before    time.Time    // only those first sent before; zero: all

	// About selects deliveries by event: the event's own id, the id of an object, a client or an
	// invoice that the event names, or an invoice's number; empty: all. If it is set, deliveries
	// are in the order of their events.
	About string

	Limit  int    // default 50, at most 500
	Cursor string // Next or Previous from another page; empty: begin with the newest
}

// Page is a page of deliveries, newest first.
type Page struct {
	Deliveries []Delivery
	Next       string // cursor of older deliveries; empty: there are none
	Previous   string // cursor of newer deliveries; empty: this page has the newest
	Newer      int    // how many newer deliveries the cursors have passed on the way to this page

	// LookedAtTo is set if the search stopped at its limit: it has not examined deliveries older
	// than this. Next continues from there, even if Deliveries is empty.
	LookedAtTo Time
}

// ErrCursor means that a cursor did not come from Deliveries.
var ErrCursor = errors.New("the cursor is not one of this list")

const (
	defaultPage = 50
	maxPage     = 500

	// maxExamined bounds the deliveries that one statement examines, because a filter may match
	// only a few of very many.
	maxExamined = 50_000
)

// deliveryColumns returns the columns of a delivery d and its event e, for scanDelivery.
func deliveryColumns() string {
	return `d.event_id, d.event_type, d.state, d.created_at, d.next_attempt_at, d.attempts, d.position, coalesce(e.public_event, '{}'), e.public_event IS NOT NULL AND ` + eventlog.NeedsPay("e")
}

// itsEvent joins the event e of a delivery d. A one-value range with ORDER BY on the same column
// uses the right index, whatever the statistics say about the workspace.
const itsEvent = `LEFT JOIN LATERAL (
	SELECT * FROM event_log e WHERE e.workspace_id = d.workspace_id AND e.position BETWEEN d.position AND d.position ORDER BY e.position LIMIT 1) e ON true`

// Deliveries lists a webhook's deliveries within the retention. Errors:
// *UnknownWebhookError, ErrCursor.
func (s *Store) Deliveries(ctx context.Context, webhookID string, q Query) (*Page, error) {
	l, err := newListing(ctx, s, webhookID, q)
	if err != nil {
		return nil, err
	}
	read := l.read
	if q.About != "" {
		read = l.search
	}
	found, err := read(ctx)
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	if l.from.Newer && found.more == nil && q.Cursor != "" { // this reached the newest, and the page may not be full
		q.Cursor = ""
		return s.Deliveries(ctx, webhookID, q)
	}
	return l.page(found), nil
}

// listing is a validated Query of one webhook.
type listing struct {
	store                  *Store
	workspaceID, webhookID string
	query                  Query
	oldest                 time.Time // deliveries first sent before this are not shown
	from                   pageEnd   // zero: begin with the newest
}

func newListing(ctx context.Context, s *Store, webhookID string, q Query) (*listing, error) {
	w, err := s.Get(ctx, webhookID)
	if err != nil {
		return nil, err
	}
	if q.Limit <= 0 {
		q.Limit = defaultPage
	}
	q.Limit = min(q.Limit, maxPage)
	l := &listing{store: s, workspaceID: w.WorkspaceID, webhookID: webhookID, query: q, oldest: s.now().Add(-s.cfg.Settings.Retention)}
	if q.Since.After(l.oldest) {
		l.oldest = q.Since
	}
	if q.Cursor != "" {
		if l.from, err = parseCursor(q.Cursor); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// listed is the result of one read or search.
type listed struct {
	list []Delivery // in the order in which they were read
	more *pageEnd   // where the next read in this direction begins; nil: there are no more

	lookedAtTo time.Time // set if more is where the search stopped at its limit, not the end of a page
}

// page makes a Page of the result.
func (l *listing) page(f *listed) *Page {
	p := &Page{Deliveries: f.list, Newer: l.from.Passed}
	if p.Deliveries == nil {
		p.Deliveries = []Delivery{}
	}
	n := len(p.Deliveries)
	if l.from.Newer {
		slices.Reverse(p.Deliveries)
		p.Newer = max(0, l.from.Passed-n)
		p.Previous = f.more.cursor(true, p.Newer)
		p.Next = l.from.cursor(false, l.from.Passed) // at least the page that it came from
		if n > 0 {
			p.Next = endOf(&p.Deliveries[n-1]).cursor(false, p.Newer+n)
		}
		return p
	}
	p.Next = f.more.cursor(false, p.Newer+n)
	p.LookedAtTo = Time{f.lookedAtTo}
	if l.from.Position > 0 {
		p.Previous = l.from.cursor(true, l.from.Passed)
		if n > 0 {
			p.Previous = endOf(&p.Deliveries[0]).cursor(true, p.Newer)
		}
	}
	return p
}

// keys returns a statement for the keys of up to most deliveries, in the order of the list,
// starting after from. A state other than succeeded is part of the statement, because an index
// covers it. filter holds the conditions that no index covers, on the statement's rows k. The first
// own of args belong to the statement, the others to filter.
func (l *listing) keys(from *pageEnd, most int) (statement, filter string, args []any, own int) {
	order, compare := from.order()
	where, filter := `d.workspace_id = $1 AND d.webhook_id = $2 AND d.created_at > $3`, ""
	args = []any{l.workspaceID, l.webhookID, l.oldest}
	and := func(to *string, condition string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		*to += " AND " + condition
	}
	if !l.query.Before.IsZero() {
		and(&where, `d.created_at < ?`, l.query.Before)
	}
	if l.query.State != "" && l.query.State != policy.Succeeded { // the second condition lets the planner use the partial index
		and(&where, `d.state = ? AND d.state <> 'succeeded'`, string(l.query.State))
	}
	if from.Position > 0 {
		and(&where, `(d.created_at, d.position) `+compare+` (?, ?)`, from.At, from.Position)
	}
	own = len(args)
	if l.query.State == policy.Succeeded {
		and(&filter, `k.state = 'succeeded'`)
	}
	if l.query.EventType != "" {
		and(&filter, `k.event_type = ?`, l.query.EventType)
	}
	if l.query.NoPay { // most types can be decided without the event
		// Read one row in key order: with a condition that it can hash, PostgreSQL would read the
		// whole log.
		and(&filter, `(k.event_type NOT IN (?, ?, ?) OR NOT coalesce((
		         SELECT `+eventlog.NeedsPay("e")+` FROM event_log e WHERE e.workspace_id = $1 AND e.position BETWEEN k.position AND k.position ORDER BY e.position LIMIT 1), false))`,
			domain.TypePayoutPaid, domain.TypeChargeCreated, domain.TypeChargeDeleted)
	}
	statement = fmt.Sprintf(`
		SELECT d.created_at, d.position, d.event_type, d.state FROM webhook_delivery d
		 WHERE %s ORDER BY d.created_at %s, d.position %s LIMIT %d`, where, order, order, most)
	return statement, filter, args, own
}

// read reads a page in the order of first attempts.
func (l *listing) read(ctx context.Context) (f *listed, err error) {
	err = pg.InTx(ctx, l.store.cfg.Pool, func(tx pgx.Tx) error {
		if err := byKey(ctx, tx); err != nil {
			return err
		}
		f, err = l.readPage(ctx, tx)
		return err
	})
	return f, err
}

func (l *listing) readPage(ctx context.Context, tx pgx.Tx) (*listed, error) {
	keys, filter, args, own := l.keys(&l.from, maxExamined)
	order, _ := l.from.order()
	f, err := l.collect(ctx, tx, fmt.Sprintf(`
		SELECT `+deliveryColumns()+`
		  FROM (SELECT k.created_at, k.position FROM (%s) k WHERE true %s ORDER BY k.created_at %s, k.position %s LIMIT %d) k
		 CROSS JOIN LATERAL (
		       SELECT * FROM webhook_delivery d
		        WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position BETWEEN k.position AND k.position AND d.created_at BETWEEN k.created_at AND k.created_at
		        ORDER BY d.position, d.created_at LIMIT 1) d
		`+itsEvent+`
		 ORDER BY d.created_at %s, d.position %s`, keys, filter, order, order, l.query.Limit+1, order, order), args...)
	if err != nil || f.more != nil || filter == "" {
		return f, err
	}
	// The page is not full: either the list has ended, or the statement has examined maxExamined
	// deliveries.
	last := pageEnd{}
	err = tx.QueryRow(ctx, fmt.Sprintf(`
		SELECT k.created_at, k.position FROM (
		       SELECT k.created_at, k.position, row_number() OVER (ORDER BY k.created_at %s, k.position %s) AS n FROM (%s) k) k
		 WHERE k.n = %d`, order, order, keys, maxExamined), args[:own]...).Scan(&last.At, &last.Position)
	if errors.Is(err, pgx.ErrNoRows) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the end of what was looked at: %w", err)
	}
	f.more, f.lookedAtTo = &last, last.At.UTC()
	return f, nil
}

// search searches the log for events, and reads a page of their deliveries in the order of the
// events.
func (l *listing) search(ctx context.Context) (*listed, error) {
	s, q := l.store, &l.query
	step := int64(-1)
	if l.from.Newer {
		step = 1
	}
	look := eventlog.Search{
		WorkspaceID: l.workspaceID, Text: q.About, Type: q.EventType, NoPay: q.NoPay, Oldest: s.now().Add(-s.cfg.Settings.Retention), Before: q.Before, Ascending: l.from.Newer,
	}
	if l.from.Position > 0 {
		if look.From = l.from.Position + step; look.From <= 0 {
			return &listed{}, nil
		}
	}
	found, err := s.cfg.Feed.Search(ctx, look)
	if err != nil {
		return nil, err
	}
	f := &listed{}
	if len(found.Hits) > 0 {
		if f, err = l.ofEvents(ctx, found.Hits); err != nil {
			return nil, err
		}
	}
	if f.more == nil && found.Next > 0 {
		f.more, f.lookedAtTo = &pageEnd{At: found.Until, Position: found.Next - step}, found.Until
	}
	return f, nil
}

// ofEvents reads the deliveries of events.
func (l *listing) ofEvents(ctx context.Context, events []eventlog.Hit) (*listed, error) {
	positions := make([]int64, len(events))
	for i := range events {
		positions[i] = events[i].Position
	}
	order, _ := l.from.order()
	return l.collect(ctx, l.store.cfg.Pool, fmt.Sprintf(`
		SELECT `+deliveryColumns()+`
		  FROM unnest($3::bigint[]) AS k (position)
		 CROSS JOIN LATERAL (
		       SELECT * FROM webhook_delivery d
		        WHERE d.workspace_id = $1 AND d.webhook_id = $2 AND d.position BETWEEN k.position AND k.position AND d.created_at > $4
		          AND ($5::timestamptz IS NULL OR d.created_at < $5) AND ($6 = '' OR d.state = $6)
		        ORDER BY d.position, d.created_at) d
		`+itsEvent+`
		 ORDER BY d.position %s LIMIT %d`, order, l.query.Limit+1),
		l.workspaceID, l.webhookID, positions, l.oldest, nullTime(l.query.Before), string(l.query.State))
}

// collect reads the deliveries of a page. One row more than Limit means that there is a next page.
func (l *listing) collect(ctx context.Context, db pg.Querier, sql string, args ...any) (*listed, error) {
	list, err := pg.Collect(ctx, db, func(row pgx.CollectableRow) (Delivery, error) {
		return scanDelivery(row, l.webhookID, new(string))
	}, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read a page: %w", err)
	}
	f := &listed{list: list}
	if len(list) > l.query.Limit {
		f.list = list[:l.query.Limit]
		f.more = endOf(&f.list[l.query.Limit-1])
	}
	return f, nil
}

// CountDeliveries counts the deliveries that a query selects. It examines the newest deliveries, up
// to the number most, before it applies the filters that no index covers; all is false if there are
// more. It ignores About, Limit and Cursor. Errors: *UnknownWebhookError.
func (s *Store) CountDeliveries(ctx context.Context, webhookID string, q Query, most int) (n int, all bool, err error) {
	q.Cursor = ""
	l, err := newListing(ctx, s, webhookID, q)
	if err != nil {
		return 0, false, err
	}
	keys, filter, args, _ := l.keys(&pageEnd{}, most+1)
	var examined int
	err = pg.InTx(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		if err := byKey(ctx, tx); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT count(*) FILTER (WHERE true `+filter+`), count(*) FROM (`+keys+`) k`, args...).Scan(&n, &examined)
	})
	if err != nil {
		return 0, false, fmt.Errorf("count deliveries: %w", err)
	}
	return min(n, most), examined <= most, nil
}

// pageEnd is where a page ends: at a delivery, which the next page does not repeat.
type pageEnd struct {
	At       time.Time `json:"a"`
	Position int64     `json:"p"`
	Passed   int       `json:"n,omitempty"` // how many deliveries are on the newer side of this end
	Newer    bool      `json:"u,omitempty"` // the page goes towards newer deliveries
}

func endOf(d *Delivery) *pageEnd { return &pageEnd{At: d.CreatedAt.Time, Position: d.Position} }

// order returns the sort direction of a page's statement, and the operator that compares its rows
// with the end of the page before.
func (p *pageEnd) order() (direction, compare string) {
	if p.Newer {
		return "ASC", ">"
	}
	return "DESC", "<"
}

// cursor returns the cursor of the page that starts at this end, in a direction; empty for nil.
func (p *pageEnd) cursor(newer bool, passed int) string {
	if p == nil {
		return ""
	}
	b, err := json.Marshal(pageEnd{p.At, p.Position, passed, newer})
	if err != nil {
		return "" // cannot happen: all fields have a JSON form
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(cursor string) (p pageEnd, err error) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(b, &p) != nil || p.Position <= 0 || p.Passed < 0 {
		return p, ErrCursor
	}
	return p, nil
}

// nullTime returns nil for the zero time.
func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
