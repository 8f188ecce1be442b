//go:build linux

package fault

import (
	"context"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/cluster"
)

// Claims of a Region's things.
const (
	claimRegion       = "region process "
	claimRegionServer = "region server"
)

func hasRegion(s *Stage) bool { return s.Region != nil }

// aimRegion chooses one of the processes that ingest and relay.
func aimRegion(s *Stage, p *Plan) target {
	chosen := s.Region.Processes[p.pick(1, len(s.Region.Processes))]
	return target{detail: "process " + chosen.Name, claims: []string{claimRegion + chosen.Name}, beside: chosen}
}

func aimBroker(s *Stage, _ *Plan) target {
	return target{detail: "the broker", claims: []string{claimRegion + s.Region.Broker.Name}, beside: s.Region.Broker}
}

func aimRegionServer(s *Stage, _ *Plan) target {
	t := target{detail: "PostgreSQL of the region", claims: []string{claimRegionServer}}
	for _, p := range s.Region.Processes { // one that is just starting ends
		t.touches = append(t.touches, p.Name)
	}
	return t
}

func kill(_ context.Context, _ *Stage, _ *Plan, t target) error {
	t.beside.Kill()
	return nil
}

func stopFor(ctx context.Context, p *Plan, process *cluster.Process) {
	process.Pause()
	last(ctx, p)
	process.Resume()
}

func ofRegion() []*Kind {
	return []*Kind{
		{Name: "kill-relay", About: "kill -9 of a process that ingests and relays", Weight: 8, possible: hasRegion, aim: aimRegion, do: kill},
		{
			Name: "stop-relay", About: "SIGSTOP of a process that ingests and relays, 5 to 20 s, so that another takes over, then SIGCONT", Weight: 2, possible: hasRegion,
			Shortest: 5 * time.Second, Longest: 20 * time.Second, aim: aimRegion,
			do: func(ctx context.Context, _ *Stage, p *Plan, t target) error { stopFor(ctx, p, t.beside); return nil },
		},
		{Name: "kill-broker", About: "kill -9 of the message broker, and a restart", Weight: 4, possible: hasRegion, aim: aimBroker, do: kill},
		{
			Name: "stop-broker", About: "SIGSTOP of the message broker, 1 to 8 s, then SIGCONT", Weight: 2, possible: hasRegion,
			Shortest: time.Second, Longest: 8 * time.Second, aim: aimBroker,
			do: func(ctx context.Context, _ *Stage, p *Plan, t target) error { stopFor(ctx, p, t.beside); return nil },
		},
		{
			Name: "kill-region-postgres", About: "kill -9 of the PostgreSQL of outbox and both logs, and a restart", Weight: 3, possible: hasRegion,
			aim: aimRegionServer,
			do: func(ctx context.Context, s *Stage, _ *Plan, _ target) error {
				s.Region.Server.Kill()
				return s.Region.Server.Start(ctx)
			},
		},
	}
}

// IsRegional reports whether a kind is about a Region alone.
func IsRegional(kind string) bool {
	return slices.ContainsFunc(ofRegion(), func(k *Kind) bool { return k.Name == kind })
}
