package replay

import (
	"context"
	"maps"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

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
	if m.frozen { // before, every row has changed; to keep that would cost a fifth of the time
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
