package readapi

import (
	"fmt"
	"sync"
)

// WorkspaceCursorKey derives from Config.CursorKey the key under which the cursors of one
// workspace are sealed. A database to which the workspace moves gets this key, so that
// cursors go on there, and learns nothing with which those of other workspaces could be
// made (docs/operations/moving.md).
func WorkspaceCursorKey(key []byte, workspaceID string) []byte {
	return deriveKey(key, "cursors of "+workspaceID)
}

// newWorkspaceSealer makes the sealer of a workspace's key, which has 32 bytes.
func newWorkspaceSealer(key []byte) *cursorSealer {
	s, err := newCursorSealer(key)
	if err != nil {
		panic(fmt.Sprintf("a derived key of 32 bytes is none: %v", err))
	}
	return s
}

// maxWorkspaceSealers is how many sealers are kept, about 1 KiB each.
const maxWorkspaceSealers = 10_000

// workspaceSealers keeps the sealers of workspaces that are asked for, because preparing one
// costs as much as sealing ten cursors. Its methods may be called by any number of goroutines.
type workspaceSealers struct {
	key []byte

	mu sync.RWMutex
	by map[string]*cursorSealer
}

func newWorkspaceSealers(key []byte) *workspaceSealers {
	return &workspaceSealers{key: key, by: map[string]*cursorSealer{}}
}

// of returns the sealer of a workspace.
func (w *workspaceSealers) of(workspaceID string) *cursorSealer {
	w.mu.RLock()
	s := w.by[workspaceID]
	w.mu.RUnlock()
	if s != nil {
		return s
	}
	s = newWorkspaceSealer(WorkspaceCursorKey(w.key, workspaceID))
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.by) >= maxWorkspaceSealers {
		clear(w.by) // those in use are made again
	}
	w.by[workspaceID] = s
	return s
}
