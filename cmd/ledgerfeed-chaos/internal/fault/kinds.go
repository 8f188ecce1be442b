//go:build linux

package fault

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// last waits as long as the plan says.
func last(ctx context.Context, p *Plan) { flow.Sleep(ctx, p.Lasts) }

func ofProcesses() []*Kind {
	return []*Kind{
		{
			Name: "kill", About: "kill -9 of a process that serves", Weight: 20, aim: aimProcess,
			do: func(_ context.Context, _ *Stage, _ *Plan, t target) error { t.process.Kill(); return nil },
		},
		{
			Name: "terminate", About: "SIGTERM to a process that serves", Weight: 8, aim: aimProcess,
			do: func(_ context.Context, _ *Stage, _ *Plan, t target) error { t.process.Terminate(); return nil },
		},
		{
			Name: "stop", About: "SIGSTOP of a process that serves, 10 to 60 s, then SIGCONT", Weight: 2,
			Shortest: 10 * time.Second, Longest: 60 * time.Second, aim: aimProcess,
			do: func(ctx context.Context, _ *Stage, p *Plan, t target) error {
				t.process.Pause()
				last(ctx, p)
				t.process.Resume()
				return nil
			},
		},
		{
			Name: "out-of-memory", About: "prlimit: a process gets 4 to 64 MiB more address space than it has", Weight: 4,
			Shortest: 2 * time.Second, Longest: 6 * time.Second, aim: aimProcess,
			do: func(ctx context.Context, _ *Stage, p *Plan, t target) error {
				t.process.Starve(int64(4+p.pick(2, 60)) << 20)
				last(ctx, p)
				t.process.Feed()
				return nil
			},
		},
		{
			Name: "upgrade", About: "the schema and then each process become this build's", First: true,
			possible: func(s *Stage) bool { return s.Cluster.Upgradable() },
			aim: func(s *Stage, _ *Plan) target {
				t := target{detail: "every process", touches: []string{check.TouchesDatabase}, claims: []string{claimServer}}
				for _, p := range s.Cluster.Processes {
					t.claims = append(t.claims, claimProcess+p.Name)
				}
				return t
			},
			do: upgrade,
		},
	}
}

// upgrade does what README tells operators: migrate, then one process after the other.
func upgrade(ctx context.Context, s *Stage, _ *Plan, _ target) error {
	s.Cluster.Upgrade()
	if _, err := s.Cluster.Output(ctx, "migrate"); err != nil {
		return err
	}
	for _, p := range s.Cluster.Processes {
		began := time.Now()
		p.Terminate()
		for !s.Work.Readers.Answers(began.Add(time.Second), p.Name) && time.Since(began) < time.Minute {
			flow.Sleep(ctx, 50*time.Millisecond)
		}
	}
	return nil
}

func ofProducers() []*Kind {
	return []*Kind{
		{
			Name: "clock", About: "a producer's clock jumps: 200 days or 4 minutes ahead, or a day back", Weight: 6,
			Shortest: time.Second, Longest: 5 * time.Second,
			aim: func(*Stage, *Plan) target {
				return target{detail: "the producer “clock”", claims: []string{claimClock}}
			},
			do: func(ctx context.Context, s *Stage, p *Plan, _ target) error {
				const day = 24 * time.Hour
				s.Work.Clock.Jump([]time.Duration{200 * day, 4 * time.Minute, -day}[p.pick(2, 3)])
				last(ctx, p)
				s.Work.Clock.Jump(0)
				return nil
			},
		},
		{
			Name: "kill-append", About: "kill -9 of an append command", Weight: 8, Longest: 2 * time.Second,
			aim: func(*Stage, *Plan) target { return target{detail: "append", claims: []string{claimAppend}} },
			do: func(ctx context.Context, s *Stage, p *Plan, _ target) error {
				last(ctx, p)
				for range 100 {
					if s.Work.KillAppend() || !flow.Sleep(ctx, 20*time.Millisecond) {
						return nil
					}
				}
				return errors.New("no append command was running")
			},
		},
	}
}

func ofLocks() []*Kind {
	return []*Kind{
		{
			Name: "held-head", About: "a transaction of somebody else holds a workspace's head", Weight: 6, Others: true,
			Shortest: 5 * time.Second, Longest: 15 * time.Second, aim: aimTenant(claimLocks),
			do: func(ctx context.Context, s *Stage, p *Plan, t target) error {
				return hold(ctx, s, p, `SELECT FROM log_head WHERE workspace_id = $1 FOR UPDATE`, t.workspace)
			},
		},
		{
			Name: "locked-webhook", About: "a transaction of somebody else holds a webhook's row", Weight: 6, Others: true,
			Shortest: 5 * time.Second, Longest: 15 * time.Second, aim: aimTenant(claimLocks),
			do: func(ctx context.Context, s *Stage, p *Plan, t target) error {
				return hold(ctx, s, p, `SELECT FROM webhook WHERE workspace_id = $1 FOR UPDATE`, t.workspace)
			},
		},
	}
}

// hold keeps a row locked. Another fault may end the connection, and with it the lock.
func hold(ctx context.Context, s *Stage, p *Plan, sql, workspace string) error {
	return s.Cluster.Primary().With(ctx, func(conn *pgx.Conn) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		if _, err := tx.Exec(ctx, sql, workspace); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		last(ctx, p)
		_ = tx.Rollback(ctx)
		return nil
	})
}

func ofTenants() []*Kind {
	return []*Kind{
		{
			Name: "flood", About: "40 readers of one workspace ask for lists with filters without a pause", Weight: 2, Others: true,
			Shortest: 2 * time.Second, Longest: 6 * time.Second, aim: aimTenant(claimFlood),
			do: func(ctx context.Context, s *Stage, p *Plan, t target) error {
				flooding, cancel := context.WithTimeout(ctx, p.Lasts)
				defer cancel()
				s.Work.Flood(flooding, t.workspace, 40, []string{
					"/v1/time-entries?" + url.Values{"client_id": {"cl_000001"}, "status": {"approved"}, "limit": {"100"}}.Encode(),
					"/v1/invoices?status=paid&limit=100", "/v1/events?limit=100", "/v1/charges?limit=100",
				})
				return nil
			},
		},
		{
			Name: "hostile-receiver", About: "a receiver answers errors, hangs, drips, aborts, floods, redirects or sends a bomb", Weight: 10,
			Shortest: 2 * time.Second, Longest: 12 * time.Second, aim: aimTenant(claimReceiver, check.TouchesReceivers),
			do: func(ctx context.Context, s *Stage, p *Plan, t target) error {
				moods := workload.HostileMoods()
				s.Work.Receivers.SetMood(t.workspace, moods[p.pick(2, len(moods))])
				last(ctx, p)
				s.Work.Receivers.SetMood(t.workspace, workload.Well)
				return nil
			},
		},
	}
}
