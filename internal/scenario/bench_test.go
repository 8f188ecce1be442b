package scenario

import "testing"

// The time is for one line: benchmarks of the whole program get their input here.
func BenchmarkNext(b *testing.B) {
	for name, entries := range map[string]int{"agency": 10_000, "tiny": 10, "busy": 1_000_000} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			cfg := testConfig(0)
			cfg.Entries = entries
			left := b.N
			for left > 0 {
				cfg.Seed++
				g := New(cfg)
				for left > 0 {
					if _, ok := g.Next(); !ok {
						break
					}
					left--
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

func BenchmarkAppendNDJSON(b *testing.B) {
	cfg := testConfig(0)
	cfg.Entries = 1_000
	lines := all(b, cfg)
	var buf []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buf = lines[i%len(lines)].AppendNDJSON(buf[:0])
	}
}
