package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// rowPage is how many rows are compared at a time: some milliseconds of a
// snapshot, which is let go before they are compared.
const rowPage = 1000

// storedPage is a page of a read table, from one snapshot.
type storedPage struct {
	checkpoint int64
	keys       []key
	values     [][][]byte
	held       map[key]struct{} // the keys
}

func (p *storedPage) holds(k key) bool {
	_, held := p.held[k]
	return held
}

// readPage reads the rows after a key.
func (s *sheet) readPage(ctx context.Context, r *refold, after key) (*storedPage, error) {
	args := append([]any{r.workspaceID}, s.keyArgs(after)...)
	rows, err := r.cfg.Pool.Query(ctx, s.pageSQL, append(args, rowPage)...)
	if err != nil {
		return nil, fmt.Errorf("read the rows of %s in %s: %w", s.table, r.workspaceID, err)
	}
	defer rows.Close()
	page := &storedPage{checkpoint: -1}
	for rows.Next() {
		if page.checkpoint < 0 {
			if err := rows.Scan(append([]any{&page.checkpoint}, make([]any, len(s.keys)+len(s.columns))...)...); err != nil {
				return nil, fmt.Errorf("read the rows of %s in %s: %w", s.table, r.workspaceID, err)
			}
		}
		if raw := rows.RawValues()[1:]; raw[0] != nil {
			k, values := s.split(raw)
			page.keys, page.values = append(page.keys, k), append(page.values, values)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the rows of %s in %s: %w", s.table, r.workspaceID, err)
	}
	if page.checkpoint < 0 {
		return nil, fmt.Errorf("workspace %s has no checkpoint for its read models", r.workspaceID)
	}
	page.held = make(map[key]struct{}, len(page.keys))
	for _, k := range page.keys {
		page.held[k] = struct{}{}
	}
	return page, nil
}

// split copies a row out of the connection's buffer.
func (s *sheet) split(raw [][]byte) (k key, values [][]byte) {
	k = rawKey(raw[:len(s.keys)])
	raw = raw[len(s.keys):]
	size := 0
	for _, v := range raw {
		size += len(v)
	}
	buffer, values := make([]byte, 0, size), make([][]byte, len(raw))
	for i, v := range raw {
		if v == nil {
			continue
		}
		start := len(buffer)
		buffer = append(buffer, v...)
		values[i] = buffer[start:len(buffer):len(buffer)]
	}
	return k, values
}

// visitor is told of every row of a sheet that is not as folded: stored is nil
// when it is missing, image when it must not be there.
type visitor func(s *sheet, k key, stored [][]byte, image []string) error

// errCheckpointMoved says that a checkpoint moved back under a comparison, or
// at all where it must not.
var errCheckpointMoved = errors.New("the checkpoint moved while rows were compared")

// compare compares a read table with the fold, page by page. The projector may
// go on meanwhile: every page is compared with the fold up to the checkpoint
// that the page was read at.
func (s *sheet) compare(ctx context.Context, r *refold, visit visitor) error {
	list := r.rows.list(s)
	for after, last := s.first(), false; !last; {
		page, err := s.readPage(ctx, r, after)
		if err != nil {
			return err
		}
		if err := r.reach(ctx, page.checkpoint); err != nil {
			return err
		}
		var through *key
		if last = len(page.keys) < rowPage; !last {
			most := slices.MaxFunc(page.keys, compareKeys)
			through = &most
		}
		if err := s.comparePage(ctx, r, page, visit); err != nil {
			return err
		}
		err = list(ctx, after, through, func(keys []key) error { return s.missing(ctx, r, page, keys, visit) })
		if err != nil {
			return err
		}
		r.cfg.Meter.RowsCompared.Add(int64(len(page.keys)))
		if err := r.pace(ctx, len(page.keys)); err != nil {
			return err
		}
		if !last {
			after = *through
		}
	}
	return nil
}

// comparePage compares the rows that there are.
func (s *sheet) comparePage(ctx context.Context, r *refold, page *storedPage, visit visitor) error {
	return r.rows.images(ctx, s, page.keys, func(i int, image []string) error {
		if image != nil && same(page.values[i], image) {
			return nil
		}
		return visit(s, page.keys[i], page.values[i], image)
	})
}

// missing visits those of the keys whose rows must be on the page and are not.
func (s *sheet) missing(ctx context.Context, r *refold, page *storedPage, keys []key, visit visitor) error {
	keys = slices.DeleteFunc(keys, page.holds)
	err := r.rows.images(ctx, s, keys, func(i int, image []string) error {
		if image == nil {
			return nil
		}
		return visit(s, keys[i], nil, image)
	})
	if err != nil {
		return err
	}
	return r.pace(ctx, len(keys))
}

// reach folds forward to the checkpoint that rows were read at.
func (r *refold) reach(ctx context.Context, checkpoint int64) error {
	if r.pinned != nil {
		if checkpoint != *r.pinned {
			return errCheckpointMoved
		}
		return nil
	}
	if checkpoint < r.position {
		return errCheckpointMoved
	}
	return r.through(ctx, checkpoint)
}

// compareAll compares every sheet that is asked for.
func (r *refold) compareAll(ctx context.Context, asked func(*sheet) bool, visit visitor) error {
	for _, s := range r.sheets {
		if asked != nil && !asked(s) {
			continue
		}
		if err := s.compare(ctx, r, visit); err != nil {
			return err
		}
	}
	return nil
}

// querier is a transaction or a connection: whose table is meant depends on it.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// pick reads rows by their keys, in no order.
func (s *sheet) pick(ctx context.Context, from querier, workspaceID string, keys []key, each func(k key, values [][]byte)) error {
	rows, err := from.Query(ctx, s.pickSQL, s.keyArrays(workspaceID, keys)...)
	if err != nil {
		return fmt.Errorf("read the rows of %s in %s: %w", s.table, workspaceID, err)
	}
	defer rows.Close()
	for rows.Next() {
		each(s.split(rows.RawValues()))
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the rows of %s in %s: %w", s.table, workspaceID, err)
	}
	return nil
}

// rawKey copies a key out of the connection's buffer.
func rawKey(raw [][]byte) (k key) {
	for i := range raw {
		k[i] = string(raw[i])
	}
	return k
}

// keyArrays are a workspace and keys as parameters: an array a column.
func (s *sheet) keyArrays(workspaceID string, keys []key) []any {
	args := []any{workspaceID}
	for i := range s.keys {
		column := make([]string, len(keys))
		for j, k := range keys {
			column[j] = k[i]
		}
		args = append(args, column)
	}
	return args
}
