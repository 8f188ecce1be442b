package readapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// rowsPerRequest is how many rows of a whole list count as one request
// (docs/contract/decisions.md, "Responses", whole lists).
const rowsPerRequest = 10_000

// wholeList is a whole list in flight. One statement reads all of it, so all rows come from one
// snapshot. The first row gives the visible position at which the list ends, so the cursor is known
// before any row is sent. If the caller stops reading, the statement stops when the buffers of its
// connection are full.
type wholeList struct {
	q     *request
	ctx   context.Context // ends when the list's time is over or another workspace needs its place
	first pageVersion
	head  answer.StreamHead
}

// answerWhole answers with all rows of a list.
func answerWhole(q *request) error {
	if q.http.Method == http.MethodHead {
		return answerWholeHead(q)
	}
	if err := q.reachedYet(); err != nil {
		return err
	}
	place, leave, full := q.api.places.Take(q.http.Context(), q.key.WorkspaceID)
	if full != answer.NotFull {
		q.api.metrics.wholeListFull(full)
		return fullError(full)
	}
	defer leave()
	cfg := &q.api.cfg.WholeLists
	// Over HTTP/2 the server's write timeout ends a request even while it waits for the database.
	q.out.Extend(cfg.Timeout + writeTimeout)
	defer func() {
		if q.out.Status != http.StatusOK { // a stream has its own deadlines
			q.out.Extend(writeTimeout)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(place, cfg.Timeout, errWholeListTimeout)
	defer cancel()
	stay := q.from.untilLost(cancel)
	defer stay()
	query := newListQuery(q, nil)
	tx, err := beginList(ctx, q)
	if err != nil {
		return err
	}
	end := sync.OnceFunc(func() { pg.Rollback(ctx, tx) })
	found, err := tx.Query(ctx, q.endpoint.whole(query.key), query.args...)
	if err != nil {
		end()
		return q.readError(err)
	}
	rows := &rowReader{rows: found, release: end}
	defer func() {
		cancel() // otherwise close would read the rest
		rows.close()
	}()
	l := &wholeList{q: q, ctx: ctx}
	if err := l.begin(rows, &query); err != nil {
		return err
	}
	stay()
	// The database may have taken long for the first row.
	if _, err := q.keyAgain(ctx); err != nil {
		return err
	}
	if etag := q.out.Match(l.head.Tag); etag != "" {
		q.out.NotModified(etag)
		return nil
	}
	return l.send(rows)
}

// answerWholeHead answers HEAD, for which the first row of a page is enough.
func answerWholeHead(q *request) error {
	query := newListQuery(q, 0)
	rows, err := q.query(q.endpoint.statement(query.key), query.args...)
	if err != nil {
		return err
	}
	defer rows.close()
	l := &wholeList{q: q}
	if err := l.begin(rows, &query); err != nil {
		return err
	}
	rows.close()
	if etag := q.out.Match(l.head.Tag); etag != "" {
		q.out.NotModified(etag)
		return nil
	}
	q.out.Head(&l.head)
	return nil
}

// beginList takes the connection of a whole list. Other tasks that take minutes may have the
// connections that are not reserved, so a list that gets none within seconds is refused.
func beginList(ctx context.Context, q *request) (pgx.Tx, error) {
	soon, cancel := context.WithTimeout(ctx, q.api.cfg.Timeout/2)
	defer cancel()
	tx, err := q.from.lists.Begin(soon)
	if err == nil {
		return tx, nil
	}
	if soon.Err() != nil && ctx.Err() == nil {
		return nil, fullError(answer.FullProcess)
	}
	return nil, q.readError(err)
}

func fullError(full answer.Full) error {
	if full == answer.FullWorkspace {
		return answer.TooManyWholeLists()
	}
	return answer.NoPlaceForWholeList()
}

// begin reads the first row and prepares the answer's headers. The cursor is the one of the last
// page at the same position.
func (l *wholeList) begin(rows *rowReader, query *listQuery) (err error) {
	q := l.q
	if l.first, err = rows.pageVersion(); err != nil {
		return q.readError(err)
	}
	if err := reached(q, l.first.version); err != nil {
		return err
	}
	if !l.first.held {
		return divergedList()
	}
	q.out.LogPosition = l.first.version.position
	at := query.from
	at.seen(l.first.visible)
	if l.first.since {
		at.pass(l.first.visible.Position)
	}
	l.head = answer.StreamHead{Form: q.form, Tag: q.tag(l.first.version), Cursor: q.cursor(at.append(nil))}
	return nil
}

// columns returns the columns of CSV; nil for other forms.
func (l *wholeList) columns() *answer.Columns {
	q := l.q
	if q.form != answer.CSV {
		return nil
	}
	columns := answer.NewColumns(q.endpoint.Resource.Fields, q.visible.shows)
	if q.params.has(q.endpoint.include) {
		columns.AndRemoved()
	}
	return columns
}

// send sends the rows. An error after the headers were sent breaks the answer off.
func (l *wholeList) send(rows *rowReader) error {
	q := l.q
	endWithReset(q, true)
	until, _ := l.ctx.Deadline()
	// A little later than the context, so that a write that fails then has the context's cause.
	peer, _ := connectionOf[answer.Peer](q)
	stream, err := q.out.Stream(&l.head, peer, q.api.cfg.WholeLists.Stall, until.Add(100*time.Millisecond))
	if err != nil {
		if q.out.Status == 0 {
			return fmt.Errorf("begin a whole list: %w", err)
		}
		l.breakOff(err)
	}
	defer stream.Close()
	done := context.AfterFunc(l.ctx, stream.Interrupt) // otherwise a reader that takes nothing would keep the place
	defer done()
	if err := l.sendRows(rows, stream); err != nil {
		l.breakOff(err)
	}
	endWithReset(q, false)
	return nil
}

func (l *wholeList) sendRows(rows *rowReader, stream *answer.Stream) error {
	q := l.q
	w := answer.NewListWriter(checked{l, stream}, q.form, l.columns())
	pace := newPace(q.from.shares)
	for {
		_, values, ok, err := rows.next()
		if err != nil {
			return q.readError(err)
		}
		if !ok {
			break
		}
		if q.rows%rowsPerRequest == 0 {
			// At the limit the list goes on, because otherwise all of it would have to be sent
			// again. Other requests of the key are refused.
			q.api.cfg.Limiter.Take(q.key)
		}
		q.rows++
		sent, err := w.Row(values[columnFragments:])
		if err == nil && sent {
			pace.yield(l.ctx)
		}
		if err != nil {
			return err
		}
	}
	if err := w.End(l.head.Cursor); err != nil {
		return err
	}
	return stream.End()
}

// check returns an error if the list must stop: its time is over, it lost its place, or its key is
// no longer valid. A revoked key stops working within a second, whatever it is used for.
func (l *wholeList) check() error {
	if err := context.Cause(l.ctx); err != nil {
		return err
	}
	if _, err := l.q.keyAgain(l.ctx); err != nil {
		return fmt.Errorf("look at the key again: %w", err)
	}
	return nil
}

// checked passes on each chunk of a list, the last one included, only if the list may go on.
type checked struct {
	list   *wholeList
	stream *answer.Stream
}

func (c checked) Write(p []byte) (int, error) {
	if err := c.list.check(); err != nil {
		return 0, err
	}
	return c.stream.Write(p)
}

var errWholeListTimeout = errors.New("a whole list took longer than its timeout")

// cause returns why a list was broken off. The database's error says only that the statement was
// cancelled.
func (l *wholeList) cause(err error) error {
	if cause := context.Cause(l.ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// breakOff ends an answer so that its reader sees that it is incomplete. The last line is missing,
// and in HTTP/1.1 also the last chunk; HTTP/2 sends RST_STREAM, and HTTP/1.0 resets the connection.
func (l *wholeList) breakOff(err error) {
	l.q.broken, l.q.problem = true, brokenOff(l.q.out.Err, l.cause(err))
	panic(http.ErrAbortHandler)
}

// brokenOff returns what the request log and the log say about an answer that was broken off.
// sending is the error of sending it; nil: something else failed.
func brokenOff(sending, cause error) *answer.Error {
	p := answer.Error{Cause: cause}
	switch {
	case errors.Is(cause, answer.ErrPlaceTaken):
		p.Status, p.Detail = http.StatusServiceUnavailable, "The list was read for long, and another workspace that read none needed its place. Read it in pages, or faster."
	case errors.Is(cause, errWholeListTimeout):
		p.Status, p.Detail = http.StatusServiceUnavailable, "The list took longer than a whole list may take."
	case sending != nil, errors.Is(cause, context.Canceled):
		p.Status, p.Detail = statusGone, "The reader went away, or did not read in time, before the list had ended."
	case isRefused(cause):
		p.Status, p.Detail = http.StatusUnauthorized, "The key stopped being valid before the list had ended."
	default:
		p.Status, p.Detail = problemOf(cause).Status, "The list could not be read to its end."
	}
	return &p
}

// WholeListPoolSettings returns the run-time parameters of WholeLists.Pool's connections. They are
// those of PoolSettings, but a statement may take as long as a list, and wait for its reader.
func WholeListPoolSettings(timeout time.Duration) map[string]string {
	settings := PoolSettings()
	// The context ends first and gives the reason.
	settings["statement_timeout"] = milliseconds(timeout + time.Minute)
	// A connection that nobody reads from is not dead. WholeLists.Stall limits how long a list may
	// make no progress.
	settings["tcp_user_timeout"] = milliseconds(timeout + time.Minute)
	return settings
}

// How whole lists give way to pages. Each list keeps two processors busy, one in this process and
// one in the database, and a page that arrives meanwhile must get its turn.
const (
	// yieldTime is the longest that a list waits for the pages being read before it goes on: about
	// as long as a page takes. Alongside constant pages, a list still gets some 30 MB a second.
	yieldTime = 2 * time.Millisecond
	// busyTime is how long after a page more pages are expected.
	busyTime = 100 * time.Millisecond
	// workTime and restTime are how long a list alternately works and rests while pages are
	// expected. A timer below a millisecond would take a millisecond.
	workTime = 500 * time.Microsecond
	restTime = time.Millisecond
)

// pace limits how fast one whole list is sent alongside the pages of shares. Only the list's
// goroutine uses it. It does not use the injected clock, because it is about processors.
type pace struct {
	shares *shares
	rested time.Time // when the list last rested
}

func newPace(s *shares) *pace { return &pace{s, time.Now()} }

// yield lets pages go first. It is called after each chunk of a list.
func (p *pace) yield(ctx context.Context) {
	idle, last := p.shares.pages()
	wait := time.Duration(0)
	switch now := time.Now(); {
	case idle != nil:
		wait = yieldTime
	case now.Sub(last) > busyTime:
		p.rested = now
	case now.Sub(p.rested) > workTime:
		wait = restTime
	}
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-ctx.Done():
	}
	p.rested = time.Now()
}

// pages reports on the pages being read. idle is closed when the last of them ends; nil: no pages
// are being read. last is when a page last ended.
func (s *shares) pages() (idle <-chan struct{}, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used > 0 && s.idle == nil {
		s.idle = make(chan struct{})
	}
	return s.idle, s.last
}
