package readapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Copy is another place that answers are read from first, such as standbys of the database. It
// shows what Config.Pool shows, perhaps a moment later.
type Copy struct {
	Pool       pg.DB // like Config.Pool; fails rather than show data that is too old
	WholeLists pg.DB // like WholeLists.Pool; nil: whole lists are not read from it

	Usable func() bool            // reports whether it may be read now
	Alive  func() context.Context // its context ends when reads from the Copy must go elsewhere
}

// source is where answers are read from: Config.Pool or the Copy. Each has its own connections and
// queues, so that a slow one does not delay reads from the other.
type source struct {
	copy     *Copy // nil: it is Config.Pool, which is authoritative
	pool     pg.DB
	lists    pg.DB // nil: it reads no whole lists
	feed     *eventlog.Feed
	indexes  *knownIndexes
	versions *flow.Coalescer[*versionQuery]
	trees    *flow.Coalescer[*treesQuery]
	rows     map[string]*flow.Coalescer[*rowQuery] // by table
	shares   *shares
}

func newSource(cfg *Config, pool, lists pg.DB, feed *eventlog.Feed, timeout time.Duration) *source {
	s := &source{
		pool: pool, lists: lists, feed: feed, indexes: newKnownIndexes(), versions: newVersionReader(pool, timeout), trees: newTreesReader(pool, timeout),
		rows: map[string]*flow.Coalescer[*rowQuery]{}, shares: cfg.newShares(pool),
	}
	for _, r := range route.Table() {
		if r.Kind == route.Row && s.rows[r.Resource.Table] == nil {
			s.rows[r.Resource.Table] = newRowReader(pool, timeout)
		}
	}
	return s
}

// newCopy makes the source of Config.Copy; nil: there is none.
func newCopy(cfg *Config) *source {
	c := cfg.Copy
	if c == nil {
		return nil
	}
	s := newSource(cfg, c.Pool, c.WholeLists, eventlog.NewFeed(c.Pool), copyTimeout(cfg))
	s.copy = c
	return s
}

// copyTimeout returns how long the Copy may take. The rest of Config.Timeout is for Config.Pool.
func copyTimeout(cfg *Config) time.Duration { return cfg.Timeout / 2 }

// untilLost calls cancel if the source is the Copy and the Copy is lost before stay is called.
func (s *source) untilLost(cancel func()) (stay func() bool) {
	if s.copy == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(s.copy.Alive(), cancel)
}

var (
	// errPassedOver says that the Copy does not show yet what the answer must have.
	errPassedOver = errors.New("the copy is behind what was given before")
	// errCopyLost ends a read from the Copy when the Copy is lost or takes too long.
	errCopyLost = errors.New("the copy was lost while it was read from, or took too long")
)

// Label values: why a request went on to Config.Pool.
const (
	passedBehind  = "behind"   // the Copy did not show what the request needs
	passedFailed  = "failed"   // it was lost, was too far behind, or ended the statement
	passedNoProof = "no_proof" // it said that something does not exist, which only Config.Pool can confirm
)

// needs sets q.floor, the version that the answer must not be older than. It depends on the cursor,
// If-None-Match, Log-Position-At-Least and the position that the request has waited for.
func needs(q *request) error {
	q.floor = version{position: max(q.wait.atLeast, q.moved)}
	if q.endpoint.cursor >= 0 && q.params.has(q.endpoint.cursor) {
		q.floor.raise(version{position: cursorPosition(q)})
	}
	if !strings.Contains(q.out.IfNoneMatch(), `"`) {
		return nil
	}
	// A tag does not reveal its version, so it may be as new as the database is now. The Copy is
	// not chosen yet, so this asks Config.Pool.
	v, err := rowsVersion(q)
	if err == nil {
		q.floor.raise(v)
	}
	return err
}

// cursorPosition returns the position at which the request's cursor was given.
func cursorPosition(q *request) int64 {
	switch sealed := q.position(); q.endpoint.Kind {
	case route.Rows:
		at := parseListPosition(sealed)
		return max(at.mark.Position, at.position-1) // at the end of a list, position is one after what was visible
	case route.Credit:
		return parseHistoryPosition(sealed).mark().Position
	default:
		mark, _ := cutMark(sealed)
		return mark.Position
	}
}

// reached returns an error if v is older than the answer may be. It is called with the version row
// of each statement, before anything is answered.
func reached(q *request, v version) error {
	if q.from.copy != nil && v.olderThan(q.floor) {
		return errPassedOver
	}
	return q.wait.reached(v)
}

// readFrom reads from the Copy. If that cannot be used or does not show what the answer needs, it
// reads from Config.Pool. do may be called twice, so it must have everything it needs before it
// begins an answer.
func readFrom(q *request, do func(*request) error) error {
	q.from = q.api.source
	// Trees are not read from the Copy: they lag behind the visible position, and a tile must be
	// there once its checkpoint was.
	if s := q.api.copy; s != nil && q.endpoint.HasPosition() && !q.endpoint.OfTree() && s.copy.Usable() && (!q.isWhole() || s.lists != nil) {
		if err := needs(q); err != nil {
			return err
		}
		wait, rows := q.wait, q.rows
		err := readFromCopy(q, do)
		passed := passedOver(q, err)
		if passed == "" {
			if err == nil {
				q.api.metrics.copyReads.Inc()
			}
			return err
		}
		q.api.metrics.passedOver.WithLabelValues(passed).Inc()
		q.wait, q.rows, q.from = wait, rows, q.api.source
	}
	return do(q)
}

// readMoved reads for a request that has waited for a change. moved is the new visible position.
func readMoved(q *request, moved int64) error {
	q.moved = moved
	return readFrom(q, q.endpoint.answer)
}

// readFromCopy reads from the Copy, and stops if the Copy is lost.
func readFromCopy(q *request, do func(*request) error) error {
	limited, end := context.WithTimeoutCause(q.Context, copyTimeout(&q.api.cfg), errCopyLost)
	defer end()
	ctx, cancel := context.WithCancelCause(limited)
	stay := q.api.copy.untilLost(func() { cancel(errCopyLost) })
	c, keep := withContext(ctx, q)
	c.from = q.api.copy
	defer func() {
		stay()
		cancel(nil)
		keep()
		q.from = c.from
	}()
	err := do(c)
	if err != nil && q.Err() == nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errCopyLost, err)
	}
	return err
}

// passedOver returns why the request goes on to Config.Pool, as a label; empty: it does not.
func passedOver(q *request, err error) string {
	problem, answered := errors.AsType[*answer.Error](err)
	switch {
	case err == nil, q.out.Status != 0, q.Err() != nil:
		return ""
	case errors.Is(err, errPassedOver):
		return passedBehind
	case errors.Is(err, errCopyLost):
		return passedFailed // even if the error is that of a cancelled statement
	case answered && problem.Status == http.StatusServiceUnavailable, pg.Canceled(err) && !inTheWay(err):
		return "" // there is too much load, or the answer takes too long: Config.Pool would not help
	case answered && (problem.Status == http.StatusNotFound || problem.Status == http.StatusBadRequest):
		return passedNoProof // there is no such row, or the cursor does not fit the log
	case answered && problem.Status < http.StatusInternalServerError:
		return ""
	}
	return passedFailed
}

// inTheWay reports whether a standby cancelled a statement because it conflicted with changes that
// the standby must replay.
func inTheWay(err error) bool {
	of, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.Contains(of.Message, "conflict with recovery")
}

// answerRequest answers a request that passed all checks, if possible without reading the data.
func answerRequest(q *request) error {
	err := readFrom(q, func(q *request) error {
		done, err := q.answerUnchanged()
		if !done && err == nil {
			err = answerForm(q)
		}
		return err
	})
	if errors.Is(err, errBehind) {
		q.wait.behind = true
		return nil
	}
	return err
}

// answerForm answers in the form that the request asks for.
func answerForm(q *request) error {
	if q.isWhole() {
		return answerWhole(q)
	}
	return q.endpoint.answer(q)
}

// newCoalescer makes a coalescer, with which requests that query the database at the same time
// share a batch, so that any number of requests uses a few connections. Each request gets a result
// that is no older than the request.
//
// With one batch at a time the database would be idle while answers are written. More batches than
// processors, or than half of the connections, would only make each smaller. Batches are detached,
// so that a request that times out or whose caller goes does not wait for the others of its batch.
func newCoalescer[Q any](pool pg.DB, timeout time.Duration, run func(ctx context.Context, queries []*Q)) *flow.Coalescer[*Q] {
	return flow.NewCoalescer(flow.CoalescerConfig[*Q]{
		Run:        run,
		Timeout:    timeout,
		Concurrent: max(2, min(runtime.GOMAXPROCS(0), pg.Size(pool)/2)),
		Detached:   true,
	})
}
