package readapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
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

// newRowReader reads single rows. Rows that are asked for together are still read
// by a statement each: they share the way to the database and back.
func newRowReader(pool *pgxpool.Pool) *gather[rowQuestion] {
	return newGather(pool, func(ctx context.Context, questions []*rowQuestion) {
		if len(questions) > 1 && readTogether(ctx, pool, questions) == nil {
			return
		}
		// Alone, or because what one of them met has stopped them all.
		for _, q := range questions {
			rows, err := pool.Query(ctx, q.statement, q.workspaceID, q.id)
			if err == nil {
				err = q.read(rows)
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
			return err //nolint:wrapcheck // each is asked again
		}
		if err := q.read(rows); err != nil {
			return err
		}
	}
	return nil
}

// read reads the answer: where the workspace stands, and the row.
func (q *rowQuestion) read(rows pgx.Rows) error {
	defer rows.Close()
	q.body.Reset()
	r := &rowReader{rows: rows}
	var err error
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
	}
	if err := c.api.rows.put(c.ctx, q); err != nil { // the buffer is still in use
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
