//go:build full

package sizebench

import (
	"context"
	"io"
	"math"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/internal/sizing"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// Tables that have less than a share of all are not looked at one by one. Each may have
// some pages, however few its rows are.
const (
	small = 0.02
	pages = 6 * 8192
)

// TestFiguresAreTrue: what ledgerfeed size reckons with is what the schema takes. When it
// fails because a migration changed that, ledgerfeed-bench size makes the figures of
// package sizing, and of docs/operations/sizing.md, again.
func TestFiguresAreTrue(t *testing.T) {
	t.Parallel()
	o := &measure.Options{ServerURL: testkit.NewDatabase(t), Progress: io.Discard, Report: measure.NewReport(io.Discard, false), Scale: 1}
	err := measure.InDatabase(t.Context(), o, func(ctx context.Context, db *measure.Database) error {
		d, err := fill(ctx, db, shape{workspaces: 4, each: 2_500, requests: 5_000})
		if err != nil {
			return err
		}
		check(t, d)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, d *disk) {
	t.Helper()
	if events := float64(d.events) / float64(d.entries); math.Abs(events-sizing.EventsPerEntry) > 0.05 {
		t.Errorf("%.2f events in an entry, want %g", events, sizing.EventsPerEntry)
	}
	all := map[sizing.Kind]float64{}
	for _, c := range sizing.Tables() {
		all[c.Per] += c.Heap + c.Indexes
	}
	var measured, known float64 // of the small ones
	for _, c := range d.tables() {
		heap, indexes := d.table(c.Name)
		n := float64(d.of(c.Per))
		t.Logf("%-24s %7.1f and %7.1f bytes/%s, known %7.1f and %7.1f", c.Name, float64(heap)/n, float64(indexes)/n, c.Per, c.Heap, c.Indexes)
		if c.Heap+c.Indexes < small*all[c.Per] {
			measured, known = measured+max(0, float64(heap+indexes)-pages)/n, known+c.Heap+c.Indexes
			continue
		}
		if got, want := float64(heap+indexes)/n, c.Heap+c.Indexes; math.Abs(got-want) > Tolerance*want {
			t.Errorf("%s takes %.0f bytes with its indexes for one %s, %.0f are known", c.Name, got, c.Per, want)
		}
	}
	if more := measured - known; more > small*all[sizing.Entry] {
		t.Errorf("the small tables take %.0f bytes an entry more than the %.0f known", more, known)
	}
}
