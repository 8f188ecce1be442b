package heap_test

import (
	"runtime/debug"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/heap"
)

// gogc is the setting in force.
func gogc() int {
	now := debug.SetGCPercent(100)
	debug.SetGCPercent(now)
	return now
}

//nolint:paralleltest // the setting is the process's
func TestLetGrow(t *testing.T) {
	for _, test := range []struct {
		name, variable, value string
		want                  int
	}{
		{"nothing is set", "", "", 400},
		{"GOGC is", "GOGC", "50", 100}, // read by the runtime at the start, which was before
		{"GOMEMLIMIT is", "GOMEMLIMIT", "1GiB", 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			if test.variable != "" {
				t.Setenv(test.variable, test.value)
			}
			defer debug.SetGCPercent(debug.SetGCPercent(100))
			restore := heap.LetGrow()
			if got := gogc(); got != test.want {
				t.Errorf("the heap grows by %d %%, want %d", got, test.want)
			}
			restore()
			if got := gogc(); got != 100 {
				t.Errorf("afterwards it grows by %d %%, want 100", got)
			}
		})
	}
}
