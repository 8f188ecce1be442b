package web

import (
	"testing"
	"time"
)

// TestWhen reads as people say it, and rounds down.
func TestWhen(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for ago, want := range map[time.Duration]string{
		0: "now", 59 * time.Second: "now", -4 * time.Second: "now", -5 * time.Second: "in 1 min", -90 * time.Second: "in 1 min",
		time.Minute: "1 min ago", time.Hour - 1: "59 min ago", time.Hour: "1 h ago", day - 1: "23 h ago", day: "1 day ago", 3*day - 1: "2 days ago",
		7*day - 1: "6 days ago", 7 * day: "21 Nov", 365 * day: "28 Nov 2025", -6*day - time.Hour: "in 6 days", -40 * day: "7 Jan 2027",
	} {
		if got := When(now, now.Add(-ago)); got != want {
			t.Errorf("%v ago is %q, want %q", ago, got, want)
		}
	}
}
