package readapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// rowQuestion asks for one row by its id.
type rowQuestion struct {
	statement       string // of oneStatement
	workspaceID, id string

	body    *bytes.Buffer // the row is written to it; left empty where there is none
	version string
	err     error
}

var errUnanswered = errors.New("nobody answered")

// newRowReader reads single rows of one resource. Rows that are asked for together
// are still read by a statement each: they share the way to the database and back.
// Each resource has a reader of its own, so that a table that has to be waited for
// holds up nobody who asks for another.
func newRowReader(pool *pgxpool.Pool, patience time.Duration) *gather[rowQuestion] {
	return newGather(pool, patience, func(ctx context.Context, questions []*rowQuestion) {
		if len(questions) > 1 {
			err := readTogether(ctx, pool, questions)
			if err == nil {
				return
			}
			var unreachable *pgconn.ConnectError
			if ctx.Err() != nil || errors.As(err, &unreachable) {
				for _, q := range questions {
					q.err = err
				}
				return
			}
		}
		// Alone, or because what one of them met has stopped them all.
		for _, q := range questions {
			rows, err := pool.Query(ctx, q.statement, q.workspaceID, q.id)
			if err == nil {
				err = q.take(rows)
			}
			q.err = err
		}
	})
}

func readTogether(ctx context.Context, pool *pgxpool.Pool, questions []*rowQuestion) (err error) {
	var batch pgx.Batch
	for _, q := range questions {
		batch.Queue(q.statement, q.workspaceID, q.id)
	}
	results := pool.SendBatch(ctx, &batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	for _, q := range questions {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		if q.err = q.take(rows); q.err != nil {
			return q.err
		}
	}
	return nil
}

// take reads the answer. A row that makes it panic takes no others with it.
func (q *rowQuestion) take(rows pgx.Rows) error {
	defer rows.Close()
	return safely(func() error { return q.read(rows) })
}

// read reads where the workspace stands, and the row.
func (q *rowQuestion) read(rows pgx.Rows) (err error) {
	q.body.Reset()
	r := &rowReader{rows: rows}
	if q.version, err = r.standing(); err != nil {
		return err
	}
	_, values, ok, err := r.next()
	if ok && err == nil {
		appendRow(q.body, values[columnFragments:])
	}
	return err
}

func (c *call) answerOne() error {
	if !isID(c.id) { // cannot exist, and may be no text for the database
		return unknownID(c.route.resource.words())
	}
	q := &rowQuestion{
		statement: c.route.statements[key{sight: c.sight}], workspaceID: c.key.WorkspaceID, id: c.id, body: getScratch(),
		err: errUnanswered,
	}
	if err := c.api.rows[c.route.resource.table].put(c.ctx, q); err != nil { // the buffer is still in use
		return fmt.Errorf("read %s: %w", c.route.pattern, err)
	}
	defer putScratch(q.body)
	if q.err != nil {
		return fmt.Errorf("read %s: %w", c.route.pattern, q.err)
	}
	if q.body.Len() == 0 {
		return unknownID(c.route.resource.words())
	}
	c.rows = 1
	c.write(q.body.Bytes(), q.version)
	return nil
}
