package projections

import "sync/atomic"

// Meter counts what a Replay has to do and has done. Others may read it at
// any time.
type Meter struct {
	Workspaces, WorkspacesDone atomic.Int64
	Entries, EntriesDone       atomic.Int64 // of the log; more may come while it works
	RowsCompared               atomic.Int64
	RowsWritten                atomic.Int64 // and deleted
	Differences                atomic.Int64
	LargestRows                atomic.Int64 // rows of the largest workspace so far
	OverMemory                 atomic.Int64 // workspaces larger than ReplayConfig.Memory by estimate, which are folded into fresh tables
}

func raise(to *atomic.Int64, v int64) {
	for {
		old := to.Load()
		if v <= old || to.CompareAndSwap(old, v) {
			return
		}
	}
}
