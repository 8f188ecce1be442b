//go:build linux

package fault

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/cluster"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/copies"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/region"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/internal/badnetwork"
)

// Stage is what faults happen to.
type Stage struct {
	Cluster *cluster.Cluster
	Work    *workload.Workload
	Region  *region.Region // nil: there is none
	Copies  *copies.Copies // nil: there are none
}

// Kind is a kind of fault.
type Kind struct {
	Name, About       string
	Weight            int           // how often, beside the others
	First             bool          // it comes once, before the others
	Shortest, Longest time.Duration // how long it lasts; 0: a moment
	Others            bool          // those it is not about must not feel it

	possible func(*Stage) bool // nil: always
	// aim says what a plan is about: what it touches, and which things it claims, so
	// that no other fault has them meanwhile.
	aim func(*Stage, *Plan) target
	do  func(context.Context, *Stage, *Plan, target) error
}

// target is what one fault is about.
type target struct {
	detail  string
	touches []string // see check.Fault
	claims  []string

	process   *cluster.Process
	beside    *cluster.Process // that does not answer readers
	link      *badnetwork.Proxy
	workspace string
}

// Possible are the kinds that this machine and this run allow.
func Possible(s *Stage) (list []*Kind) {
	for _, k := range Kinds() {
		if k.possible == nil || k.possible(s) {
			list = append(list, k)
		}
	}
	return list
}

// Kinds are all kinds.
func Kinds() []*Kind {
	return slices.Concat(ofProcesses(), ofDatabase(), ofNetwork(), ofProducers(), ofLocks(), ofTenants(), ofRegion(), ofCopies())
}

// Bystanding are the names of the kinds that concern one workspace: others must not feel them.
func Bystanding() (names []string) {
	for _, k := range Kinds() {
		if k.Others {
			names = append(names, k.Name)
		}
	}
	return names
}

// Claims. Those of a link, a process or a workspace have its name behind them.
const (
	claimServer   = "server"
	claimClock    = "clock"
	claimAppend   = "append"
	claimFlood    = "flood"
	claimProcess  = "process "
	claimLink     = "link "
	claimLocks    = "locks of "
	claimReceiver = "receiver of "
	claimTurn     = "turn "
)

// aimProcess chooses one of the processes that serve. Faults take turns, of which there
// are fewer than processes, so that one of them is there.
func aimProcess(s *Stage, p *Plan) target {
	i, all := p.pick(1, len(s.Cluster.Processes)), len(s.Cluster.Processes)
	chosen := s.Cluster.Processes[i]
	return target{
		detail: "process " + chosen.Name, touches: []string{chosen.Name}, process: chosen,
		claims: []string{claimProcess + chosen.Name, claimTurn + strconv.Itoa(i%max(all-1, 1))},
	}
}

// aimServer is about PostgreSQL.
func aimServer(*Stage, *Plan) target {
	return target{detail: "PostgreSQL", touches: []string{check.TouchesDatabase}, claims: []string{claimServer}}
}

// aimLink chooses a link: between a process and the database, between producers and
// the database, or between the processes and the receivers.
func aimLink(s *Stage, p *Plan) target {
	switch n := p.pick(1, len(s.Cluster.Links)+2); {
	case n < len(s.Cluster.Links):
		name := s.Cluster.Processes[n].Name
		return target{detail: "process " + name + " – database", touches: []string{name}, claims: []string{claimLink + name}, link: s.Cluster.Links[n]}
	case n == len(s.Cluster.Links):
		return target{detail: "producers – database", touches: []string{check.TouchesProducers}, claims: []string{claimLink + "producers"}, link: s.Cluster.Producers}
	}
	return target{detail: "processes – receivers", touches: []string{check.TouchesReceivers}, claims: []string{claimLink + "receivers"}, link: s.Work.Receivers.Link}
}

// aimTenant chooses a workspace.
func aimTenant(claim string, touches ...string) func(*Stage, *Plan) target {
	return func(s *Stage, p *Plan) target {
		workspaces := s.Work.Workspaces()
		chosen := workspaces[p.pick(1, len(workspaces))]
		return target{detail: chosen, touches: touches, claims: []string{claim + chosen}, workspace: chosen}
	}
}
