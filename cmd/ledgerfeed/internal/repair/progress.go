package repair

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

const (
	barEvery = 250 * time.Millisecond
	barWidth = 30
)

// showProgress shows the progress of a Replay until stop is called: as a bar on
// a terminal, and otherwise as a line every few seconds.
func showProgress(out io.Writer, verb string, m *replay.Progress) (stop func()) {
	if !isTerminal(out) {
		return cli.ShowProgress(out, verb, cli.ProgressEvery, func(took time.Duration) string { return progressLine(m, took) })
	}
	began := time.Now()
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		showBar(out, verb, m, began, done)
	}()
	return func() {
		close(done)
		<-ended
	}
}

// isTerminal tells whether out is a terminal that a bar can be drawn on. One that
// does not report its size is not: the bar would be empty.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || !cwriter.IsTerminal(int(file.Fd())) {
		return false
	}
	width, _, err := cwriter.GetSize(int(file.Fd()))
	return err == nil && width > 0
}

// showBar draws a bar with the rate below it, because one line with both is
// wider than 80 columns.
func showBar(out io.Writer, verb string, m *replay.Progress, began time.Time, done <-chan struct{}) {
	progress := mpb.New(mpb.WithOutput(out), mpb.WithAutoRefresh())
	bar := progress.New(0, mpb.BarStyle(),
		mpb.BarWidth(barWidth),
		mpb.PrependDecorators(decor.Name(verb+" ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + entryCount(m) })),
		mpb.BarExtender(mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
			_, err := fmt.Fprintf(w, "%.*s\n", max(0, s.AvailableWidth-1), rateLine(m, time.Since(began)))
			return err
		}), false),
		mpb.BarRemoveOnComplete())
	tick := time.NewTicker(barEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			bar.Abort(true)
			progress.Wait()
			return
		case <-tick.C:
			bar.SetTotal(max(1, m.Entries.Load()), false)
			bar.SetCurrent(min(m.EntriesDone.Load(), m.Entries.Load()))
		}
	}
}

// progressLine tells the entries done, the rate, the time left and the memory.
func progressLine(m *replay.Progress, took time.Duration) string {
	return entryCount(m) + ", " + rateLine(m, took)
}

func entryCount(m *replay.Progress) string {
	return fmt.Sprintf("%s of %s", thousands(m.EntriesDone.Load()), counted(m.Entries.Load(), "entry", "entries"))
}

func rateLine(m *replay.Progress, took time.Duration) string {
	total, done := m.Entries.Load(), m.EntriesDone.Load()
	rate, left := cli.Rate(done, total, took)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	line := fmt.Sprintf("%s/s, %s left, %d of %s, %d MiB",
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
