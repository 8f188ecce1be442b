// Package measure is what all benchmarks share: how they are run, the database
// they measure in, load at a bound or a rate, and the report of figures beside
// their limits.
package measure

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

// Benchmark measures one side of the program.
type Benchmark struct {
	Name  string
	Short string // what it measures, for the help
	Parts []Part

	// SetUp prepares what the parts share and calls work; nil: they share nothing.
	SetUp func(ctx context.Context, work func(context.Context) error) error
}

// Part is what can be measured without the rest.
type Part struct {
	Name    string
	Measure func(context.Context) error
	Long    bool // it takes much more than three minutes, and is measured only by its name
}

// PartNames returns the names of the parts.
func (b *Benchmark) PartNames() []string {
	names := make([]string, len(b.Parts))
	for i, p := range b.Parts {
		names[i] = p.Name
	}
	return names
}

// LongParts returns the names of the parts that are measured only by name.
func (b *Benchmark) LongParts() (names []string) {
	for _, p := range b.Parts {
		if p.Long {
			names = append(names, p.Name)
		}
	}
	return names
}

// Run measures the parts with some names; with none given, all but the long ones.
func (b *Benchmark) Run(ctx context.Context, only []string) error {
	work := func(ctx context.Context) error {
		for _, p := range b.Parts {
			if named := slices.Contains(only, p.Name); !named && (p.Long || len(only) > 0) {
				continue
			}
			if err := p.Measure(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if b.SetUp == nil {
		return work(ctx)
	}
	return b.SetUp(ctx, work)
}

// ServingHeap does work with the garbage collector set as in a serving process.
func ServingHeap(ctx context.Context, work func(context.Context) error) error {
	restore := cli.LetHeapGrow()
	defer restore()
	return work(ctx)
}

// Options of a run.
type Options struct {
	ServerURL string // a database of the server to measure on; benchmarks make their own beside it
	Report    *Report
	Progress  io.Writer // what is being done
	Scale     float64   // of the sizes that the targets are stated for; 1 is all of it

	databases int // that were made
}

// Size returns n scaled, and never less than least.
func (o *Options) Size(n, least int) int { return max(least, int(float64(n)*o.Scale)) }

// Duration returns d scaled, and never less than a second.
func (o *Options) Duration(d time.Duration) time.Duration {
	return max(time.Second, time.Duration(float64(d)*o.Scale))
}

// Say reports progress.
func (o *Options) Say(format string, args ...any) {
	fmt.Fprintf(o.Progress, format+"\n", args...)
}
