package projections

import "github.com/ledgerfeed/ledgerfeed/domain"

// RulesVersion is the version of the rules by which this program makes rows:
// the fold of the domain and the form of the answers. Raise it with every
// change that lets the same log give other rows; a rebuild then brings
// existing workspaces over, and status tells which of them still wait for it.
const RulesVersion = 1

// Rules are how entries become rows.
type Rules struct {
	Version int

	// Apply folds the next entry of a workspace into its rows. It must change
	// rows only by what the state and the entry hold.
	Apply func(*domain.State, *domain.Entry)
}

// LiveRules are the rules of this program.
func LiveRules() Rules {
	return Rules{Version: RulesVersion, Apply: (*domain.State).Apply}
}

// orLive returns the rules, or the program's own where none are given.
func (r Rules) orLive() Rules {
	if r.Apply == nil {
		return LiveRules()
	}
	return r
}
