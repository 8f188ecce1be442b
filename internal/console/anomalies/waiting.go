package anomalies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

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
	store   *anomaly.Store
	timeout time.Duration      // of one look
	looks   singleflight.Group // by key: the pages of a moment share one

	mu    sync.Mutex
	known map[waitingKey]waitingSince // guarded by mu
}

type waitingKey struct {
	workspaceID string
	pay         bool // with those that are about pay
}

type waitingSince struct {
	there bool
	at    time.Time
}

// Wait tells whether anomalies that a session may see wait to be looked at.
func (p *Pages) Wait(ctx context.Context, s *session.Session, now time.Time) (bool, error) {
	w := &p.waiting
	key := waitingKey{s.WorkspaceID, s.MaySeePay()}
	w.mu.Lock()
	found, ok := w.known[key]
	w.mu.Unlock()
	if ok && now.Sub(found.at) < waitingFor {
		return found.there, nil
	}
	result, err, _ := w.looks.Do(fmt.Sprint(key), func() (any, error) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.timeout)
		defer cancel()
		there, err := w.store.Any(limited, seenBy(s))
		if errors.Is(limited.Err(), context.DeadlineExceeded) {
			return false, nil // the mark is not worth more time
		}
		return there, err
	})
	if err != nil {
		return false, fmt.Errorf("look for anomalies that wait: %w", err)
	}
	there, _ := result.(bool)
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
