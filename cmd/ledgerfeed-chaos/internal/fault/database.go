//go:build linux

package fault

import (
	"context"
	"errors"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/cluster"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

func ofDatabase() []*Kind {
	return []*Kind{
		{
			Name: "postgres-kill", About: "kill -9 of all of PostgreSQL's processes, and a restart", Weight: 10, aim: aimServer,
			do: func(ctx context.Context, s *Stage, _ *Plan, _ target) error {
				server := s.Cluster.Primary()
				server.Kill()
				return server.Start(ctx)
			},
		},
		{
			Name: "backend-kill", About: "kill -9 of one of PostgreSQL's backends: it recovers by itself", Weight: 8, aim: aimServer,
			do: func(ctx context.Context, s *Stage, p *Plan, _ target) error {
				_, err := s.Cluster.Primary().KillBackend(ctx, p.Roll)
				return err
			},
		},
		{
			Name: "failover", About: "a synchronous replica takes over; nothing is lost", Weight: 2,
			Shortest: time.Second, Longest: 3 * time.Second, aim: aimServer, do: failover,
		},
		{
			Name: "failover-lost-tail", About: "a server without the last commits takes over", Weight: 2,
			Shortest: time.Second, Longest: 3 * time.Second, aim: aimServer, do: failoverLosingTail,
		},
		{
			Name: "restore", About: "a backup of some seconds ago is restored", Weight: 2,
			Shortest: 2 * time.Second, Longest: 5 * time.Second, aim: aimServer, do: restore,
		},
		{
			Name: "full-disk", About: "PostgreSQL's disk (a file system in memory) is full", Weight: 2,
			Shortest: 2 * time.Second, Longest: 6 * time.Second, aim: aimDisk, do: fillDisk,
			possible: func(s *Stage) bool { return s.Cluster.CanFill() },
		},
	}
}

func failover(ctx context.Context, s *Stage, p *Plan, _ target) error {
	replica, err := s.Cluster.NewReplica(ctx)
	if err != nil {
		return err
	}
	if err := replica.Synchronous(ctx); err != nil {
		replica.Discard()
		return err
	}
	last(ctx, p)
	return replica.TakeOver(ctx)
}

func failoverLosingTail(ctx context.Context, s *Stage, p *Plan, _ target) error {
	replica, err := s.Cluster.NewReplica(ctx)
	if err != nil {
		return err
	}
	replica.Lag()
	last(ctx, p)
	return s.Work.LoseTail(ctx, replica.TakeOver)
}

func restore(ctx context.Context, s *Stage, p *Plan, _ target) error {
	backup, err := s.Cluster.NewBackup(ctx)
	if err != nil {
		return err
	}
	last(ctx, p)
	return s.Work.LoseTail(ctx, backup.Restore)
}

// aimDisk chooses the disk, which all PostgreSQL servers share.
func aimDisk(s *Stage, p *Plan) target {
	t := aimServer(s, p)
	var also []target
	if s.Region != nil {
		also = append(also, aimRegionServer(s, p))
	}
	if s.Copies != nil {
		also = append(also, aimCopyServer(s, p))
	}
	for _, other := range also {
		t.touches, t.claims = append(t.touches, other.touches...), append(t.claims, other.claims...)
	}
	return t
}

// fillDisk fills the disk. PostgreSQL may end at that; when there is room again it is
// started, as an operator does.
func fillDisk(ctx context.Context, s *Stage, p *Plan, _ target) error {
	if err := s.Cluster.FillDisk(int64(p.pick(2, 256)) << 10); err != nil {
		return err
	}
	last(ctx, p)
	if err := s.Cluster.EmptyDisk(); err != nil {
		return err
	}
	flow.Sleep(ctx, time.Second) // it may be about to end
	servers := []*cluster.Server{s.Cluster.Primary()}
	if s.Region != nil {
		servers = append(servers, s.Region.Server)
	}
	if s.Copies != nil {
		servers = append(servers, s.Copies.Server)
	}
	var errs []error
	for _, server := range servers {
		if !server.Running() {
			errs = append(errs, server.Start(ctx))
		}
	}
	return errors.Join(errs...)
}
