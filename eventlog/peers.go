package eventlog

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// All processes that project hear of an append at the same moment. Without an order among them
// the one that PostgreSQL notifies first, which is the one that has listened longest, gets most
// of the workspaces, and all others look for locks without result. So each workspace has a process
// that is preferred, by rendezvous hashing. That one claims at once, and the others yield to it
// for a moment. Nothing depends on it: two processes that do not know each other both claim, of
// which one gets the lock, and what a preferred process leaves undone the others claim a moment
// later.

const (
	// yieldTime is how long a process leaves a workspace to the one that is preferred: much
	// longer than that takes to claim it, and not much of the time in which a death is noticed.
	yieldTime = 100 * time.Millisecond
	// peerTime is how long a process that projects is known after it was heard of.
	peerTime = 10 * time.Second
)

// peers are the other processes that project. They are known by their notifications, such
// as those of what they have projected, so that it costs no statement. One that has projected nothing yet is not
// preferred by others; it prefers itself, and is known once it has been the first somewhere.
type peers struct {
	mu    sync.Mutex
	heard map[string]time.Time // by the id of the process; not of the injected clock, which does not pass by itself
}

func (p *peers) hear(process string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heard == nil {
		p.heard = map[string]time.Time{}
	}
	p.heard[process] = time.Now()
}

// living returns the processes that were heard of lately, and forgets the others.
func (p *peers) living() (processes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for process, at := range p.heard {
		if time.Since(at) > peerTime {
			delete(p.heard, process)
			continue
		}
		processes = append(processes, process)
	}
	return processes
}

// preferred parts workspaces into those for which this process is preferred to its peers, and
// those that it leaves to one of them.
func (n *Notifier) preferred(workspaceIDs []string) (mine, others []string) {
	living := n.peers.living()
	if len(living) == 0 {
		return workspaceIDs, nil
	}
	self, rivals := hashOf(n.self), make([]uint64, len(living))
	for i, process := range living {
		rivals[i] = hashOf(process)
	}
	for _, id := range workspaceIDs {
		workspace := hashOf(id)
		if first(workspace, self, rivals) {
			mine = append(mine, id)
		} else {
			others = append(others, id)
		}
	}
	return mine, others
}

// first reports whether a process has the highest weight for a workspace.
func first(workspace, self uint64, rivals []uint64) bool {
	own := weight(workspace, self)
	for _, r := range rivals {
		if weight(workspace, r) > own {
			return false
		}
	}
	return true
}

// weight mixes two hashes, in every process in the same way.
func weight(workspace, process uint64) uint64 {
	return rand.NewPCG(workspace, process).Uint64()
}

func hashOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}

// markYielding marks the workspaces for which this process is preferred now, and the others
// a moment later.
func (c *consumer) markYielding(ctx context.Context, workspaceIDs []string) {
	mine, others := c.preferred(workspaceIDs)
	c.dirty.mark(mine, shared)
	if len(others) == 0 {
		return
	}
	c.yielding.Go(func() {
		if flow.Pause(ctx, yieldTime) {
			c.dirty.mark(others, shared)
		}
	})
}

// preferred is the Notifier's; a consumer whose moves other processes are not notified of
// leaves nothing to them.
func (c *consumer) preferred(workspaceIDs []string) (mine, others []string) {
	if c.consumer != ReadModels {
		return workspaceIDs, nil
	}
	return c.cfg.Notifier.preferred(workspaceIDs)
}
