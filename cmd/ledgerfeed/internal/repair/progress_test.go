package repair

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

func TestReplayProgress(t *testing.T) {
	t.Parallel()
	var progress replay.Progress
	if line := progressLine(&progress, 0); !strings.Contains(line, ", ? left, ") {
		t.Errorf("before anything is done: %s", line)
	}
	progress.Entries.Store(1_000_000)
	progress.EntriesDone.Store(250_000)
	progress.Workspaces.Store(4)
	progress.WorkspacesDone.Store(1)
	want := "250,000 of 1,000,000 entries, 50,000/s, 15s left, 1 of 4 workspaces, "
	if line := progressLine(&progress, 5*time.Second); !strings.HasPrefix(line, want) || !strings.HasSuffix(line, " MiB") {
		t.Errorf("the line is %q, want %q and the memory", line, want)
	}
	progress.Differences.Store(1234)
	progress.RowsWritten.Store(56)
	if line := progressLine(&progress, time.Second); !strings.HasSuffix(line, ", 1,234 differences, 56 rows written") {
		t.Errorf("with differences: %s", line)
	}
	progress.LargestRows.Store(1_000_000)
	if line := costLine(&progress); !strings.HasPrefix(line, "the largest workspace has 1,000,000 rows; memory ") || !strings.HasSuffix(line, " MiB") {
		t.Errorf("at the end: %s", line)
	}
	progress.OverMemory.Store(2)
	if line := costLine(&progress); !strings.HasSuffix(line, " MiB; 2 are larger than --memory by estimate, folded into temporary tables") {
		t.Errorf("at the end, with large workspaces: %s", line)
	}
}
