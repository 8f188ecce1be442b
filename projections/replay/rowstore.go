package replay

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// rowStore holds the rows that the fold of a workspace's log has made so far: in memory
// (memoryStore) or, if they would take too much memory, in shadow tables (shadowStore).
type rowStore interface {
	// fold folds the next entries, at most logPage.
	fold(ctx context.Context, entries []domain.Entry) error

	// freeze ends the first fold. The key of every row that changes from here on
	// is dirty.
	freeze()

	// list begins a listing of a table's keys.
	list(t *table.Table) lister

	// expected calls visit for each key, in order, with the values of its row, or nil if there must
	// be no such row. The values are valid until visit returns.
	expected(ctx context.Context, t *table.Table, keys []table.Key, visit func(i int, values []string) error) error

	// markDirty notes the key of a row that a repair must look at.
	markDirty(ctx context.Context, t *table.Table, k table.Key) error

	// dirty calls each with a table's dirty keys in order, a page at a time.
	dirty(ctx context.Context, t *table.Table, each func([]table.Key) error) error

	count(ctx context.Context) (rows int64, err error)
	newest(ctx context.Context) (position int64, err error) // the highest position of any row
	close(ctx context.Context)
}

// lister calls each with the keys greater than after, up to and including *through (nil: no limit),
// in order and a page at a time. It may list rows that have been deleted since it was made. each
// may keep and change its slice.
type lister func(ctx context.Context, after table.Key, through *table.Key, each func([]table.Key) error) error

// applyFunc gives one entry its effect; see projections.Rules.
type applyFunc func(*domain.State, *domain.Entry)

// memoryStore is a rowStore in memory.
type memoryStore struct {
	apply  applyFunc
	tables []*table.Table
	folded *table.Fold
	frozen bool

	changed map[*table.Table]map[table.Key]struct{} // by the fold since freeze
	marked  map[*table.Table]map[table.Key]struct{} // by markDirty
}

func newMemoryStore(tables []*table.Table, apply applyFunc) *memoryStore {
	m := &memoryStore{
		apply: apply, tables: tables, folded: table.NewFold(),
		changed: map[*table.Table]map[table.Key]struct{}{}, marked: map[*table.Table]map[table.Key]struct{}{},
	}
	for _, t := range tables {
		m.changed[t], m.marked[t] = map[table.Key]struct{}{}, map[table.Key]struct{}{}
	}
	return m
}

func (m *memoryStore) fold(_ context.Context, entries []domain.Entry) error {
	for i := range entries {
		m.apply(m.folded.State, &entries[i])
	}
	if m.frozen { // before freeze every row has changed, and recording that would cost a fifth of the time
		for _, t := range m.tables {
			note := func(k table.Key) { m.changed[t][k] = struct{}{} }
			t.Changed(m.folded, note)
			t.Deleted(m.folded, note)
		}
		m.folded.Reset()
	}
	return nil
}

func (m *memoryStore) freeze() {
	m.frozen = true
	m.folded.Reset()
}

func (m *memoryStore) list(t *table.Table) lister {
	var listed []table.Key // rows made later are in m.changed
	t.Each(m.folded, func(k table.Key) { listed = append(listed, k) })
	slices.SortFunc(listed, table.CompareKeys)
	return func(_ context.Context, after table.Key, through *table.Key, each func([]table.Key) error) error {
		within := func(k table.Key) bool {
			return table.CompareKeys(k, after) > 0 && (through == nil || table.CompareKeys(k, *through) <= 0)
		}
		from, found := slices.BinarySearchFunc(listed, after, table.CompareKeys)
		if found {
			from++
		}
		to := from
		for to < len(listed) && within(listed[to]) {
			to++
		}
		keys := slices.Clone(listed[from:to])
		for k := range m.changed[t] {
			if within(k) {
				keys = append(keys, k)
			}
		}
		if len(keys) > to-from {
			slices.SortFunc(keys, table.CompareKeys)
			keys = slices.Compact(keys)
		}
		return inPages(keys, each)
	}
}

func inPages(keys []table.Key, each func([]table.Key) error) error {
	for page := range slices.Chunk(keys, table.PageRows) {
		if err := each(page); err != nil {
			return err
		}
	}
	return nil
}

func (m *memoryStore) expected(_ context.Context, t *table.Table, keys []table.Key, visit func(i int, values []string) error) error {
	buffer := make([]string, len(t.Columns))
	for i, k := range keys {
		values := buffer
		if !t.Expected(m.folded, k, values) {
			values = nil
		}
		if err := visit(i, values); err != nil {
			return err
		}
	}
	return nil
}

func (m *memoryStore) markDirty(_ context.Context, t *table.Table, k table.Key) error {
	m.marked[t][k] = struct{}{}
	return nil
}

func (m *memoryStore) dirty(_ context.Context, t *table.Table, each func([]table.Key) error) error {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(m.marked[t])), maps.Keys(m.changed[t]))
	slices.SortFunc(keys, table.CompareKeys)
	return inPages(slices.Compact(keys), each)
}

func (m *memoryStore) count(context.Context) (rows int64, err error) {
	for _, t := range m.tables {
		t.Each(m.folded, func(table.Key) { rows++ })
	}
	return rows, nil
}

func (m *memoryStore) newest(context.Context) (position int64, err error) {
	for _, t := range m.tables {
		t.Each(m.folded, func(k table.Key) { position = max(position, t.Position(m.folded, k)) })
	}
	return position, nil
}

func (m *memoryStore) close(context.Context) {}

// convertAgain is the least time between two conversions of a workspace. Processes of an older
// version that still project mark the workspace as theirs again with every entry.
const convertAgain = time.Minute

// convert rebuilds the rows of a workspace that were made by older rules. That is an audit, too,
// because it compares all rows with the log. A workspace whose log is not what was appended cannot
// be rebuilt: convert only audits it, to report what is wrong, and tries again in an hour.
func (a *Auditor) convert(ctx context.Context, id string) error {
	list, err := a.replay.sizes(ctx, id)
	if err != nil {
		return err
	}
	b, err := a.replay.rebuild(audit.AsService(ctx), list[0], rebuildScope{})
	switch {
	case ctx.Err() != nil:
		return a.release(ctx, id)
	case err != nil:
		return a.failed(ctx, id, "cannot rebuild a workspace whose rows were made by older rules", err)
	case b.Refused != "":
		if err := a.audit(ctx, id); err != nil {
			return err
		}
		return a.store(ctx, id, `error = $2, claimed_until = $3`, b.Refused, a.cfg.Clock().Add(retryAfter))
	}
	a.converted.Inc()
	a.cfg.Logger.InfoContext(ctx, "the rows of a workspace were made by older rules and have been rebuilt", "workspace", id,
		"position", b.Position, "rules_before", b.RulesBefore, "rules", b.Rules, "written", b.Written, "deleted", b.Deleted)
	return a.store(ctx, id, `audited_at = $2, position = $3, differences = 0, error = NULL, claimed_until = NULL`, a.cfg.Clock(), b.Position)
}

// release releases a claim when the program ends.
func (a *Auditor) release(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return a.store(ctx, id, `claimed_until = NULL`)
}

// failed records that work on a workspace failed, and leaves it alone for an hour.
func (a *Auditor) failed(ctx context.Context, id, what string, err error) error {
	a.audited.WithLabelValues(auditFailed).Inc()
	a.cfg.Logger.ErrorContext(ctx, what, "workspace", id, "error", err, "retry_in", retryAfter)
	return a.store(ctx, id, `differences = NULL, error = $2, claimed_until = $3`, err.Error(), a.cfg.Clock().Add(retryAfter))
}
