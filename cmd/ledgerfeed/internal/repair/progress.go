package repair

import (
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// progressLine tells the entries done, the rate, the time left and the memory.
func progressLine(m *replay.Progress, took time.Duration) string {
	total, done := m.Entries.Load(), m.EntriesDone.Load()
	rate, left := cli.Rate(done, total, took)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	line := fmt.Sprintf("%s of %s, %s/s, %s left, %d of %s, %d MiB", thousands(done), counted(total, "entry", "entries"),
		thousands(int64(rate)), left, m.WorkspacesDone.Load(), counted(m.Workspaces.Load(), "workspace", "workspaces"), memory.Sys>>20)
	if d := m.Differences.Load(); d > 0 {
		line += ", " + counted(d, "difference", "differences")
	}
	if n := m.RowsWritten.Load(); n > 0 {
		line += ", " + counted(n, "row", "rows") + " written"
	}
	return line
}

// costLine tells the size of the largest workspace and the memory used, for the
// end of a report.
func costLine(m *replay.Progress) string {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	line := fmt.Sprintf("the largest workspace has %s; memory %d MiB", counted(m.LargestRows.Load(), "row", "rows"), memory.Sys>>20)
	if n := m.OverMemory.Load(); n > 0 {
		line += fmt.Sprintf("; %s larger than --memory by estimate, folded into temporary tables", counted(n, "is", "are"))
	}
	return line
}

// counted is a count with what follows it.
func counted(n int64, one, many string) string {
	return thousands(n) + " " + texts.Plural(n, one, many)
}

// thousands writes a count with commas between thousands.
func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
