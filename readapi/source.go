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
	"github.com/ledgerfeed/ledgerfeed/internal/replica"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Replica is a streaming replica of Config.Pool's database, from which answers are read.
type Replica struct {
	Server     *replica.Server
	Pool       *pgxpool.Pool // as Config.Pool
	WholeLists *pgxpool.Pool // as WholeLists.Pool; nil: whole lists are not read from it
}

// source is a server that answers are read from: the primary or a replica. Each has
// connections and queues of its own, so that one that is slow delays nothing that is read
// from another.
type source struct {
	server   *replica.Server // nil: the primary
	pool     *pgxpool.Pool
	lists    *pgxpool.Pool // nil: it reads no whole lists
	feed     *eventlog.Feed
	indexes  *knownIndexes
	versions *batch.Coalescer[*versionQuery]
	trees    *batch.Coalescer[*treesQuery]
	rows     map[string]*batch.Coalescer[*rowQuery] // by table
	shares   *shares
}

func newSource(cfg *Config, pool, lists *pgxpool.Pool, feed *eventlog.Feed, server *replica.Server) *source {
	s := &source{
		server: server, pool: pool, lists: lists, feed: feed, indexes: newKnownIndexes(), versions: newVersionReader(pool, cfg.Timeout), trees: newTreesReader(pool, cfg.Timeout),
		rows: map[string]*batch.Coalescer[*rowQuery]{}, shares: cfg.newShares(pool),
	}
	for _, r := range route.Table() {
		if r.Kind == route.Row && s.rows[r.Resource.Table] == nil {
			s.rows[r.Resource.Table] = newRowReader(pool, cfg.Timeout)
		}
	}
	return s
}

// untilLost calls cancel if the server is a replica and is lost, until stay is called.
func (s *source) untilLost(cancel func()) (stay func() bool) {
	if s.server == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(s.server.Alive(), cancel)
}

// newReplicas makes the sources of the replicas.
func newReplicas(cfg *Config) (list []*source) {
	for _, r := range cfg.Replicas {
		list = append(list, newSource(cfg, r.Pool, r.WholeLists, eventlog.NewFeed(r.Pool), r.Server))
	}
	return list
}

var (
	// errPassedOver says that a replica had not replayed what the request must not be
	// answered without.
	errPassedOver = errors.New("the replica is behind what was answered or given before")
	// errReplicaLost ends what is being read from a replica that is lost.
	errReplicaLost = errors.New("the replica was lost while it was read from")
)

// needs finds out what the answer must not be older than: what its cursor was given for,
// what the caller has by If-None-Match, what it demands with Log-Position-At-Least, and
// what this process has answered about the workspace before.
func needs(q *request) error {
	q.floor = q.api.told.version(q.key.WorkspaceID)
	q.floor.raise(version{position: max(q.wait.atLeast, q.moved)})
	if q.endpoint.cursor >= 0 && q.params.has(q.endpoint.cursor) {
		q.floor.raise(version{position: cursorPosition(q)})
	}
	if !strings.Contains(q.out.IfNoneMatch(), `"`) {
		return nil
	}
	// A tag does not tell its version, so it may be as new as what the primary has. No replica
	// was chosen yet: this asks the primary.
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
	if q.from.server != nil && v.olderThan(q.floor) {
		return errPassedOver
	}
	return q.wait.reached(v)
}

// readFrom reads from a replica, or where none can be read from, or shows what the answer
// needs, from the primary. Do may be called several times, and begins an answer only when
// it has what it needs.
func readFrom(q *request, do func(*request) error) error {
	q.from = q.api.primary
	// Trees are behind what is visible, so what this process has told of the workspace would
	// keep most replicas from being read; and a tile must be there once a checkpoint was.
	if len(q.api.replicas) == 0 || !q.endpoint.HasPosition() || q.endpoint.OfTree() {
		return do(q)
	}
	if err := needs(q); err != nil {
		return err
	}
	first := q.api.cfg.ReplicaSet.Turn()
	for i := range q.api.replicas {
		s := q.api.replicas[(first+i)%len(q.api.replicas)]
		if !s.server.Usable() || q.form != answer.JSON && s.lists == nil {
			continue
		}
		wait, rows := q.wait, q.rows
		err := readFromReplica(q, s, do)
		next, reason := passesOver(q, err)
		if reason == "" {
			return answered(q, err)
		}
		s.server.PassedOver(reason)
		q.wait, q.rows = wait, rows
		if !next {
			break
		}
	}
	q.from = q.api.primary
	return answered(q, do(q))
}

// answered counts an answer by the server that was read from.
func answered(q *request, err error) error {
	if err == nil {
		q.api.cfg.ReplicaSet.Answered(q.from.server)
	}
	return err
}

// readMoved reads for a request that has waited until the visible position was moved.
func readMoved(q *request, moved int64) error {
	q.moved = moved
	all := len(q.api.replicas) > 0
	for _, s := range q.api.replicas {
		all = all && s.server.Usable()
	}
	if all { // in a moment one of them can be read from
		if err := q.api.cfg.ReplicaSet.Await(q, time.Now()); err != nil {
			return q.readError(err)
		}
	}
	return readFrom(q, q.endpoint.answer)
}

// readFromReplica reads from one replica, until it is lost.
func readFromReplica(q *request, s *source, do func(*request) error) error {
	ctx, cancel := context.WithCancelCause(q.Context)
	stay := s.untilLost(func() { cancel(errReplicaLost) })
	c, keep := within(ctx, q)
	c.from = s
	defer func() {
		stay()
		cancel(nil)
		keep()
		q.from = c.from
	}()
	err := do(c)
	if err != nil && q.Err() == nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errReplicaLost, err)
	}
	return err
}

// passesOver reports why the request goes on to another server, if it does: to the next
// replica, or to the primary at once.
func passesOver(q *request, err error) (next bool, reason string) {
	var problem *answer.Error
	switch {
	case err == nil, q.out.Status != 0, q.Err() != nil:
		return false, ""
	case errors.Is(err, errPassedOver):
		return true, replica.PassedBehind
	case replicaFailed(err):
		return true, replica.PassedFailed
	case errors.As(err, &problem) && problem.Status == http.StatusServiceUnavailable:
		return false, "" // the replica has too much to do; another would have, too
	}
	if p := problemOf(err); p.Status == http.StatusServiceUnavailable {
		return false, ""
	}
	return false, replica.PassedNotThere
}

// replicaFailed reports whether an error is that of the replica that was read from.
func replicaFailed(err error) bool {
	return errors.Is(err, errReplicaLost) || errors.Is(err, replica.ErrOtherServer) || endedByReplica(err)
}

// endedByReplica reports whether a statement failed because of the server that it ran on:
// another can run it.
func endedByReplica(err error) bool {
	if database, ok := errors.AsType[*pgconn.PgError](err); ok {
		// A statement that took too long has another code, or says so.
		return database.Code != codeCanceled && isUnavailable(err) || strings.Contains(database.Message, "conflict with recovery")
	}
	return !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && isLost(err)
}

// isLost reports whether an error is that of a connection.
func isLost(err error) bool {
	_, problem := errors.AsType[*answer.Error](err)
	return !problem && isUnavailable(err)
}

// tells is called before an answer is written whose data are of a version. What tells of
// events, and what a request has waited for, is not sent before it can be read from all
// replicas, in whichever process: a client that is told of an event reads next what it is about.
func tells(q *request, v version) error {
	a := q.api
	if len(a.replicas) == 0 || v.position < 0 {
		return nil
	}
	if q.rows > 0 && (q.endpoint.Kind == route.Events || q.wait.waited > 0) && !a.told.replayed(q.key.WorkspaceID, v.position) {
		if err := a.cfg.ReplicaSet.Await(q, time.Now()); err != nil {
			return q.readError(err)
		}
		a.told.noteReplayed(q.key.WorkspaceID, v.position)
	}
	a.told.note(q.key.WorkspaceID, v, q.from.server == nil)
	return nil
}
