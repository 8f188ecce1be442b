package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// entryColumns are read by scanEntries, in this order, from FromLog.
const entryColumns = `e.position, e.id, e.type, e.created_at, e.data::text, e.chain, d.salt, d.value`

// FromLog is the SQL for entries e with their detached values d, which are null for entries without
// one.
const FromLog = `event_log e` + Detached

// Detached is the SQL that joins entries e with their detached values d. It looks up each value by
// its key, whatever the statistics say, and only for entries whose stored form has a commitment.
const Detached = ` LEFT JOIN LATERAL (
		       SELECT d.subject, d.salt, d.value FROM log_detached d
		        WHERE log_commits(e.data::text) AND d.workspace_id = e.workspace_id AND d.position BETWEEN e.position AND e.position
		        ORDER BY d.position LIMIT 1) AS d ON true`

// queryInOrder queries rows in the order of an index, and turns sorts off so that PostgreSQL must
// use that index. While its statistics do not know a workspace, PostgreSQL expects one row there.
// It would read the first index that begins with the workspace and sort, even if the query names
// one value of another column. So a query for a single row asks for a range of one value, in its
// order.
func queryInOrder(ctx context.Context, pool pg.DB, scan func(pgx.Rows) error, sql string, args ...any) error {
	var b pgx.Batch
	b.Queue(`SELECT set_config('enable_sort', 'off', true)`)
	b.Queue(sql, args...).Query(scan)
	return pool.SendBatch(ctx, &b).Close()
}

// QueryRowInOrder queries a row and scans its columns. The query asks for a range of one value, in
// the order of that value, so that PostgreSQL uses its index whatever the statistics say about the
// workspace. The error is pgx.ErrNoRows if there is no row.
func QueryRowInOrder(ctx context.Context, pool pg.DB, columns []any, sql string, args ...any) error {
	return queryInOrder(ctx, pool, func(rows pgx.Rows) error {
		if !rows.Next() {
			return cmp.Or(rows.Err(), pgx.ErrNoRows)
		}
		return rows.Scan(columns...)
	}, sql, args...)
}

// Read returns the entries of a workspace after a position, oldest first, at
// most limit of them.
func (l *Log) Read(ctx context.Context, workspaceID string, after int64, limit int) (entries []domain.Entry, err error) {
	err = queryInOrder(ctx, l.pool, func(rows pgx.Rows) (err error) {
		entries, err = scanEntries(rows, workspaceID)
		return err
	}, `
		SELECT `+entryColumns+` FROM `+FromLog+`
		 WHERE e.workspace_id = $1 AND e.position > $2 ORDER BY e.position LIMIT $3`,
		workspaceID, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", workspaceID, err)
	}
	return entries, nil
}

func scanEntries(rows pgx.Rows, workspaceID string) ([]domain.Entry, error) {
	defer rows.Close()
	var entries []domain.Entry
	for rows.Next() {
		e := domain.Entry{WorkspaceID: workspaceID}
		if err := scanEntry(rows, &e); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

func scanEntry(rows pgx.Rows, e *domain.Entry, more ...any) error {
	var (
		chain, salt []byte
		value       *string
	)
	if err := rows.Scan(append([]any{&e.Position, &e.ID, &e.Type, &e.CreatedAt, &e.Data, &chain, &salt, &value}, more...)...); err != nil {
		return fmt.Errorf("scan an entry: %w", err)
	}
	e.CreatedAt = e.CreatedAt.UTC()
	copy(e.Chain[:], chain)
	SetDetached(e, salt, value)
	return nil
}

// SetDetached gives an entry its detached value, as FromLog has it.
func SetDetached(e *domain.Entry, salt []byte, value *string) {
	if value != nil {
		e.Value = *value
		copy(e.Salt[:], salt)
	}
}

// readPage is how many entries a walk reads at a time.
const readPage = 1000

// Walk calls do with every entry of a workspace after a position, oldest first, including entries
// that are appended meanwhile. It returns the first error of do.
func (l *Log) Walk(ctx context.Context, workspaceID string, after int64, do func(*domain.Entry) error) error {
	for {
		entries, err := l.Read(ctx, workspaceID, after, readPage)
		if err != nil {
			return err
		}
		for i := range entries {
			if err := do(&entries[i]); err != nil {
				return err
			}
		}
		if len(entries) < readPage {
			return nil
		}
		after = entries[len(entries)-1].Position
	}
}

// AppendedSince returns the first position of a workspace that was appended at a time or later; one past
// the newest position if there is none, and 1 in a workspace that does not exist. It may be off by entries that were appended at nearly the same
// time, because a transaction's time is that of its begin.
func (l *Log) AppendedSince(ctx context.Context, workspaceID string, since time.Time) (int64, error) {
	head, err := l.Head(ctx, workspaceID)
	if _, unknown := errors.AsType[*domain.UnknownWorkspaceError](err); err != nil && !unknown {
		return 0, err
	}
	first, end := int64(1), head.Position+1 // the answer is one of them or lies between
	for first < end {
		middle := first + (end-first)/2
		var at time.Time
		err := QueryRowInOrder(ctx, l.pool, []any{&at}, `
			SELECT coalesce(appended_at, created_at) FROM event_log
			 WHERE workspace_id = $1 AND position BETWEEN $2 AND $2 ORDER BY position LIMIT 1`, workspaceID, middle)
		if err != nil {
			return 0, fmt.Errorf("read when an entry of %s was appended: %w", workspaceID, err)
		}
		if at.Before(since) {
			first = middle + 1
		} else {
			end = middle
		}
	}
	return first, nil
}

// EntryAt returns the entry at a position; nil if there is none.
func (l *Log) EntryAt(ctx context.Context, workspaceID string, position int64) (*domain.Entry, error) {
	entries, err := l.Read(ctx, workspaceID, position-1, 1)
	if err != nil || len(entries) == 0 || entries[0].Position != position {
		return nil, err
	}
	return &entries[0], nil
}

// PositionOf returns the position of the entry with an id; 0 if the workspace has none.
func (l *Log) PositionOf(ctx context.Context, workspaceID, id string) (position int64, err error) {
	err = queryInOrder(ctx, l.pool, func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&position}, func() error { return nil })
		return err //nolint:wrapcheck // wrapped below
	}, `SELECT e.position FROM event_log e WHERE e.workspace_id = $1 AND e.id BETWEEN $2 AND $2 ORDER BY e.id`, workspaceID, id)
	if err != nil {
		return 0, fmt.Errorf("find the entry %s of %s: %w", id, workspaceID, err)
	}
	return position, nil
}

// ChainsAt reads the chain value at one position in each of several workspaces, with one statement.
// It leaves out workspaces whose log has no entry at that position.
func ChainsAt(ctx context.Context, l *Log, at map[string]int64) (map[string][32]byte, error) {
	chains := make(map[string][32]byte, len(at))
	if len(at) == 0 {
		return chains, nil
	}
	ids, positions := make([]string, 0, len(at)), make([]int64, 0, len(at))
	for id, position := range at {
		ids, positions = append(ids, id), append(positions, position)
	}
	var (
		id    string
		chain []byte
	)
	err := queryInOrder(ctx, l.pool, func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&id, &chain}, func() error {
			if len(chain) != len(domain.Entry{}.Chain) {
				return fmt.Errorf("the chain value of %s has %d bytes", id, len(chain))
			}
			chains[id] = [32]byte(chain)
			return nil
		})
		return err //nolint:wrapcheck // wrapped below
	}, `
		SELECT k.workspace_id, e.chain FROM unnest($1::text[], $2::bigint[]) AS k (workspace_id, position) CROSS JOIN LATERAL (
		       SELECT e.chain FROM event_log e
		        WHERE e.workspace_id = k.workspace_id AND e.position BETWEEN k.position AND k.position ORDER BY e.position LIMIT 1) AS e`, ids, positions)
	if err != nil {
		return nil, fmt.Errorf("read chain values: %w", err)
	}
	return chains, nil
}

// Head is a workspace's newest entry.
type Head struct {
	Position  int64
	CreatedAt time.Time // zero before the first entry
	Chain     [32]byte
}

// Head returns the newest position of a workspace. The error is a
// *domain.UnknownWorkspaceError when there is no such workspace.
func (l *Log) Head(ctx context.Context, workspaceID string) (Head, error) {
	var (
		h     Head
		at    *time.Time
		chain []byte
	)
	err := l.pool.QueryRow(ctx, `
		SELECT position, nullif(created_at, '-infinity'), chain FROM log_head WHERE workspace_id = $1`,
		workspaceID).Scan(&h.Position, &at, &chain)
	if errors.Is(err, pgx.ErrNoRows) {
		return Head{}, &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
	}
	if err != nil {
		return Head{}, fmt.Errorf("read the head of %s: %w", workspaceID, err)
	}
	if at != nil {
		h.CreatedAt = at.UTC()
	}
	copy(h.Chain[:], chain)
	return h, nil
}
