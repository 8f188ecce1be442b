package readapi

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// told remembers, by workspace, the newest version that was answered with, so that the
// answers of one process do not go back in time when replicas take turns. Of workspaces
// that nothing was read of for long it forgets it: by then all replicas that are read
// from have replayed it.
type told struct {
	mu         sync.Mutex
	workspaces *simplelru.LRU[string, toldVersion]
}

type toldVersion struct {
	version  version
	replayed int64 // all replicas that are read from show what is visible up to here
}

// toldWorkspaces is how many are remembered.
const toldWorkspaces = 16384

func newTold() *told {
	workspaces, _ := simplelru.NewLRU[string, toldVersion](toldWorkspaces, nil) // fails only for sizes below 1
	return &told{workspaces: workspaces}
}

func (t *told) version(workspaceID string) version {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, _ := t.workspaces.Get(workspaceID)
	return known.version
}

// note notes an answer. What the primary shows counts, also if it is older: the log may
// have gone back to an older backup.
func (t *told) note(workspaceID string, v version, primary bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, _ := t.workspaces.Get(workspaceID)
	if primary && v.moved > 0 || known.version.olderThan(v) {
		if v.position < known.replayed {
			known.replayed = v.position
		}
		known.version = version{position: v.position, moved: v.moved}
		t.workspaces.Add(workspaceID, known)
	}
}

func (t *told) replayed(workspaceID string, position int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, _ := t.workspaces.Get(workspaceID)
	return position <= known.replayed
}

func (t *told) noteReplayed(workspaceID string, position int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, _ := t.workspaces.Get(workspaceID)
	known.replayed = max(known.replayed, position)
	t.workspaces.Add(workspaceID, known)
}
