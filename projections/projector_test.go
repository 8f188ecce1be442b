package projections_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
)

// However the log is cut into segments, the read tables equal a fold of it.
func TestProjectsInSegmentsOfEverySize(t *testing.T) {
	t.Parallel()
	drafts := readDrafts(t, "../domain/testdata/agency.ndjson")
	for _, entries := range []int{1, 2, 3, 7, 50, 1000} {
		t.Run(fmt.Sprintf("%d entries", entries), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.append(drafts)
			b.project(entries)
			b.equalsFold()
		})
	}
}

// The same while entries are still being appended.
func TestProjectsWhileAppending(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var streams [][]domain.Draft
	for i := range 5 {
		streams = append(streams, generate(t, fmt.Sprintf("ws-%d", i), uint64(i), 600))
	}
	for round := range 6 {
		for _, s := range streams {
			b.append(s[round*100 : (round+1)*100])
		}
		b.project(64)
		b.equalsFold()
	}
}

// generate makes the first n entries of a scenario.
func generate(t *testing.T, workspaceID string, seed uint64, n int) []domain.Draft {
	t.Helper()
	end := time.Now().UTC().Truncate(24 * time.Hour)
	g, err := scenario.New(scenario.Config{WorkspaceID: workspaceID, Seed: seed, Start: end.AddDate(-1, 0, 0), End: end})
	if err != nil {
		t.Fatal(err)
	}
	var drafts []domain.Draft
	for len(drafts) < n {
		line, ok := g.Next()
		if !ok {
			t.Fatalf("the scenario ended after %d entries", len(drafts))
		}
		d, err := domain.DecodeDraft(line.AppendNDJSON(nil))
		if err != nil {
			t.Fatal(err)
		}
		drafts = append(drafts, d)
	}
	return drafts
}
