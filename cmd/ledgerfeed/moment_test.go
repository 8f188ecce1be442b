package main

import (
	"testing"
	"time"
)

func TestParseMoment(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		text      string
		direction int
		want      time.Time
	}{
		{"2027-01-31T08:30:00Z", 1, time.Date(2027, 1, 31, 8, 30, 0, 0, time.UTC)},
		{"2026-10-01", -1, time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)},
		{"48h", 1, now.Add(48 * time.Hour)},
		{"48h", -1, now.Add(-48 * time.Hour)},
		{"90d", 1, now.AddDate(0, 0, 90)},
		{"7d", -1, now.AddDate(0, 0, -7)},
	} {
		if at, ok := parseMoment(c.text, now, c.direction); !ok || !at.Equal(c.want) {
			t.Errorf("%s, direction %d: %s, %t; want %s", c.text, c.direction, at, ok, c.want)
		}
	}
	for _, text := range []string{"", "yesterday", "-5h", "0d", "2026-13-01", "d"} {
		if at, ok := parseMoment(text, now, 1); ok {
			t.Errorf("%q was accepted as %s", text, at)
		}
	}
}
