package scenario

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// all takes every line of a history.
func all(t testing.TB, cfg Config) []Line {
	t.Helper()
	lines, _ := history(t, cfg)
	return lines
}

// history takes every line, checks what holds for all lines, and returns how many
// are meant to be anomalies.
func history(t testing.TB, cfg Config) (lines []Line, anomalous int64) {
	t.Helper()
	g := New(cfg)
	last := cfg.Start
	for {
		l, ok := g.Next()
		if !ok {
			break
		}
		if l.CreatedAt.Before(last) || !l.CreatedAt.Before(cfg.End) {
			t.Fatalf("%s at %s is out of order or outside the span", l.ID, l.CreatedAt)
		}
		if l.CreatedAt.Location() != time.UTC || l.CreatedAt.Nanosecond()%1e6 != 0 || l.WorkspaceID != cfg.WorkspaceID {
			t.Fatalf("%s: created_at %s in %q", l.ID, l.CreatedAt, l.WorkspaceID)
		}
		last = l.CreatedAt
		lines = append(lines, l)
	}
	if _, ok := g.Next(); ok {
		t.Fatal("a line after the last")
	}
	return lines, g.anomalies.written
}

func stream(lines []Line) []byte {
	var b []byte
	for _, l := range lines {
		b = l.AppendNDJSON(b)
	}
	return b
}

func TestSameConfigSameBytes(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{0, 500, 30_000} {
		cfg := testConfig(7)
		cfg.Entries = entries
		first := stream(all(t, cfg))
		if !bytes.Equal(first, stream(all(t, cfg))) {
			t.Errorf("%d entries: two runs differ", entries)
		}
		cfg.Seed = 8
		if bytes.Equal(first, stream(all(t, cfg))) {
			t.Errorf("%d entries: two seeds do not differ", entries)
		}
	}
}

// The demo shows two years of an agency of the default size.
func TestTwoYears(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(seed)
			lines, anomalous := history(t, cfg)
			f := newFold(t)
			for _, l := range lines {
				f.line(l)
			}
			f.paidInFull()
			if f.anomalies != anomalous {
				t.Errorf("%d anomalies, but %d anomalous lines written", f.anomalies, anomalous)
			}
			for typ := range catalogue {
				if f.types[typ] == 0 {
					t.Errorf("no %s", typ)
				}
			}
			n := len(lines)
			if n < 8_000 || n > 16_000 {
				t.Errorf("%d lines", n)
			}
			if work := f.types["time_entry.recorded"] + f.types["time_entry.approved"]; work*2 < n {
				t.Errorf("%d of %d lines about time entries: they do not dominate", work, n)
			}
			if share := float64(f.anomalies) / float64(n); share < 0.001 || share > 0.01 {
				t.Errorf("%d anomalies in %d lines", f.anomalies, n)
			}
			if got := lines[n-1].CreatedAt; cfg.End.Sub(got) > 4*24*time.Hour {
				t.Errorf("the last line is of %s", got)
			}
		})
	}
}

func TestExactCounts(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for _, tc := range []struct {
		entries, clients, contractors int
		span                          time.Duration
		spread                        bool // more than the span gives by itself
	}{
		{1, 0, 0, 730 * day, false},
		{10, 0, 0, 730 * day, false},
		{10, 12, 8, 730 * day, false},
		{5_000, 0, 0, 730 * day, false},
		{14_000, 0, 0, 730 * day, false},
		{20_000, 0, 0, 730 * day, true},
		{200_000, 0, 0, 730 * day, true},
		{20_000, 1, 1, 730 * day, true},
		{20_000, 60, 3, 730 * day, true},
		{120_000, 3, 60, 730 * day, true},
		{10_000, 0, 0, 30 * day, true},
		{10_000, 0, 0, 36 * time.Hour, true},
		{1_000, 0, 0, time.Hour, true},
		{1_000, 0, 0, time.Millisecond, true},
		{10, 200, 100, time.Millisecond, false},
	} {
		t.Run(fmt.Sprintf("%d of %d and %d in %s", tc.entries, tc.clients, tc.contractors, tc.span), func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(11)
			cfg.Start = cfg.Start.Add(10 * time.Hour)
			cfg.End = cfg.Start.Add(tc.span)
			cfg.Entries, cfg.Clients, cfg.Contractors = tc.entries, tc.clients, tc.contractors
			lines := all(t, cfg)
			if len(lines) != tc.entries {
				t.Fatalf("%d lines", len(lines))
			}
			if !tc.spread || tc.span < 300*day {
				return
			}
			if left := cfg.End.Sub(lines[len(lines)-1].CreatedAt); left > tc.span/100 {
				t.Errorf("nothing in the last %s", left)
			}
			tenths := make([]int, 10)
			for _, l := range lines {
				tenths[int(10*l.CreatedAt.Sub(cfg.Start)/tc.span)]++
			}
			for _, n := range tenths {
				if n < tc.entries/25 || n > tc.entries/6 {
					t.Fatalf("spread over the tenths of the span: %d", tenths)
				}
			}
		})
	}
}

// Any span gives a sound history: also one that begins in a night of a weekend or on a
// leap day, or that lasts a few milliseconds.
func TestOddSpans(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		start time.Time
		span  time.Duration
	}{
		{time.Date(2024, 12, 28, 23, 59, 59, 999_999_999, time.UTC), 50 * 24 * time.Hour},
		{time.Date(2026, 12, 1, 15, 30, 0, 1, time.UTC), 90 * 24 * time.Hour},
		{time.Date(2020, 2, 29, 12, 0, 0, 0, time.FixedZone("", 9*3600)), 20 * 24 * time.Hour},
		{time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), 40 * 24 * time.Hour},
		{time.Date(2025, 6, 7, 10, 0, 0, 0, time.UTC), 3 * time.Hour},
		{time.Date(2025, 6, 7, 22, 0, 0, 0, time.UTC), 2 * time.Millisecond},
	} {
		for seed := range uint64(2) {
			for _, size := range [][2]int{{0, 0}, {1, 1}, {1, 9}, {30, 2}} {
				cfg := Config{WorkspaceID: "w", Seed: seed, Start: tc.start, End: tc.start.Add(tc.span)}
				cfg.Clients, cfg.Contractors = size[0], size[1]
				f := newFold(t)
				for _, l := range all(t, cfg) {
					f.line(l)
				}
			}
		}
	}
}

func TestLinesDoNotShareMemory(t *testing.T) {
	t.Parallel()
	cfg := testConfig(5)
	cfg.Entries = 3_000
	want := stream(all(t, cfg))
	g := New(cfg)
	var got []byte
	for l, ok := g.Next(); ok; l, ok = g.Next() {
		got = l.AppendNDJSON(got)
		for i := range l.Data {
			l.Data[i] = 'x'
		}
		_ = append(l.Data, "the caller's own"...)
	}
	if !bytes.Equal(got, want) {
		t.Error("what the caller does to Data shows in later lines")
	}
}
