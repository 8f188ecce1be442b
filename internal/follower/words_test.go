package follower

import (
	"strings"
	"testing"
)

func TestReportsOfOneEvent(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]Report{
		"0 events; nothing was proven": {}, "1 event; nothing was proven": {Events: 1}, "2 events; nothing was proven": {Events: 2},
		"Proven: event 0 is, byte for byte, in the tree o of size 1 ":                          {Origin: "o", Size: 1, Proven: &Range{0, 1}},
		"Proven: events 0 to 1 are, byte for byte and in this order, in the tree o of size 2 ": {Origin: "o", Size: 2, Proven: &Range{0, 2}},
	} {
		if got := r.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
