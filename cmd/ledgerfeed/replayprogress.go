package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// replayFlags are what verify and rebuild have in common.
type replayFlags struct {
	workspace string
	workers   int
	memoryMiB int64
	rate      int // entries and rows a second; 0: no limit, below: yieldingRate
}

// defaultMemoryMiB is well below what the process may take as a whole: the
// collector lets what a fold leaves behind lie for a while.
const defaultMemoryMiB = 256

// yieldingRate is the rate that gives way to a service at work.
const yieldingRate = -1

// replaying is a Replay at work.
type replaying struct {
	*projections.Replay
	bench *workbench
	meter *projections.Meter
	quiet func() // ends the display of how it goes on; call it before printing
}

// withReplay opens the database and works with a Replay, showing how it goes
// on.
func (p *program) withReplay(ctx context.Context, verb string, f replayFlags, work func(*replaying) error) error {
	if f.workers < 1 || f.workers > 64 {
		return usagef("--workers is %d: want 1 to 64", f.workers)
	}
	if f.memoryMiB < 1 {
		return usagef("--memory is %d: want MiB, 1 or more", f.memoryMiB)
	}
	if f.rate < yieldingRate {
		return usagef("--rate is %d: want entries and rows a second, or 0 for no limit", f.rate)
	}
	return p.withLog(ctx, func(w *workbench) error {
		pool, err := pg.Open(ctx, w.url, pg.Options{
			MaxConns: int32(2*f.workers + 1), ReadBuffer: 64 << 10, Settings: projections.ReplaySettings(),
		})
		if err != nil {
			return err
		}
		defer pool.Close()
		var pace func(context.Context, int) error
		switch {
		case f.rate == yieldingRate:
			pace = projections.NewYieldingPace(pool)
		case f.rate > 0:
			pace = projections.NewPace(f.rate)
		}
		var meter projections.Meter
		r, err := projections.NewReplay(projections.ReplayConfig{
			Pool: pool, Clock: p.clock, Rules: p.rules, Notify: w.notifier.Notify, Workers: f.workers, Memory: f.memoryMiB << 20, Meter: &meter, Pace: pace,
		})
		if err != nil {
			return err
		}
		quiet := sync.OnceFunc(watchReplay(p.errOut, verb, &meter))
		defer quiet()
		return work(&replaying{r, w, &meter, quiet})
	})
}

const (
	barEvery  = 250 * time.Millisecond
	lineEvery = 5 * time.Second
	barWidth  = 30
)

// watchReplay shows how a Replay goes on until stop is called: a bar on a
// terminal, and otherwise a line every few seconds.
func watchReplay(out io.Writer, verb string, m *projections.Meter) (stop func()) {
	began := time.Now()
	done := make(chan struct{})
	ended := make(chan struct{})
	finish := func() {
		close(done)
		<-ended
	}
	if hasColumns(out) {
		go func() {
			defer close(ended)
			showBar(out, verb, m, began, done)
		}()
		return finish
	}
	go func() {
		defer close(ended)
		tick := time.NewTicker(lineEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				fmt.Fprintf(out, "%s: %s\n", verb, replayLine(m, time.Since(began)))
			}
		}
	}()
	return finish
}

// hasColumns tells whether out is a terminal that a bar can be drawn on: one
// that does not say its size would show nothing.
func hasColumns(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || !cwriter.IsTerminal(int(file.Fd())) {
		return false
	}
	width, _, err := cwriter.GetSize(int(file.Fd()))
	return err == nil && width > 0
}

// showBar draws a bar, and below it the rate: in one line the two do not fit
// into 80 columns.
func showBar(out io.Writer, verb string, m *projections.Meter, began time.Time, done <-chan struct{}) {
	progress := mpb.New(mpb.WithOutput(out), mpb.WithAutoRefresh())
	bar := progress.New(0, mpb.BarStyle(),
		mpb.BarWidth(barWidth),
		mpb.PrependDecorators(decor.Name(verb+" ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + replayCount(m) })),
		mpb.BarExtender(mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
			_, err := fmt.Fprintf(w, "%.*s\n", max(0, s.AvailableWidth-1), replayPace(m, time.Since(began)))
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

// replayLine says how far, how fast, how long still, and with how much memory.
func replayLine(m *projections.Meter, took time.Duration) string {
	return replayCount(m) + ", " + replayPace(m, took)
}

func replayCount(m *projections.Meter) string {
	return fmt.Sprintf("%s of %s entries", thousands(m.EntriesDone.Load()), thousands(m.Entries.Load()))
}

func replayPace(m *projections.Meter, took time.Duration) string {
	total, done := m.Entries.Load(), m.EntriesDone.Load()
	rate := float64(done) / max(took.Seconds(), 0.001)
	left := "?"
	if done > 0 {
		left = (time.Duration(float64(max(0, total-done))/rate) * time.Second).String()
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	line := fmt.Sprintf("%s/s, %s left, %d of %d workspaces, %d MiB",
		thousands(int64(rate)), left, m.WorkspacesDone.Load(), m.Workspaces.Load(), memory.Sys>>20)
	if d := m.Differences.Load(); d > 0 {
		line += ", " + thousands(d) + " differences"
	}
	if n := m.RowsWritten.Load(); n > 0 {
		line += ", " + thousands(n) + " rows written"
	}
	return line
}

// replayed says what a Replay has cost, for the end of its report.
func replayed(m *projections.Meter) string {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	line := fmt.Sprintf("the largest workspace has %s rows; memory %d MiB", thousands(m.LargestRows.Load()), memory.Sys>>20)
	if n := m.OverMemory.Load(); n > 0 {
		line += fmt.Sprintf("; %s larger than --memory by estimate, folded into temporary tables", thousands(n))
	}
	return line
}

// thousands writes a count with its thousands apart.
func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
