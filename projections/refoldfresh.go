package projections

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// freshRows are foldedRows in tables: the projector itself makes them, a
// segment at a time, so that no more than a segment's rows are in memory.
//
// The tables are temporary ones of a session of their own and end with it,
// however it ends. They are like the read tables and have names of their own: a
// session that lost them, as behind a pooler that shares sessions, must meet an
// error and never a read table.
type freshRows struct {
	conn        *pgx.Conn
	workspaceID string
	sheets      []*sheet          // of the read tables
	twins       map[*sheet]*sheet // of the fresh tables
	projector   *Projector
	settled     bool
	pending     map[*sheet][]key // doubts that are not in their table yet
	entries     int              // folded until it settled
	tidyAt      int              // entries after which the tables are tidied
}

// ofFresh names a fresh table.
func ofFresh(table string) string { return "pg_temp.fresh_" + table }

// newFreshRows opens the session. The caller must close it.
func (r *Replay) newFreshRows(ctx context.Context, workspaceID string, do apply) (*freshRows, error) {
	projector, err := newProjector(Rules{Apply: do}, nil, ofFresh)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, r.cfg.Pool.Config().ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("open a session for fresh rows of %s: %w", workspaceID, err)
	}
	f := &freshRows{
		conn: conn, workspaceID: workspaceID, sheets: r.sheets, twins: map[*sheet]*sheet{},
		projector: projector, pending: map[*sheet][]key{}, tidyAt: logPage,
	}
	for i, twin := range newSheets(projector.tables) {
		f.twins[r.sheets[i]] = twin
	}
	if err := f.create(ctx); err != nil {
		f.close(ctx)
		return nil, err
	}
	return f, nil
}

// create makes the tables. Their indexes are those that the projector's
// statements expect.
func (f *freshRows) create(ctx context.Context) error {
	var b pgx.Batch
	b.Queue("SET idle_session_timeout = 0") // others may have much to do between two statements of this session
	for _, s := range f.sheets {
		b.Queue("CREATE TABLE " + f.twins[s].table + " (LIKE " + s.table + " INCLUDING INDEXES INCLUDING DEFAULTS INCLUDING GENERATED)")
	}
	b.Queue(`CREATE TABLE pg_temp.doubted (
		sheet text COLLATE "C", first text COLLATE "C", second text COLLATE "C", PRIMARY KEY (sheet, first, second))`)
	if err := f.conn.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("make fresh tables for %s: %w", f.workspaceID, err)
	}
	return nil
}

const closePatience = 5 * time.Second

// close ends the session, also when the work was interrupted.
func (f *freshRows) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	_ = f.conn.Close(ctx) // closed in any case
}

func (f *freshRows) fold(ctx context.Context, entries []domain.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	var done *folding
	err := pg.InTx(ctx, f.conn, func(tx pgx.Tx) (err error) {
		done, err = f.projector.project(ctx, tx, []eventlog.Segment{{WorkspaceID: f.workspaceID, Entries: entries}})
		return err
	})
	if err != nil {
		return fmt.Errorf("make fresh rows of %s: %w", f.workspaceID, err)
	}
	if !f.settled {
		f.entries += len(entries)
		return f.tidy(ctx)
	}
	// What comes now is little, and may come while the projector waits for the
	// checkpoint: no time to tidy.
	for _, s := range f.sheets {
		s.changed(done.states[f.workspaceID], func(k key) { f.pending[s] = append(f.pending[s], k) })
		if err := f.keep(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// tidy frees what changed rows have left behind, and tells the planner about
// the tables, whenever they have doubled: nobody else looks after temporary
// tables.
func (f *freshRows) tidy(ctx context.Context) error {
	if f.entries < f.tidyAt {
		return nil
	}
	f.tidyAt *= 2
	names := make([]string, len(f.sheets))
	for i, s := range f.sheets {
		names[i] = f.twins[s].table
	}
	if _, err := f.conn.Exec(ctx, "VACUUM (ANALYZE) "+strings.Join(names, ", ")); err != nil {
		return fmt.Errorf("tidy fresh rows of %s: %w", f.workspaceID, err)
	}
	return nil
}

func (f *freshRows) settle() { f.settled = true }

func (f *freshRows) list(s *sheet) lister {
	return func(ctx context.Context, after key, through *key, each func([]key) error) error {
		twin := f.twins[s]
		sql, end := twin.restSQL, []any{}
		if through != nil {
			sql, end = twin.rangeSQL, s.keyArgs(*through)
		}
		return f.pages(ctx, sql, after, func(k key) []any {
			return append(append([]any{f.workspaceID}, s.keyArgs(k)...), end...)
		}, each)
	}
}

// pages reads keys along their order.
func (f *freshRows) pages(ctx context.Context, sql string, after key, args func(after key) []any, each func([]key) error) error {
	for {
		rows, err := f.conn.Query(ctx, sql, args(after)...)
		if err != nil {
			return fmt.Errorf("list fresh rows of %s: %w", f.workspaceID, err)
		}
		keys := make([]key, 0, rowPage)
		for rows.Next() {
			keys = append(keys, rawKey(rows.RawValues()))
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("list fresh rows of %s: %w", f.workspaceID, err)
		}
		if len(keys) == 0 {
			return nil
		}
		last := len(keys) < rowPage
		after = keys[len(keys)-1]
		if err := each(keys); err != nil || last {
			return err
		}
	}
}

func (f *freshRows) images(ctx context.Context, s *sheet, keys []key, visit func(i int, image []string) error) error {
	if len(keys) == 0 {
		return nil
	}
	made := make(map[key][][]byte, len(keys))
	if err := f.twins[s].pick(ctx, f.conn, f.workspaceID, keys, func(k key, values [][]byte) { made[k] = values }); err != nil {
		return err
	}
	buffer := make([]string, len(s.columns))
	for i, k := range keys {
		image := buffer
		values, there := made[k]
		if !there {
			image = nil
		}
		for j, v := range values {
			image[j] = string(v)
		}
		if err := visit(i, image); err != nil {
			return err
		}
	}
	return nil
}

func (f *freshRows) doubt(ctx context.Context, s *sheet, k key) error {
	f.pending[s] = append(f.pending[s], k)
	if len(f.pending[s]) < rowPage {
		return nil
	}
	return f.keep(ctx, s)
}

// keep writes the doubts that have gathered.
func (f *freshRows) keep(ctx context.Context, s *sheet) error {
	if len(f.pending[s]) == 0 {
		return nil
	}
	columns := [2][]string{}
	for _, k := range f.pending[s] {
		columns[0], columns[1] = append(columns[0], k[0]), append(columns[1], k[1])
	}
	f.pending[s] = f.pending[s][:0]
	_, err := f.conn.Exec(ctx, `
		INSERT INTO pg_temp.doubted (sheet, first, second) SELECT $1, k.first, k.second FROM unnest($2::text[], $3::text[]) AS k (first, second)
		ON CONFLICT DO NOTHING`, s.table, columns[0], columns[1])
	if err != nil {
		return fmt.Errorf("keep which rows of %s in %s may be wrong: %w", s.table, f.workspaceID, err)
	}
	return nil
}

func (f *freshRows) doubted(ctx context.Context, s *sheet, each func([]key) error) error {
	if err := f.keep(ctx, s); err != nil {
		return err
	}
	const sql = `SELECT first, second FROM pg_temp.doubted WHERE sheet = $1 AND (first, second) > ($2::text, $3::text) ORDER BY sheet, first, second LIMIT $4`
	return f.pages(ctx, sql, key{}, func(k key) []any { return []any{s.table, k[0], k[1], rowPage} }, each)
}

// count goes page by page too, so that no snapshot is held for long.
func (f *freshRows) count(ctx context.Context) (n int64, err error) {
	for _, s := range f.sheets {
		err := f.list(s)(ctx, s.first(), nil, func(keys []key) error {
			n += int64(len(keys))
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

func (f *freshRows) newest(ctx context.Context) (position int64, err error) {
	twins := make([]*sheet, len(f.sheets))
	for i, s := range f.sheets {
		twins[i] = f.twins[s]
	}
	return newestShown(ctx, f.conn, twins, f.workspaceID)
}
