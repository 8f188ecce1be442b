package projections_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
)

// However the log is cut into segments, the read tables equal a fold of it.
func TestProjectsInSegmentsOfEverySize(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../domain/testdata/agency.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	var drafts []domain.Draft
	for line := range bytes.Lines(file) {
		drafts = append(drafts, projectionstest.Draft(t, line))
	}
	for _, entries := range []int{1, 2, 3, 7, 50, 1000} {
		t.Run(fmt.Sprintf("%d entries", entries), func(t *testing.T) {
			t.Parallel()
			b := projectionstest.New(t)
			b.Append(drafts)
			b.Project(entries)
			b.EqualsFold()
		})
	}
}

// The same while entries are still being appended.
func TestProjectsWhileAppending(t *testing.T) {
	t.Parallel()
	b := projectionstest.New(t)
	var streams [][]domain.Draft
	for i := range 5 {
		streams = append(streams, projectionstest.Generate(t, fmt.Sprintf("ws-%d", i), uint64(i), 600))
	}
	for round := range 6 {
		for _, s := range streams {
			b.Append(s[round*100 : (round+1)*100])
		}
		b.Project(64)
		b.EqualsFold()
	}
}
