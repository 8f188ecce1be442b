package readapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// rowQuery asks for one row by its id.
type rowQuery struct {
	statement       string // from rowStatement
	workspaceID, id string

	body    *bytes.Buffer // the row; empty if there is none
	version version
	err     error
}

var (
	errNoResult = errors.New("the query has no result")
	errRowPanic = errors.New("panic while reading a row")
)

// newRowReader makes a coalescer that reads single rows of one table. Each row of a batch has its
// own statement; they share the round trip. Each table has its own reader, so that a locked table
// does not delay requests for another.
func newRowReader(pool pg.DB, timeout time.Duration) *flow.Coalescer[*rowQuery] {
	return newCoalescer(pool, timeout, func(ctx context.Context, queries []*rowQuery) {
		if len(queries) > 1 {
			err := readTogether(ctx, pool, queries)
			if err == nil {
				return
			}
			if !triedAlone(ctx, err) {
				for _, q := range queries {
					q.err = err
				}
				return
			}
		}
		// One by one: there is only one query, or the error of one ended the whole batch.
		for _, q := range queries {
			rows, err := pool.Query(ctx, q.statement, q.workspaceID, q.id)
			if err == nil {
				err = q.read(rows)
			}
			q.err = err
		}
	})
}

// triedAlone reports whether each query of a batch that failed with err is tried again alone.
func triedAlone(ctx context.Context, err error) bool {
	_, unreachable := errors.AsType[*pgconn.ConnectError](err)
	return ctx.Err() == nil && !unreachable
}

func readTogether(ctx context.Context, pool pg.DB, queries []*rowQuery) (err error) {
	var statements pgx.Batch
	for _, q := range queries {
		statements.Queue(q.statement, q.workspaceID, q.id)
	}
	results := pool.SendBatch(ctx, &statements)
	defer func() { err = errors.Join(err, results.Close()) }()
	for _, q := range queries {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		if q.err = q.read(rows); q.err != nil {
			return q.err
		}
	}
	return nil
}

// read reads the result. A panic becomes this query's error, so that it does not end the other
// queries of the batch.
func (q *rowQuery) read(rows pgx.Rows) (err error) {
	defer rows.Close()
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%w: %v\n%s", errRowPanic, fault, debug.Stack())
		}
	}()
	q.body.Reset()
	r := &rowReader{rows: rows}
	if q.version, err = r.version(); err != nil {
		return err
	}
	_, values, ok, err := r.next()
	if ok && err == nil {
		appendRow(q.body, values[columnFragments:])
	}
	return err
}

// answerRow answers with one row of a read table.
func answerRow(q *request) error {
	resource := q.endpoint.Resource
	if !domain.IsID(q.pathID) { // cannot exist, and may not be valid text for the database
		return answer.UnknownID(resource.Label())
	}
	query := &rowQuery{
		statement: q.endpoint.statement(statementKey{visible: q.visible}), workspaceID: q.key.WorkspaceID, id: q.pathID,
		body: q.api.answers.Buffer(), err: errNoResult,
	}
	if err := q.from.rows[resource.Table].Do(q, query); err != nil { // the batch may still use the buffer
		return q.readError(err)
	}
	defer q.api.answers.Release(query.body)
	if query.err != nil {
		return q.readError(query.err)
	}
	if err := reached(q, query.version); err != nil {
		return err
	}
	if query.body.Len() == 0 {
		return answer.UnknownID(resource.Label())
	}
	q.rows = 1
	return q.answerWith(query.body.Bytes(), query.version)
}
