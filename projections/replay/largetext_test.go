package replay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// largeTexts appends entries of up to 64 KiB, and a client and a contractor with the
// longest names, which are in every row, the client's renamed at the end.
func (b *bench) largeTexts(rows int) {
	b.t.Helper()
	text := func(r string) string { return strings.Repeat(r, 4096) }
	named := func(name string) domain.Draft {
		return draft(b.t, fmt.Sprintf(`{"workspace_id":"large","type":"client.recorded","data":{"client_id":"c","name":%q,"plan_name":%q,"status":%q}}`, name, name, name))
	}
	drafts := []domain.Draft{
		named(text("😀")),
		draft(b.t, fmt.Sprintf(`{"workspace_id":"large","type":"contractor.recorded","data":{"contractor_id":"k","name":%q}}`, text("😁"))),
	}
	for i := range rows {
		drafts = append(drafts, draft(b.t, fmt.Sprintf(`{"workspace_id":"large","type":"time_entry.recorded","data":{"time_entry_id":"t%05d","work_date":"2026-10-01",
			"client_id":"c","contractor_id":"k","service":"Care","hours":1,"period":"2026-10","currency":"EUR"}}`, i)))
	}
	for i := range rows / 4 { // the same name again, in a large entry
		drafts = append(drafts, named(text("😀")), draft(b.t, fmt.Sprintf(`{"workspace_id":"large","type":"time_entry.approved","data":{"time_entry_id":"t%05d"}}`, i)))
	}
	b.Append(append(drafts, named(text("😂"))))
	b.Project(1000)
}

// The memory of a replay does not depend on how large entries and rows are, nor on
// how many of them an entry changes. This test is not parallel, because it measures
// the heap.
func TestLargeTextsTakeLittleMemory(t *testing.T) {
	const little = 40 << 20
	b := newBench(t)
	b.largeTexts(1200)
	b.EqualsFold()
	heap := &largestHeap{before: liveHeap()}
	rules := projections.LiveRules()
	live := rules.Apply
	rules.Apply = func(s *domain.State, e *domain.Entry) {
		if e.Type == "client.recorded" {
			if err := heap.measure(t.Context(), 0); err != nil {
				t.Error(err)
			}
		}
		live(s, e)
	}
	r := b.replayer(func(c *replay.Config) { c.Memory, c.Rules, c.Limit = 64<<20, rules, heap.measure })
	if lines, _ := b.verify(r, replay.VerifyRequest{}); len(lines) != 0 {
		t.Errorf("differences: %s", strings.Join(lines[:min(len(lines), 3)], "\n"))
	}
	b.damage(`UPDATE time_entry SET base = base || ' '`)
	if done := b.rebuild(r, replay.RebuildRequest{})["large"]; done.Written != 1200 {
		t.Errorf("rebuilt %+v", done)
	}
	b.EqualsFold()
	t.Logf("at most %d KiB live", heap.most>>10)
	if heap.most > little {
		t.Errorf("at most %d KiB live, want %d", heap.most>>10, little>>10)
	}
}
