package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// shadowStore is a rowStore in shadow tables: temporary tables like the read tables. The ordinary
// projection fills them a page of entries at a time, so that only the rows of a page are in memory.
//
// The tables belong to their own session and end with it, however it ends. Their names differ from
// those of the read tables: a session that has lost them (behind a pooler that shares sessions
// between transactions) must get an error, and must never see a read table.
type shadowStore struct {
	conn        *pgx.Conn
	end         func(context.Context) // ends the session
	workspaceID string
	rules       projections.Rules
	tables      []*table.Table // the read tables
	shadows     *table.Set
	shadowOf    map[*table.Table]*table.Table
	frozen      bool
	unsaved     map[*table.Table][]table.Key // dirty keys that are not in dirty_key yet
	massRows    int                          // see projections.Projection
	massChanged int                          // rows changed by the entry being folded, without being loaded
	limit       RateLimiter                  // the rate limiter of this fold
	entries     int                          // how many were folded before freeze
	vacuumAt    int                          // entries after which the tables are vacuumed
}

// shadowName returns the name of the shadow table for a read table.
func shadowName(readTable string) string { return "pg_temp.shadow_" + readTable }

// DirectError says that a workspace has to be folded into temporary tables, which are lost behind a
// pooler that shares sessions between transactions.
type DirectError struct{ WorkspaceID string }

func (e *DirectError) Error() string {
	return fmt.Sprintf("the workspace %s is larger than the memory for folding it, and temporary tables are not kept through a pooler: "+
		"set LEDGERFEED_LISTEN_DATABASE_URL to the address of PostgreSQL itself, or give verify or rebuild more --memory", e.WorkspaceID)
}

// newShadowStore opens the session. The caller must close it.
func (r *Replayer) newShadowStore(ctx context.Context, workspaceID string, apply applyFunc) (*shadowStore, error) {
	conn, end, err := r.session(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	s := &shadowStore{
		conn: conn, end: end, workspaceID: workspaceID, rules: projections.Rules{Apply: apply},
		tables: r.tables, shadows: table.NewSetNamed(shadowName), shadowOf: map[*table.Table]*table.Table{},
		unsaved: map[*table.Table][]table.Key{}, massRows: r.cfg.MassRows, vacuumAt: logPage,
	}
	for i, shadow := range s.shadows.All() {
		s.shadowOf[s.tables[i]] = shadow
	}
	if err := s.create(ctx); err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

// sessionWait is how long a fold waits for a session.
const sessionWait = time.Minute

// session opens a session for shadow tables; end ends it. The error is a *DirectError where a
// pooler keeps no sessions.
func (r *Replayer) session(ctx context.Context, workspaceID string) (conn *pgx.Conn, end func(context.Context), err error) {
	ctx, cancel := context.WithTimeout(ctx, sessionWait)
	defer cancel()
	switch {
	case r.cfg.Direct != "":
		conn, err = pg.ConnectWith(ctx, r.cfg.Direct, PoolSettings())
		end = func(ctx context.Context) { _ = conn.Close(ctx) } // the connection is gone even if the server was not told in time
	case pg.IsPooled(pg.ConfigOf(r.cfg.Sessions)):
		return nil, nil, &DirectError{workspaceID}
	default:
		conn, end, err = pg.Session(ctx, r.cfg.Sessions)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open a session for the shadow tables of %s: %w", workspaceID, err)
	}
	return conn, end, nil
}

// create creates the tables, with the indexes that the projection's statements expect.
func (s *shadowStore) create(ctx context.Context) error {
	var b pgx.Batch
	b.Queue("SET idle_session_timeout = 0") // this session may be idle for long between two statements
	for _, t := range s.tables {
		b.Queue("CREATE TABLE " + s.shadowOf[t].Name + " (LIKE " + t.Name + " INCLUDING INDEXES INCLUDING DEFAULTS INCLUDING GENERATED)")
	}
	b.Queue(`CREATE TABLE pg_temp.dirty_key (
		table_name text COLLATE "C", first text COLLATE "C", second text COLLATE "C", PRIMARY KEY (table_name, first, second))`)
	if err := s.conn.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("create the shadow tables of %s: %w", s.workspaceID, err)
	}
	return nil
}

const closeTimeout = 5 * time.Second

// close ends the session, even if the work was interrupted.
func (s *shadowStore) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	s.end(ctx)
}

func (s *shadowStore) fold(ctx context.Context, entries []domain.Entry) error {
	n := len(entries)
	// After an entry that changes many rows, the next one may do so, too. Rows loaded for the
	// entries behind it would then be loaded again, so fewer entries are folded at a time.
	for most := n; len(entries) > 0; {
		some := entries[:min(most, len(entries))]
		handled, err := s.foldSome(ctx, some)
		if err != nil {
			return fmt.Errorf("fill the shadow tables of %s: %w", s.workspaceID, err)
		}
		if handled < len(some) {
			most = handled
		} else {
			most *= 2
		}
		entries = entries[handled:]
	}
	if s.frozen { // few entries follow, and the checkpoint may be locked
		return nil
	}
	s.entries += n
	return s.vacuum(ctx)
}

// foldSome folds the entries before the first one that changes many rows or, if there are none
// before it, that entry alone. It returns how many entries it folded.
func (s *shadowStore) foldSome(ctx context.Context, entries []domain.Entry) (handled int, err error) {
	do := projections.Projection{
		Tables: s.shadows, Rules: s.rules, MassRows: s.massRows, Saved: s.noteChanged,
		Sliced: func(ctx context.Context, rows int, _ time.Duration) error {
			s.massChanged += rows
			return s.limit(ctx, 0) // lets the background audit renew its claim
		},
	}
	err = pg.InTx(ctx, s.conn, func(tx pgx.Tx) error {
		stops, err := do.Project(ctx, tx, []eventlog.Segment{{WorkspaceID: s.workspaceID, Entries: entries}})
		if err != nil {
			return err
		}
		handled = len(entries)
		stop, stopped := stops[s.workspaceID]
		if !stopped {
			return nil
		}
		handled = slices.IndexFunc(entries, func(e domain.Entry) bool { return e.Position == stop })
		if handled > 0 {
			return nil
		}
		handled = 1
		if err := do.ProjectMass(ctx, tx, s.workspaceID, &entries[0]); err != nil {
			return err
		}
		return s.noteMassChanged(ctx, tx, stop)
	})
	if err != nil {
		return 0, err
	}
	return handled, s.payForMass(ctx)
}

// payForMass counts the rows that were changed without being loaded against the rate. It runs after
// their transaction, which must not stay open while it waits.
func (s *shadowStore) payForMass(ctx context.Context) error {
	for s.massChanged > 0 {
		n := min(s.massChanged, table.PageRows)
		s.massChanged -= n
		if err := s.limit(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// noteChanged records, after freeze, which rows a fold has changed.
func (s *shadowStore) noteChanged(_ string, folded *table.Fold) error {
	if !s.frozen {
		return nil
	}
	for _, t := range s.tables {
		note := func(k table.Key) { s.unsaved[t] = append(s.unsaved[t], k) }
		t.Changed(folded, note)
		t.Deleted(folded, note)
	}
	return nil
}

// noteMassChanged records, after freeze, which rows the entry at a position was the last to change.
func (s *shadowStore) noteMassChanged(ctx context.Context, tx pgx.Tx, position int64) error {
	if !s.frozen {
		return nil
	}
	for _, t := range s.tables {
		if t.HasID() {
			_, err := tx.Exec(ctx, `
				INSERT INTO pg_temp.dirty_key (table_name, first, second)
				SELECT $1, t.id, '' FROM `+s.shadowOf[t].Name+` t WHERE t.workspace_id = $2 AND t.position = $3
				ON CONFLICT DO NOTHING`, t.Name, s.workspaceID, position)
			if err != nil {
				return fmt.Errorf("note which rows of %s in %s have changed: %w", t.Name, s.workspaceID, err)
			}
		}
	}
	return nil
}

// vacuum frees the space of replaced row versions and gives the planner statistics, each time the
// number of entries has doubled: autovacuum does not work on temporary tables.
func (s *shadowStore) vacuum(ctx context.Context) error {
	if s.entries < s.vacuumAt {
		return nil
	}
	s.vacuumAt *= 2
	names := make([]string, len(s.tables))
	for i, t := range s.tables {
		names[i] = s.shadowOf[t].Name
	}
	if _, err := s.conn.Exec(ctx, "VACUUM (ANALYZE) "+strings.Join(names, ", ")); err != nil {
		return fmt.Errorf("vacuum the shadow tables of %s: %w", s.workspaceID, err)
	}
	return nil
}

func (s *shadowStore) freeze() { s.frozen = true }

func (s *shadowStore) list(t *table.Table) lister {
	return func(ctx context.Context, after table.Key, through *table.Key, each func([]table.Key) error) error {
		return pages(after, each, func(after table.Key) ([]table.Key, error) {
			return s.shadowOf[t].KeysAfter(ctx, s.conn, s.workspaceID, after, through)
		})
	}
}

// pages calls each with page after page of keys in their order.
func pages(after table.Key, each func([]table.Key) error, next func(after table.Key) ([]table.Key, error)) error {
	for {
		keys, err := next(after)
		if err != nil || len(keys) == 0 {
			return err
		}
		last := len(keys) < table.PageRows
		after = keys[len(keys)-1]
		if err := each(keys); err != nil || last {
			return err
		}
	}
}

func (s *shadowStore) expected(ctx context.Context, t *table.Table, keys []table.Key, visit func(i int, values []string) error) error {
	if len(keys) == 0 {
		return nil
	}
	rows, err := s.shadowOf[t].Pick(ctx, s.conn, s.workspaceID, keys)
	if err != nil {
		return err
	}
	buffer := make([]string, len(t.Columns))
	for i, k := range keys {
		values := buffer
		row, found := rows[k]
		if !found {
			values = nil
		}
		for j, v := range row {
			values[j] = string(v)
		}
		if err := visit(i, values); err != nil {
			return err
		}
	}
	return nil
}

func (s *shadowStore) markDirty(ctx context.Context, t *table.Table, k table.Key) error {
	s.unsaved[t] = append(s.unsaved[t], k)
	if len(s.unsaved[t]) < table.PageRows {
		return nil
	}
	return s.saveDirty(ctx, t)
}

func (s *shadowStore) saveDirty(ctx context.Context, t *table.Table) error {
	if len(s.unsaved[t]) == 0 {
		return nil
	}
	var first, second []string
	for _, k := range s.unsaved[t] {
		first, second = append(first, k[0]), append(second, k[1])
	}
	s.unsaved[t] = s.unsaved[t][:0]
	_, err := s.conn.Exec(ctx, `
		INSERT INTO pg_temp.dirty_key (table_name, first, second)
		SELECT $1, k.first, k.second FROM unnest($2::text[], $3::text[]) AS k (first, second)
		ON CONFLICT DO NOTHING`, t.Name, first, second)
	if err != nil {
		return fmt.Errorf("note which rows of %s in %s may be wrong: %w", t.Name, s.workspaceID, err)
	}
	return nil
}

func (s *shadowStore) dirty(ctx context.Context, t *table.Table, each func([]table.Key) error) error {
	if err := s.saveDirty(ctx, t); err != nil {
		return err
	}
	return pages(table.Key{}, each, func(after table.Key) ([]table.Key, error) {
		keys, err := pg.Collect(ctx, s.conn, func(row pgx.CollectableRow) (k table.Key, err error) {
			return k, row.Scan(&k[0], &k[1])
		}, `
			SELECT first, second FROM pg_temp.dirty_key
			 WHERE table_name = $1 AND (first, second) > ($2::text, $3::text) ORDER BY table_name, first, second LIMIT $4`,
			t.Name, after[0], after[1], table.PageRows)
		if err != nil {
			return nil, fmt.Errorf("read which rows of %s in %s may be wrong: %w", t.Name, s.workspaceID, err)
		}
		return keys, nil
	})
}

// count reads page by page, so that no snapshot is held for long.
func (s *shadowStore) count(ctx context.Context) (rows int64, err error) {
	for _, t := range s.tables {
		err := s.list(t)(ctx, t.First(), nil, func(keys []table.Key) error {
			rows += int64(len(keys))
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return rows, nil
}

func (s *shadowStore) newest(ctx context.Context) (position int64, err error) {
	return table.NewestPosition(ctx, s.conn, s.shadows.All(), s.workspaceID)
}
