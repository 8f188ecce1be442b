// Package heap lets a process that serves collect garbage less often.
package heap

import (
	"os"
	"runtime/debug"
)

// percent is how much the heap may grow between two collections, in percent of
// what is in use. With Go's default, 100, and a thousand webhook messages under way
// to receivers that hang, a collection took 50 ms every 2.5 s and delayed the
// messages to all other receivers.
const percent = 400

// LetGrow lets the heap grow to five times what is in use before it is collected,
// until restore is called. It does nothing if GOGC or GOMEMLIMIT is set: the
// operator knows better how much memory there is.
func LetGrow() (restore func()) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return func() {}
		}
	}
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}
