package repair

import (
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

func TestOneOfEach(t *testing.T) {
	t.Parallel()
	var m replay.Progress
	for _, n := range []interface{ Store(int64) }{&m.Entries, &m.EntriesDone, &m.RowsCompared, &m.RowsWritten, &m.Differences, &m.Workspaces, &m.LargestRows, &m.OverMemory} {
		n.Store(1)
	}
	text := func(write func(*strings.Builder) error) string {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for want, got := range map[string]string{
		"1 of 1 entry, ":                    progressLine(&m, 0),
		"0 of 1 workspace, ":                progressLine(&m, 0),
		", 1 difference, 1 row written":     progressLine(&m, 0),
		"the largest workspace has 1 row; ": costLine(&m),
		"; 1 is larger than --memory":       costLine(&m),
		"verified 1 workspace: 1 entry, 1 row, 1 difference\n": text(func(b *strings.Builder) error {
			return writeVerified(b, &verifyView{Workspaces: []replay.Verification{{}}}, &m)
		}),
		"rebuilt 1 workspace: 1 entry, 1 row compared, 1 written":               text(func(b *strings.Builder) error { return writeRebuilt(b, []replay.Rebuilt{{}}, &m) }),
		"of 1 row 1 written, 0 deleted;":                                        text(func(b *strings.Builder) error { return writeRebuilt(b, []replay.Rebuilt{{Rows: 1, Written: 1}}, &m) }),
		"1 tile or tree written, 0 deleted\nrebuilt the trees of 1 workspace\n": text(func(b *strings.Builder) error { return writeTrees(b, []replay.RebuiltTrees{{Written: 1}}) }),
		"is restored: 1 row written, 0 deleted":                                 text(func(b *strings.Builder) error { return writeRestored(b, &replay.Rebuilt{Written: 1}, 7) }),
		"1 entry is not handled, this one included.": text(func(b *strings.Builder) error {
			return writeQuarantine(b, "w", &quarantineShowView{quarantineView: &quarantineView{Behind: 1}})
		}),
		"position 7 failed 1 time, from ": text(func(b *strings.Builder) error {
			return writeQuarantine(b, "w", &quarantineShowView{History: []eventlog.Failure{{From: 7, Through: 7, Times: 1}}})
		}),
		"positions 7 to 8 failed 2 times, from ": text(func(b *strings.Builder) error {
			return writeQuarantine(b, "w", &quarantineShowView{History: []eventlog.Failure{{From: 7, Through: 8, Times: 2}}})
		}),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
