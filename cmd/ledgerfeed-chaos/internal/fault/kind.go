//go:build linux

package fault

import (
	"context"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/cluster"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/network"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/workload"
)

// Stage is what faults happen to.
type Stage struct {
	Cluster *cluster.Cluster
	Work    *workload.Workload
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
	link      *network.Proxy
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
	return slices.Concat(ofProcesses(), ofDatabase(), ofNetwork(), ofProducers(), ofLocks(), ofTenants())
}

// Bystanding are the names of kinds that those must not feel whom they are not about.
func Bystanding() (names []string) {
	for _, k := range Kinds() {
		if k.Others {
			names = append(names, k.Name)
		}
	}
	return names
}

// Claims that are not names of links.
const (
	claimProcess  = "process"
	claimServer   = "server"
	claimClock    = "clock"
	claimLocks    = "locks"
	claimReceiver = "receiver"
	claimFlood    = "flood"
)

// aimProcess chooses one of the processes that serve.
func aimProcess(s *Stage, p *Plan) target {
	chosen := s.Cluster.Processes[p.pick(1, len(s.Cluster.Processes))]
	return target{detail: "process " + chosen.Name, touches: []string{chosen.Name}, claims: []string{claimProcess}, process: chosen}
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
		return target{detail: "process " + name + " – database", touches: []string{name}, claims: []string{"link " + name}, link: s.Cluster.Links[n]}
	case n == len(s.Cluster.Links):
		return target{detail: "producers – database", touches: []string{check.TouchesProducers}, claims: []string{"link producers"}, link: s.Cluster.Producers}
	}
	return target{detail: "processes – receivers", touches: []string{check.TouchesReceivers}, claims: []string{"link receivers"}, link: s.Work.Receivers.Link}
}

// aimTenant chooses a workspace.
func aimTenant(claim string, touches ...string) func(*Stage, *Plan) target {
	return func(s *Stage, p *Plan) target {
		workspaces := s.Work.Workspaces()
		chosen := workspaces[p.pick(1, len(workspaces))]
		return target{detail: chosen, touches: touches, claims: []string{claim}, workspace: chosen}
	}
}
