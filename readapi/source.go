package readapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/batch"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Copy is another place that answers may be read from first, such as standbys of the database.
// It shows what Config.Pool shows, perhaps a moment later.
type Copy struct {
	Pool       *pgxpool.Pool // as Config.Pool; fails instead of showing what is older than may be
	WholeLists *pgxpool.Pool // as WholeLists.Pool; nil: whole lists are not read from it

	Usable func() bool            // reports whether it may be read from now
	Alive  func() context.Context // ends when what is being read there should be read elsewhere
}

// source is where answers are read: Config.Pool or the Copy. Each has connections and queues
// of its own, so that one that is slow delays nothing that is read from the other.
type source struct {
	copy     *Copy // nil: it is Config.Pool, which has the last word
	pool     *pgxpool.Pool
	lists    *pgxpool.Pool // nil: it reads no whole lists
	feed     *eventlog.Feed
	indexes  *knownIndexes
	versions *batch.Coalescer[*versionQuery]
	trees    *batch.Coalescer[*treesQuery]
	rows     map[string]*batch.Coalescer[*rowQuery] // by table
	shares   *shares
}

func newSource(cfg *Config, pool, lists *pgxpool.Pool, feed *eventlog.Feed, timeout time.Duration) *source {
	s := &source{
		pool: pool, lists: lists, feed: feed, indexes: newKnownIndexes(), versions: newVersionReader(pool, timeout), trees: newTreesReader(pool, timeout),
		rows: map[string]*batch.Coalescer[*rowQuery]{}, shares: cfg.newShares(pool),
	}
	for _, r := range route.Table() {
		if r.Kind == route.Row && s.rows[r.Resource.Table] == nil {
			s.rows[r.Resource.Table] = newRowReader(pool, timeout)
		}
	}
	return s
}

// newCopy makes the source of the Copy; nil: there is none.
func newCopy(cfg *Config) *source {
	c := cfg.Copy
	if c == nil {
		return nil
	}
	s := newSource(cfg, c.Pool, c.WholeLists, eventlog.NewFeed(c.Pool), copyTimeout(cfg))
	s.copy = c
	return s
}

// copyTimeout is how long the Copy may take, so that there is time left to read elsewhere.
func copyTimeout(cfg *Config) time.Duration { return cfg.Timeout / 2 }

// untilLost calls cancel if the source is the Copy and is lost, until stay is called.
func (s *source) untilLost(cancel func()) (stay func() bool) {
	if s.copy == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(s.copy.Alive(), cancel)
}

var (
	// errPassedOver says that the Copy does not show yet what the request must not be answered
	// without.
	errPassedOver = errors.New("the copy is behind what was given before")
	// errCopyLost ends what is being read from the Copy when that is lost or takes too long.
	errCopyLost = errors.New("the copy was lost while it was read from, or took too long")
)

// Why a request went on to Config.Pool, as labels.
const (
	passedBehind  = "behind"   // the Copy did not show what the request demands
	passedFailed  = "failed"   // it was lost, was too far behind, or ended the statement
	passedNoProof = "no_proof" // it said that something does not exist, which Config.Pool is asked
)

// needs finds out what the answer must not be older than: what its cursor was given for,
// what the caller has by If-None-Match, what it demands with Log-Position-At-Least, and the
// position that it has waited for.
func needs(q *request) error {
	q.floor = version{position: max(q.wait.atLeast, q.moved)}
	if q.endpoint.cursor >= 0 && q.params.has(q.endpoint.cursor) {
		q.floor.raise(version{position: cursorPosition(q)})
	}
	if !strings.Contains(q.out.IfNoneMatch(), `"`) {
		return nil
	}
	// A tag does not tell its version, so it may be as new as what the database has now. The
	// Copy was not chosen yet: this asks Config.Pool.
	v, err := rowsVersion(q)
	if err == nil {
		q.floor.raise(v)
	}
	return err
}

// cursorPosition is the position that the request's cursor was given at.
func cursorPosition(q *request) int64 {
	switch sealed := q.position(); q.endpoint.Kind {
	case route.Rows:
		at := parseListPosition(sealed)
		return max(at.mark.Position, at.position-1) // a list at its end goes on behind what was visible
	case route.Credit:
		return parseHistoryPosition(sealed).mark().Position
	default:
		mark, _ := cutMark(sealed)
		return mark.Position
	}
}

// reached compares what was read with what the answer must not be older than. It is
// called with the version row of each statement, before anything is answered.
func reached(q *request, v version) error {
	if q.from.copy != nil && v.olderThan(q.floor) {
		return errPassedOver
	}
	return q.wait.reached(v)
}

// readFrom reads from the Copy, or where it cannot be read from, or does not show what the
// answer needs, from Config.Pool. Do may be called twice, and begins an answer only when it has
// what it needs.
func readFrom(q *request, do func(*request) error) error {
	q.from = q.api.source
	// Trees are behind what is visible; and a tile must be there once a checkpoint was.
	if s := q.api.copy; s != nil && q.endpoint.HasPosition() && !q.endpoint.OfTree() && s.copy.Usable() && (q.form == answer.JSON || s.lists != nil) {
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

// readMoved reads for a request that has waited until the visible position was moved.
func readMoved(q *request, moved int64) error {
	q.moved = moved
	return readFrom(q, q.endpoint.answer)
}

// readFromCopy reads from the Copy, until it is lost.
func readFromCopy(q *request, do func(*request) error) error {
	limited, end := context.WithTimeoutCause(q.Context, copyTimeout(&q.api.cfg), errCopyLost)
	defer end()
	ctx, cancel := context.WithCancelCause(limited)
	stay := q.api.copy.untilLost(func() { cancel(errCopyLost) })
	c, keep := within(ctx, q)
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

// passedOver reports why the request goes on to Config.Pool, if it does.
func passedOver(q *request, err error) string {
	problem, answered := errors.AsType[*answer.Error](err)
	switch {
	case err == nil, q.out.Status != 0, q.Err() != nil:
		return ""
	case errors.Is(err, errPassedOver):
		return passedBehind
	case errors.Is(err, errCopyLost):
		return passedFailed // also where its end is that its statement was cancelled
	case answered && problem.Status == http.StatusServiceUnavailable, pg.Canceled(err) && !inTheWay(err):
		return "" // there is too much to do, or the answer takes too long: there, as well
	case answered && (problem.Status == http.StatusNotFound || problem.Status == http.StatusBadRequest):
		return passedNoProof // of a row, or of what a cursor goes on from
	case answered && problem.Status < http.StatusInternalServerError:
		return ""
	}
	return passedFailed
}

// inTheWay reports whether a standby ended a statement because it was in the way of what the
// standby must replay.
func inTheWay(err error) bool {
	of, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.Contains(of.Message, "conflict with recovery")
}
