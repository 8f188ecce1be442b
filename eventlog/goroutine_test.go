package eventlog_test

import (
	"runtime"
	"strings"
)

// parkedInLane counts goroutines of this process that wait for their turn in
// a lane. Waiting leaves no other trace that a test could look at.
func parkedInLane() int {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	n := 0
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		header, frames, _ := strings.Cut(stack, "\n")
		if strings.Contains(header, "[select") && strings.HasPrefix(frames, "github.com/ledgerfeed/ledgerfeed/internal/batch.(*Coalescer[...]).Do(") {
			n++
		}
	}
	return n
}
