package projections

import "github.com/ledgerfeed/ledgerfeed/domain"

// RulesVersion is the version of the rules by which this program makes rows:
// the fold of the domain and the form of the answers. Raise it with every
// change that makes other rows of the same log. A rebuild then converts existing
// workspaces, and status tells which of them are not converted yet.
const RulesVersion = 2

// Rules are how entries become rows.
type Rules struct {
	Version int

	// Apply folds the next entry of a workspace into its rows. The result must
	// depend on nothing but the state and the entry.
	Apply func(*domain.State, *domain.Entry)
}

// LiveRules are the rules of this program.
func LiveRules() Rules {
	return Rules{Version: RulesVersion, Apply: (*domain.State).Apply}
}

// OrLive returns the rules, or LiveRules when they are zero.
func (r Rules) OrLive() Rules {
	if r.Apply == nil {
		return LiveRules()
	}
	return r
}
