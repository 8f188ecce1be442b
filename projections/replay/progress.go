package replay

import "sync/atomic"

// Progress counts what a Replayer has to do and has done. It may be read at any
// time while the Replayer works.
type Progress struct {
	Workspaces, WorkspacesDone atomic.Int64
	Entries, EntriesDone       atomic.Int64 // of the log; appends during the work may add more
	RowsCompared               atomic.Int64
	RowsWritten                atomic.Int64 // and deleted
	Differences                atomic.Int64
	LargestRows                atomic.Int64 // rows of the largest workspace so far
	OverMemory                 atomic.Int64 // workspaces that are larger than Config.Memory by estimate, or outgrew it, and are folded into shadow tables
}

// raise sets a maximum to v if v is larger.
func raise(to *atomic.Int64, v int64) {
	for {
		old := to.Load()
		if v <= old || to.CompareAndSwap(old, v) {
			return
		}
	}
}
