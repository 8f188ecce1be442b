package web

import (
	"testing"
	"time"
)

func TestReadingsOfOne(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	series := []Series{{Name: "Client errors", One: "client error", Look: Dots}, {Name: "Refused", Look: Stripes}}
	c := New("id", "Requests", "requests", []Bar{{At: at, Counts: []int64{1, 1}}, {At: at.Add(time.Hour), Counts: []int64{2, 0}}}, series)
	if want := "Requests: 3 client errors, 1 refused."; c.Summary != want {
		t.Errorf("%q, want %q", c.Summary, want)
	}
	for i, want := range []string{"27 Nov, 00:00 UTC: 1 client error, 1 refused", "27 Nov, 01:00 UTC: 2 client errors"} {
		if c.Bars[i].Reading != want {
			t.Errorf("%q, want %q", c.Bars[i].Reading, want)
		}
	}
}
