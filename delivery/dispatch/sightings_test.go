//go:build full

package dispatch

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestSightings: a position is never said to have been visible before it was, nor so much
// later that what was read longer ago still waits; and little is kept.
func TestSightings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const keep = 1600 * time.Millisecond
		s := newSightings(keep)
		now, visible := time.Now(), int64(0)
		first := map[int64]time.Time{} // when a position was first read, since the log went back
		for range rapid.IntRange(1, 200).Draw(t, "polls") {
			now = now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "ms")) * time.Millisecond)
			step := int64(rapid.IntRange(0, 3).Draw(t, "step"))
			if rapid.IntRange(0, 40).Draw(t, "back") == 0 && visible > 0 {
				visible, step = visible/2, 0
				for p := range first {
					if p > visible {
						delete(first, p)
					}
				}
			}
			for range step {
				visible++
				first[visible] = now
			}
			s.note("acme", visible, now)
			for p, at := range first {
				got := s.since("acme", p, now)
				if got.Before(at) {
					t.Fatalf("position %d was visible at %v, not at %v", p, at, got)
				}
			}
			list, _ := s.workspaces.Get("acme")
			if len(list) > sightingsKept+4 {
				t.Fatalf("%d sightings are kept", len(list))
			}
		}
		s.note("acme", visible+1, now.Add(3*keep))
		s.note("acme", visible+2, now.Add(5*keep))
		if visible > 0 && now.Add(5*keep).Sub(s.since("acme", visible, now.Add(5*keep))) < keep {
			t.Fatal("what was visible long ago still waits")
		}
	})
	if now := time.Now(); !newSightings(time.Second).since("acme", 1, now).Equal(now) {
		t.Error("an unknown workspace")
	}
}
