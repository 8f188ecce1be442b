package operate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

const (
	// The read models usually have an entry within milliseconds, so the first looks
	// follow each other closely.
	firstPoll    = 10 * time.Millisecond
	pollInterval = 200 * time.Millisecond
	// tellAfter is when a wait says for the first time how many entries it waits for.
	tellAfter = time.Second
	// stuckAfter is the time without progress after which a wait warns.
	stuckAfter = 10 * time.Second
)

// NotProjectedError is the error of a wait for the read models that took too long.
type NotProjectedError struct{ Within time.Duration }

func (e *NotProjectedError) Error() string {
	return fmt.Sprintf("not everything was projected within %s", e.Within)
}

// AwaitProjected waits until the read models of a workspace, or with an empty id
// of all, have what the log holds when it is called. With a timeout above 0 it
// fails after that time, with a *NotProjectedError.
func (d *Deps) AwaitProjected(ctx context.Context, workspaceID string, timeout time.Duration, why Why) error {
	progress, err := eventlog.ReadProgress(ctx, d.Pool, eventlog.ReadModels, workspaceID)
	if err != nil {
		return err
	}
	targets := make(map[string]int64, len(progress))
	for i := range progress {
		targets[progress[i].WorkspaceID] = progress[i].Head
	}
	return d.AwaitPositions(ctx, targets, timeout, why)
}

// Why says in sentences why nothing may be projected; empty: it knows no reason.
type Why func(context.Context, *Deps) string

// AwaitPositions is AwaitProjected for a position in each of some workspaces.
func (d *Deps) AwaitPositions(ctx context.Context, targets map[string]int64, timeout time.Duration, why Why) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, &NotProjectedError{timeout})
		defer cancel()
	}
	err := d.awaitPositions(ctx, targets, why)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	return err
}

func (d *Deps) awaitPositions(ctx context.Context, targets map[string]int64, why Why) error {
	began := time.Now()
	least, moved := int64(-1), began // the fewest entries behind so far, and since when; -1: not known
	tell := tellAfter
	for wait := firstPoll; ; wait = min(2*wait, pollInterval) {
		behind, fails, err := d.behind(ctx, targets)
		if behind == 0 || err != nil {
			return err
		}
		if least < 0 || behind < least {
			least, moved = behind, time.Now()
		}
		if time.Since(began) > tell {
			tell += cli.ProgressEvery
			reason := ""
			if fails != nil {
				reason = ": " + retrying(fails)
			}
			if text := why(ctx, d); text != "" {
				reason += ". " + text
			}
			fmt.Fprintf(d.env.ErrOut, "waiting for the read models, which do not have %s yet%s\n", texts.Count(behind, "entry", "entries"), reason)
		}
		if time.Since(moved) > stuckAfter {
			reason := "nothing has been projected for 10 seconds. An entry that changes very many rows takes minutes. Otherwise see the log of the process with the role project"
			if fails != nil {
				reason = retrying(fails)
			}
			d.env.Logger.WarnContext(ctx, cmp.Or(why(ctx, d), reason), "behind", behind)
			moved = time.Now()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// retrying says what the projector cannot do.
func retrying(fails *eventlog.Progress) string {
	return fmt.Sprintf("the projector is retrying entry %d of workspace %s: %s", fails.Position+1, fails.WorkspaceID, fails.Error)
}

// behind counts the entries up to the targets that the read models do not have yet. fails is the
// first workspace of them whose next entry has failed.
func (d *Deps) behind(ctx context.Context, targets map[string]int64) (entries int64, fails *eventlog.Progress, err error) {
	only := ""
	if len(targets) == 1 {
		only = slices.Collect(maps.Keys(targets))[0]
	}
	progress, err := eventlog.ReadProgress(ctx, d.Pool, eventlog.ReadModels, only)
	if err != nil {
		return 0, nil, err
	}
	for i := range progress {
		p := &progress[i]
		missing := max(0, targets[p.WorkspaceID]-p.Position)
		if missing > 0 && p.Quarantined {
			return 0, nil, fmt.Errorf("workspace %s waits at position %d, which cannot be projected: %s", p.WorkspaceID, p.Position+1, p.Error)
		}
		if missing > 0 && p.Failures > 0 && fails == nil {
			fails = p
		}
		entries += missing
	}
	return entries, fails, nil
}
