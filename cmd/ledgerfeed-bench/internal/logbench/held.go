package logbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/domain"
)

const (
	// heldRounds is odd, so that there is a median.
	heldRounds = 5
	heldTime   = 4 * time.Second
	// heldWorkspaces is how many workspaces other transactions hold.
	heldWorkspaces = 3
	heldCallers    = 8
)

// benchHeld compares appends to workspaces with the same while others of the
// process are held by a transaction, and wait for them: single appends, batches, and
// batches to a held workspace and one that is measured. The two alternate, and the
// median of each counts. Commits do not wait for the disk, whose stalls would be all
// that a p99 shows.
func benchHeld(ctx context.Context, o *measure.Options) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		if err := db.DoNotWaitForDisk(ctx); err != nil {
			return err
		}
		drafts, err := workload.Samples(5_000)
		if err != nil {
			return err
		}
		a := appends{Database: db, drafts: drafts}
		var first []domain.Draft
		for i := range heldWorkspaces + 100 {
			first = append(first, a.draft(workload.WorkspaceID(i), i))
		}
		if _, err := db.Log.Append(ctx, first...); err != nil {
			return err
		}
		var free, beside, longest []float64
		for round := range heldRounds + 1 {
			times, err := a.besideHeld(ctx, false)
			if err != nil {
				return err
			}
			held, err := a.besideHeld(ctx, true)
			if err != nil {
				return err
			}
			db.Say("round %d: p99 %.2f ms beside held workspaces, %.2f ms without", round, measure.Quantile(held, 0.99), measure.Quantile(times, 0.99))
			if round == 0 {
				continue // a server's first seconds are slow
			}
			free, beside = append(free, measure.Quantile(times, 0.99)), append(beside, measure.Quantile(held, 0.99))
			longest = append(longest, measure.Quantile(held, 1))
		}
		db.Report.Add(measure.Figure{
			Name: "append single entries while 3 workspaces are held, p99", Value: measure.Median(beside), Unit: "ms",
			Limit: measure.Median(free), LimitIs: "the same with none held",
		}.RatioAtMost(2))
		db.Report.Add(measure.Figure{Name: "    the longest of them", Value: measure.Median(longest), Unit: "ms"})
		return nil
	})
}

// besideHeld returns how long single appends took, perhaps while some workspaces are
// held.
func (a *appends) besideHeld(ctx context.Context, held bool) (times []time.Duration, err error) {
	var waiting sync.WaitGroup
	working, stop := context.WithCancel(ctx)
	release := func() error { return nil }
	if held {
		if release, err = a.hold(ctx); err != nil {
			stop()
			return nil, err
		}
		for i := range 4 * heldWorkspaces {
			waiting.Go(func() { a.waitFor(working, i) })
		}
	}
	_, _, times, err = measure.Repeat(ctx, heldCallers, a.Duration(heldTime), func(ctx context.Context, caller, turn int) error {
		_, err := a.Log.Append(ctx, a.draft(workload.WorkspaceID(heldWorkspaces+rand.IntN(100)), caller*7919+turn))
		return err
	})
	stop()
	if rerr := release(); err == nil {
		err = rerr
	}
	waiting.Wait()
	return times, err
}

// hold locks workspaces in a transaction until release.
func (a *appends) hold(ctx context.Context) (release func() error, err error) {
	tx, err := a.Pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot hold workspaces: %w", err)
	}
	release = func() error { return tx.Rollback(context.WithoutCancel(ctx)) }
	for i := range heldWorkspaces {
		if _, err := tx.Exec(ctx, `SELECT FROM log_head WHERE workspace_id = $1 FOR UPDATE`, workload.WorkspaceID(i)); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot hold workspaces: %w", err), release())
		}
	}
	return release, nil
}

// waitFor appends to a held workspace again and again; every time it fails, or is
// done when the workspace is free again.
func (a *appends) waitFor(ctx context.Context, i int) {
	workspaceID := workload.WorkspaceID(i % heldWorkspaces)
	for turn := 0; ctx.Err() == nil; turn++ {
		drafts := []domain.Draft{a.draft(workspaceID, turn)}
		switch i / heldWorkspaces {
		case 2:
			drafts = append(drafts, a.draft(workspaceID, turn+1))
		case 3:
			drafts = append(drafts, a.draft(workload.WorkspaceID(heldWorkspaces+i), turn+1))
		}
		_, _ = a.Log.Append(ctx, drafts...)
	}
}
