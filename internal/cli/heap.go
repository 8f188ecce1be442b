package cli

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// heapPercent is how much the heap may grow between two collections, in percent of what is in use. With
// Go's default, 100, and a thousand webhook messages in flight to receivers that hang, a collection
// took 50 ms every 2.5 s and delayed the messages to all other receivers.
const heapPercent = 400

// heapShare is the part of the control group's memory that Go may use. The rest is for what the runtime
// does not count, such as the binary and the kernel's buffers.
const heapShare = 0.8

// LetHeapGrow lets the heap grow to five times what is in use before it is collected, until restore is
// called. Near a share of the memory of the process's control group (a container), garbage is
// collected more often. GOGC and GOMEMLIMIT take precedence: the operator knows better how much
// memory there is.
func LetHeapGrow() (restore func()) { return letHeapGrow(memlimit.FromCgroup) }

func letHeapGrow(available func() (uint64, error)) (restore func()) {
	percentBefore, limitBefore := debug.SetGCPercent(-1), debug.SetMemoryLimit(-1)
	debug.SetGCPercent(percentBefore)
	if os.Getenv("GOMEMLIMIT") == "" {
		// An error means a system without control groups, where nothing limits the process.
		if bytes, err := available(); err == nil && bytes < math.MaxInt64 {
			debug.SetMemoryLimit(int64(heapShare * float64(bytes)))
		}
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(heapPercent)
		}
	}
	return func() {
		debug.SetGCPercent(percentBefore)
		debug.SetMemoryLimit(limitBefore)
	}
}
