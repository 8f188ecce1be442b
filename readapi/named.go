package readapi

import "sync"

// namedSet are the workspaces whose statements name them in the text, in place of an argument.
// A Citus cluster plans a prepared statement without arguments once, and one with arguments
// each time, which takes longer than to run it. Each such text is one more that connections
// keep prepared, so it is for the first workspaces that ask, until many others have.
// It is safe for concurrent use.
type namedSet struct {
	mu     sync.Mutex
	named  map[string]struct{}
	others int // how often a workspace was asked for that is not in the full set
}

const (
	// mostNamed is how many workspaces there are in a namedSet: fewer than the statements that
	// a connection keeps prepared, which are 512.
	mostNamed = 256
	// mostOthers is after how many questions for others a set begins again.
	mostOthers = 50 * mostNamed
)

func newNamedSet() *namedSet { return &namedSet{named: map[string]struct{}{}} }

// has reports whether statements name a workspace.
func (s *namedSet) has(workspaceID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.named[workspaceID]; found {
		return true
	}
	if len(s.named) == mostNamed {
		if s.others++; s.others < mostOthers {
			return false
		}
		clear(s.named)
		s.others = 0
	}
	s.named[workspaceID] = struct{}{}
	return true
}
