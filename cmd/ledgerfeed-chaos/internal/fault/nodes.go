//go:build linux

package fault

import (
	"context"
	"strconv"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
)

// ofNodes are faults of the nodes of a Citus cluster.
func ofNodes() []*Kind {
	return []*Kind{
		{
			Name: "node-sessions", About: "all sessions at a worker of the Citus cluster end, as when it crashes", Weight: 12,
			possible: func(s *Stage) bool { return s.Cluster.Nodes.Workers() > 0 },
			aim: func(s *Stage, p *Plan) target {
				n := p.pick(1, s.Cluster.Nodes.Workers())
				return target{detail: "worker " + strconv.Itoa(1+n), number: n, touches: []string{check.TouchesDatabase}, claims: []string{claimServer}}
			},
			do: func(ctx context.Context, s *Stage, _ *Plan, t target) error {
				return s.Cluster.Nodes.EndSessions(ctx, t.number)
			},
		},
		{
			Name: "shard-move", About: "the shards of a workspace move to another worker of the Citus cluster", Weight: 6,
			possible: func(s *Stage) bool { return s.Cluster.Nodes.Workers() > 1 },
			aim:      aimTenantShards,
			do: func(ctx context.Context, s *Stage, _ *Plan, t target) error {
				return s.Cluster.Nodes.MoveShards(ctx, t.workspace)
			},
		},
	}
}

// aimTenantShards chooses a workspace whose shards move: one move at a time, because each
// locks out the others.
func aimTenantShards(s *Stage, p *Plan) target {
	t := aimTenant(claimLocks, check.TouchesDatabase)(s, p)
	t.claims = []string{claimServer}
	return t
}

// ownServer tells whether the run has a PostgreSQL of its own, which it may stop.
func ownServer(s *Stage) bool { return s.Cluster.Nodes.Workers() == 0 }
