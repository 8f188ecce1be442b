package instancebench

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
)

// dies reports whether the i-th process is killed: a third of the ones that project and deliver.
func dies(i int) bool { return i%4 == 2 }

// measureTakeOver kills processes that have claimed entries to project and that hold webhooks
// with events to deliver, and reports when the others have done it.
//
// They are stopped first, so that they keep what they have claimed until all appends are made
// and everything else is projected. What is left then is taken over, and nothing else is timed.
func (x *instances) measureTakeOver(ctx context.Context) error {
	if err := x.grow(ctx, mostInstances); err != nil {
		return err
	}
	if err := x.awaitDelivered(ctx); err != nil {
		return err
	}
	stopped, left, err := x.stopAtWork(ctx)
	if err != nil {
		return err
	}
	killed := time.Now()
	if err := x.kill(); err != nil {
		return err
	}
	if err := workload.AwaitProjected(ctx, x.Database); err != nil {
		return err
	}
	projected := time.Since(killed)
	x.Say("    stopped for %.1f s before they were killed", killed.Sub(stopped).Seconds())
	if err := x.awaitLeasesOver(ctx); err != nil {
		return err
	}
	over := time.Since(stopped)
	if err := x.awaitDelivered(ctx); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		took time.Duration
	}{
		{fmt.Sprintf("%d workers killed with claims of %d workspaces: projected after", mostInstances/4, left), projected},
		{"    their leases are over, from when they stopped", over},
		{"    and delivered, from when they stopped", time.Since(stopped)},
	} {
		x.Report.Add(measure.Figure{Name: f.name, Value: f.took.Seconds(), Unit: "s", Limit: lease.Seconds(), LimitIs: "the lease of webhooks"}.RatioAtMost(1))
	}
	return nil
}

// awaitLeasesOver waits until only living processes have leases.
func (x *instances) awaitLeasesOver(ctx context.Context) error {
	living := 0
	for i := range mostInstances {
		if works(i) && !dies(i) {
			living++
		}
	}
	for {
		held, err := x.held(ctx)
		if err != nil || len(held) <= living {
			return err
		}
		if err := measure.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// stopAtWork stops the processes to be killed while they project, and returns, when the others
// have projected everything else, how many workspaces are behind.
func (x *instances) stopAtWork(ctx context.Context) (stopped time.Time, left int, err error) {
	const tries = 10
	for range tries {
		if err := x.appendTo(ctx, 0, x.all/2); err != nil {
			return stopped, 0, err
		}
		stopped = time.Now()
		if err := x.signal(stopSignal); err != nil {
			return stopped, 0, err
		}
		if err := x.appendTo(ctx, x.all/2, x.all); err != nil {
			return stopped, 0, err
		}
		if left, err = x.awaitRest(ctx); err != nil || left > 0 {
			return stopped, left, err
		}
		if err := x.signal(continueSignal); err != nil {
			return stopped, 0, err
		}
	}
	return stopped, 0, fmt.Errorf("processes that were stopped in the middle of appends held no claim, in %d tries", tries)
}

// awaitRest waits until all workspaces that are behind are claimed, and counts them.
func (x *instances) awaitRest(ctx context.Context) (behind int, err error) {
	for {
		var free int
		if err := x.Pool.QueryRow(ctx, `SELECT count(*) FROM log_checkpoint c JOIN log_head h USING (workspace_id) WHERE h.position > c.position`).Scan(&behind); err != nil {
			return 0, fmt.Errorf("cannot count what is behind: %w", err)
		}
		err := x.Pool.QueryRow(ctx, `
			SELECT count(*) FROM (
			       SELECT FROM log_checkpoint c JOIN log_head h USING (workspace_id) WHERE h.position > c.position FOR UPDATE OF c SKIP LOCKED) free`).Scan(&free)
		if err != nil {
			return 0, fmt.Errorf("cannot count what is not claimed: %w", err)
		}
		if free == 0 {
			return behind, nil
		}
		if err := measure.Pause(ctx, 200*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// signal sends a signal to the processes to be killed.
func (x *instances) signal(sig syscall.Signal) error {
	for i, s := range x.running {
		if !dies(i) {
			continue
		}
		if err := s.cmd.Process.Signal(sig); err != nil {
			return fmt.Errorf("cannot send a signal to %s: %w", program, err)
		}
	}
	return nil
}

// kill kills the processes for which dies is true.
func (x *instances) kill() error {
	if err := x.signal(syscall.SIGKILL); err != nil {
		return err
	}
	var left []*served
	for i, s := range x.running {
		if !dies(i) {
			left = append(left, s)
			continue
		}
		_ = s.cmd.Wait() // which says that it was killed
	}
	x.running = left
	return nil
}
