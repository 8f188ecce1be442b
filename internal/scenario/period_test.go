package scenario

import (
	"fmt"
	"testing"
	"time"
)

// on is a day by its date.
func on(year int, month time.Month, dayOfMonth int) day {
	return dayOf(time.Date(year, month, dayOfMonth, 0, 0, 0, 0, time.UTC).UnixMilli())
}

func TestDays(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		day     day
		text    string
		weekday int
	}{
		{-1, "1969-12-31", 2},
		{0, "1970-01-01", 3},
		{on(2024, 2, 29), "2024-02-29", 3},
		{on(2026, 10, 18), "2026-10-18", 6},
		{on(2026, 10, 19), "2026-10-19", 0},
	} {
		if got := string(tc.day.append(nil)); got != tc.text || tc.day.weekday() != tc.weekday {
			t.Errorf("day %d is %s, weekday %d, want %s and %d", tc.day, got, tc.day.weekday(), tc.text, tc.weekday)
		}
		if last := tc.day.start() + fullDay - 1; dayOf(last) != tc.day {
			t.Errorf("the last moment of %s is in day %d", tc.text, dayOf(last))
		}
	}
}

func TestPeriodsTileTheCalendar(t *testing.T) {
	t.Parallel()
	for c := monthly; c < cycles; c++ {
		d := on(2000, 1, 1)
		p := c.period(d)
		seen := map[string]bool{}
		for ; d < on(2060, 1, 1); d++ {
			got := c.period(d)
			if d > p.end {
				if got.start != p.end+1 {
					t.Fatalf("after %s comes %s, which begins on %s", p.key, got.key, got.start.append(nil))
				}
				if seen[got.key] {
					t.Fatalf("%s twice", got.key)
				}
				seen[got.key] = true
				p = got
			}
			if got != p {
				t.Fatalf("%s: %v, want %v", d.append(nil), got, p)
			}
		}
	}
}

func TestPeriodKeys(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		cycle            cycle
		date             string
		key, first, last string
	}{
		{monthly, "2026-10-15", "2026-10", "2026-10-01", "2026-10-31"},
		{monthly, "2024-02-29", "2024-02", "2024-02-01", "2024-02-29"},
		{monthly, "2025-12-31", "2025-12", "2025-12-01", "2025-12-31"},
		{weekly, "2026-10-14", "2026-W42", "2026-10-12", "2026-10-18"},
		{weekly, "2024-12-30", "2025-W01", "2024-12-30", "2025-01-05"},
		{weekly, "2027-01-03", "2026-W53", "2026-12-28", "2027-01-03"},
		{fortnightly, "2026-10-05", "2026-BW21", "2026-10-05", "2026-10-18"},
		{fortnightly, "2026-10-18", "2026-BW21", "2026-10-05", "2026-10-18"},
		{fortnightly, "2026-12-27", "2026-BW26", "2026-12-14", "2026-12-27"},
		{fortnightly, "2027-01-01", "2026-BW27", "2026-12-28", "2027-01-03"},
		{fortnightly, "2027-01-04", "2027-BW01", "2027-01-04", "2027-01-17"},
		{fortnightly, "2025-12-29", "2026-BW01", "2025-12-29", "2026-01-11"},
	} {
		at, err := time.Parse(time.DateOnly, tc.date)
		if err != nil {
			t.Fatal(err)
		}
		p := tc.cycle.period(dayOf(at.UnixMilli()))
		got := fmt.Sprintf("%s %s %s", p.key, p.start.append(nil), p.end.append(nil))
		if want := tc.key + " " + tc.first + " " + tc.last; got != want {
			t.Errorf("%s: %s, want %s", tc.date, got, want)
		}
	}
}

func TestInstants(t *testing.T) {
	t.Parallel()
	for _, ms := range []int64{-1, 0, 1, 999, 86_399_999, 86_400_000, 1_790_932_500_120, 4_102_444_799_999} {
		want := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
		if got := string(appendInstant(nil, ms)); got != want {
			t.Errorf("%d: %s, want %s", ms, got, want)
		}
	}
}
