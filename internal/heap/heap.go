// Package heap says how much garbage a process that serves may gather.
package heap

import (
	"os"
	"runtime/debug"
)

// percent is how much the heap may grow between two collections, of what is in
// use. By Go's own measure, 100, it is collected whenever it has doubled: with a
// thousand messages under way to receivers that hang, that was a collection of
// 50 ms every 2.5 s, which the messages to all others felt.
const percent = 400

// LetGrow has the heap collected less often, at up to five times what is in use,
// until restore is called. It does nothing where GOGC or GOMEMLIMIT is set: whoever
// runs the program knows better what memory there is.
func LetGrow() (restore func()) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return func() {}
		}
	}
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}
