package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
)

// Replicas are servers that what an event is about may be read from; *replica.Set is one.
type Replicas interface {
	// Await returns when what was visible at a moment can be read from each that is read
	// from.
	Await(ctx context.Context, since time.Time) error

	// MaxLag is how long after the moment Await returns at most; 0: there are none.
	MaxLag() time.Duration
}

// sightings remembers when visible positions of workspaces were read. An event waits for
// replicas from that moment on, not from its attempt on: so one that is lost makes
// deliveries later, but no fewer, and those of a backlog do not wait at all.
type sightings struct {
	keep time.Duration // the moments of longer ago are all alike

	mu         sync.Mutex
	workspaces *simplelru.LRU[string, []sighting] // each in the order of positions
}

// sighting is that a visible position was read.
type sighting struct {
	visible   int64
	first, at time.Time // those that follow each other closely are one, of the last moment
}

const (
	// sightedWorkspaces bounds the workspaces; events of others wait from their attempt on.
	sightedWorkspaces = 16384
	// sightingsKept is about how many there are of a workspace at most.
	sightingsKept = 16
)

func newSightings(keep time.Duration) *sightings {
	workspaces, _ := simplelru.NewLRU[string, []sighting](sightedWorkspaces, nil) // fails only for sizes below 1
	return &sightings{keep: keep, workspaces: workspaces}
}

// notePolled notes what a poll has read until a moment.
func (s *sightings) notePolled(p *scheduler.Poll, results []scheduler.PollResult, at time.Time) {
	for i := range results {
		if results[i].Found {
			s.note(p.Requests[i].Key.WorkspaceID, results[i].Visible, at)
		}
	}
}

// note notes that a position was visible at a moment.
func (s *sightings) note(workspaceID string, visible int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, _ := s.workspaces.Get(workspaceID)
	switch last := len(list) - 1; {
	case last >= 0 && list[last].visible == visible:
		return
	case last >= 0 && list[last].visible > visible: // the log went back
		list = []sighting{{visible, at, at}}
	case last >= 0 && at.Sub(list[last].first) < s.keep/sightingsKept:
		list[last].visible, list[last].at = visible, at
	default:
		list = append(list, sighting{visible, at, at})
	}
	for len(list) > 1 && at.Sub(list[1].at) > s.keep {
		list = list[1:]
	}
	s.workspaces.Add(workspaceID, list)
}

// since is a moment at which a position was visible.
func (s *sightings) since(workspaceID string, position int64, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, _ := s.workspaces.Get(workspaceID)
	for i := range list {
		if list[i].visible >= position {
			return list[i].at
		}
	}
	return now
}
