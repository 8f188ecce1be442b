package pg

import "sync"

// NamedWorkspaces are the workspaces whose statements name them in the text, in place of an
// argument. A Citus cluster plans a prepared statement that names its workspace once, and one with
// the workspace as an argument each time, which takes longer than to run it. Each such text is one
// more that connections keep prepared, so it is for the first workspaces that ask, until many
// others have. It is safe for concurrent use.
type NamedWorkspaces struct {
	most int

	mu     sync.Mutex
	named  map[string]struct{}
	others int // how often a workspace was asked for that is not in the full set
}

// othersOfEach is after how many questions for others, for each that is named, a set begins again.
const othersOfEach = 50

// NewNamedWorkspaces names so many workspaces at most. With all their statements they must be
// fewer than the statements that a connection keeps prepared, which are 512.
func NewNamedWorkspaces(most int) *NamedWorkspaces {
	return &NamedWorkspaces{most: most, named: map[string]struct{}{}}
}

// Has reports whether statements name a workspace.
func (s *NamedWorkspaces) Has(workspaceID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.named[workspaceID]; found {
		return true
	}
	if len(s.named) == s.most {
		if s.others++; s.others < othersOfEach*s.most {
			return false
		}
		clear(s.named)
		s.others = 0
	}
	s.named[workspaceID] = struct{}{}
	return true
}
