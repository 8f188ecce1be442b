// Package sizebench measures what entries, deliveries and requests take: bytes on the
// disk and in the write-ahead log, memory, connections and processor time. The figures
// of package sizing are from here.
package sizebench

import (
	"context"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
)

// Tolerance is how far a measurement may be from the figures of package sizing, as a
// share of them, before these are to be made again.
const Tolerance = 0.25

// Benchmark is ledgerfeed-bench size.
func Benchmark(o *measure.Options) measure.Benchmark {
	part := func(name string, run func(context.Context, *measure.Options) error) measure.Part {
		return measure.Part{Name: name, Measure: func(ctx context.Context) error { return run(ctx, o) }}
	}
	return measure.Benchmark{
		Name: "size", Short: "Bytes on the disk and in the write-ahead log, memory, connections and processor time",
		Parts: []measure.Part{part("disk", benchDisk), part("wal", benchWAL), part("roles", benchRoles)},
	}
}
