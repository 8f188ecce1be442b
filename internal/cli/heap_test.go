package cli

import (
	"errors"
	"math"
	"runtime/debug"
	"testing"
)

// gogc is the setting in force.
func gogc() int {
	now := debug.SetGCPercent(100)
	debug.SetGCPercent(now)
	return now
}

//nolint:paralleltest // the settings are the process's
func TestLetHeapGrow(t *testing.T) {
	const none = math.MaxInt64
	for _, test := range []struct {
		name, variable, value string
		available             uint64 // 0: the system does not tell
		percent               int
		limit                 int64
	}{
		{"nothing is set", "", "", 0, 400, none},
		{"a container", "", "", 1000 << 20, 400, 800 << 20},
		{"a container without a limit", "", "", math.MaxUint64, 400, none},
		// The variables are read by the runtime at the start, which was before.
		{"GOGC is set", "GOGC", "50", 0, 100, none},
		{"GOGC is set in a container", "GOGC", "50", 1000 << 20, 100, 800 << 20},
		{"GOMEMLIMIT is set in a container", "GOMEMLIMIT", "1GiB", 1000 << 20, 100, none},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			if test.variable != "" {
				t.Setenv(test.variable, test.value)
			}
			defer debug.SetGCPercent(debug.SetGCPercent(100))
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(none))
			restore := letHeapGrow(func() (uint64, error) {
				if test.available == 0 {
					return 0, errors.New("no control groups")
				}
				return test.available, nil
			})
			if got := gogc(); got != test.percent {
				t.Errorf("the heap grows by %d %%, want %d", got, test.percent)
			}
			if got := debug.SetMemoryLimit(-1); got != test.limit {
				t.Errorf("the limit is %d, want %d", got, test.limit)
			}
			restore()
			if got := gogc(); got != 100 {
				t.Errorf("afterwards it grows by %d %%, want 100", got)
			}
			if got := debug.SetMemoryLimit(-1); got != none {
				t.Errorf("afterwards the limit is %d, want none", got)
			}
		})
	}
}
