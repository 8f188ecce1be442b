package anomalies

import (
	"context"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
)

const (
	// waitingFor is how long it is remembered whether anomalies wait: every page shows
	// it, and where all of very many were acknowledged, looking takes long.
	waitingFor = 15 * time.Second
	// maxWaiting bounds what is remembered.
	maxWaiting = 1000
)

// waiting tells whether anomalies of a workspace wait to be looked at. It is safe for
// concurrent use.
type waiting struct {
	store *anomaly.Store

	mu    sync.Mutex
	known map[waitingKey]waitingSince // guarded by mu
}

type waitingKey struct {
	workspaceID string
	admin       bool // who sees those that are about pay
}

type waitingSince struct {
	there bool
	at    time.Time
}

// Wait tells whether anomalies that a session may see wait to be looked at.
func (p *Pages) Wait(ctx context.Context, s *session.Session, now time.Time) (bool, error) {
	w := &p.waiting
	key := waitingKey{s.WorkspaceID, s.MayChange()}
	w.mu.Lock()
	found, ok := w.known[key]
	w.mu.Unlock()
	if ok && now.Sub(found.at) < waitingFor {
		return found.there, nil
	}
	there, err := w.store.Any(ctx, seenBy(s))
	if err != nil {
		return false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.known) >= maxWaiting {
		clear(w.known)
	}
	w.known[key] = waitingSince{there, now}
	return there, nil
}

// forget makes the next page of a workspace look again.
func (w *waiting) forget(workspaceID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, waitingKey{workspaceID, true})
	delete(w.known, waitingKey{workspaceID, false})
}
