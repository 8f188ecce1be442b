package projections

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// memoryRows are foldedRows in memory.
type memoryRows struct {
	apply     apply
	sheets    []*sheet
	state     *domain.State
	anomalies []domain.Anomaly
	settled   bool
	touched   map[*sheet]map[key]struct{} // by the fold since it settled
	doubts    map[*sheet]map[key]struct{}
}

func newMemoryRows(sheets []*sheet, do apply) *memoryRows {
	m := &memoryRows{apply: do, sheets: sheets, state: domain.NewState(), touched: map[*sheet]map[key]struct{}{}, doubts: map[*sheet]map[key]struct{}{}}
	for _, s := range sheets {
		m.touched[s], m.doubts[s] = map[key]struct{}{}, map[key]struct{}{}
	}
	return m
}

func (m *memoryRows) fold(_ context.Context, entries []domain.Entry) error {
	for i := range entries {
		m.apply(m.state, &entries[i])
	}
	if m.settled { // before, every row is news and nobody asks; to tell would cost a fifth of the time
		for _, s := range m.sheets {
			s.changed(m.state, func(k key) { m.touched[s][k] = struct{}{} })
		}
		m.reset()
	}
	return nil
}

func (m *memoryRows) settle() {
	m.settled = true
	m.reset()
}

// reset forgets which rows are news; the anomalies are kept.
func (m *memoryRows) reset() {
	m.anomalies = append(m.anomalies, m.state.Anomalies...)
	m.state.Reset()
}

func (m *memoryRows) list(s *sheet) lister {
	var made []key // those that come while they are listed are touched
	s.each(m, func(k key) { made = append(made, k) })
	slices.SortFunc(made, compareKeys)
	return func(_ context.Context, after key, through *key, each func([]key) error) error {
		within := func(k key) bool {
			return compareKeys(k, after) > 0 && (through == nil || compareKeys(k, *through) <= 0)
		}
		from, met := slices.BinarySearchFunc(made, after, compareKeys)
		if met {
			from++
		}
		to := from
		for to < len(made) && within(made[to]) {
			to++
		}
		keys := slices.Clone(made[from:to])
		for k := range m.touched[s] {
			if within(k) {
				keys = append(keys, k)
			}
		}
		if len(keys) > to-from {
			slices.SortFunc(keys, compareKeys)
			keys = slices.Compact(keys)
		}
		return inPages(keys, each)
	}
}

func inPages(keys []key, each func([]key) error) error {
	for page := range slices.Chunk(keys, rowPage) {
		if err := each(page); err != nil {
			return err
		}
	}
	return nil
}

func (m *memoryRows) images(_ context.Context, s *sheet, keys []key, visit func(i int, image []string) error) error {
	buffer := make([]string, len(s.columns))
	for i, k := range keys {
		image := buffer
		if !s.image(m, k, image) {
			image = nil
		}
		if err := visit(i, image); err != nil {
			return err
		}
	}
	return nil
}

func (m *memoryRows) doubt(_ context.Context, s *sheet, k key) error {
	m.doubts[s][k] = struct{}{}
	return nil
}

func (m *memoryRows) doubted(_ context.Context, s *sheet, each func([]key) error) error {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(m.doubts[s])), maps.Keys(m.touched[s]))
	slices.SortFunc(keys, compareKeys)
	return inPages(slices.Compact(keys), each)
}

func (m *memoryRows) count(context.Context) (n int64, err error) {
	for _, s := range m.sheets {
		s.each(m, func(key) { n++ })
	}
	return n, nil
}

func (m *memoryRows) newest(context.Context) (position int64, err error) {
	for _, s := range m.sheets {
		if s.columns[0].name != "position" {
			continue
		}
		image := make([]string, len(s.columns))
		s.each(m, func(k key) {
			if s.image(m, k, image) {
				if p, err := strconv.ParseInt(image[0], 10, 64); err == nil {
					position = max(position, p)
				}
			}
		})
	}
	if n := len(m.anomalies); n > 0 {
		position = max(position, m.anomalies[n-1].Position)
	}
	return position, nil
}

func (m *memoryRows) close(context.Context) {}

// anomaliesAt returns the anomalies of one entry. They are kept in the order of
// the log.
func (m *memoryRows) anomaliesAt(position string) []domain.Anomaly {
	byPosition := func(a domain.Anomaly, p string) int { return strings.Compare(padded(a.Position), p) }
	i, found := slices.BinarySearchFunc(m.anomalies, position, byPosition)
	if !found {
		return nil
	}
	end := i
	for end < len(m.anomalies) && m.anomalies[end].Position == m.anomalies[i].Position {
		end++
	}
	return m.anomalies[i:end]
}
