package moving

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

const (
	// fences is how often the old place is fenced before the move gives up.
	fences = 5
	// nearly is how many entries may be left to copy when the old place is fenced. More may be left
	// if they are appended faster than they are copied.
	nearly = 500
	// passes bounds how often the log is copied before a fence.
	passes = 20
)

// Run moves the workspace, or continues an interrupted move, until the new place has it with its
// whole history. Apart from errors of the databases, it returns the errors of this package,
// *domain.UnknownWorkspaceError and *keyring.MissingError.
func (m *Mover) Run(ctx context.Context) (Result, error) {
	state, err := m.begin(ctx)
	if err != nil {
		return Result{}, err
	}
	if state != moved {
		if err := m.leave(ctx); err != nil {
			return Result{}, err
		}
	}
	result, err := m.open(ctx)
	if err != nil {
		return result, err
	}
	if err := tell(ctx, m); err != nil {
		return result, fmt.Errorf("the workspace is open at the new place, but readers at the old one are not told; run the same command again: %w", err)
	}
	if result.History, err = m.copyHistory(ctx); err != nil {
		return result, fmt.Errorf("the workspace is open at the new place, but its history is not whole there yet; run the same command again: %w", err)
	}
	result.State = complete
	return result, nil
}

// leave copies the log and gives the workspace up at the old place.
func (m *Mover) leave(ctx context.Context) error {
	for n := 1; ; n++ {
		if err := approach(ctx, m); err != nil {
			return err
		}
		if err := m.hold(ctx); err != nil {
			return err
		}
		err := pass(ctx, m)
		again := errors.Is(err, errFenceOver) || pg.RolledBack(err)
		if !again || n == fences {
			return err
		}
		m.cfg.Logger.WarnContext(ctx, "the workspace could not leave in time; trying again", "workspace", m.cfg.WorkspaceID, "error", err)
		if !flow.Sleep(ctx, time.Duration(n)*100*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// approach copies the log and waits for the read models, until few entries are left.
func approach(ctx context.Context, m *Mover) error {
	m.cfg.Step(StepCopy)
	for range passes {
		h, err := copyLog(ctx, m)
		if err != nil {
			return err
		}
		if err := awaitProjected(ctx, m, h.position); err != nil {
			return err
		}
		newest, err := headOf(ctx, m, &m.cfg.From)
		if err != nil {
			return err
		}
		if newest.position-h.position <= nearly {
			return nil
		}
	}
	return nil // entries are appended as fast as they are copied; the fence will end that
}

// pass fences the old place, copies the rest and gives the workspace up.
func pass(ctx context.Context, m *Mover) error {
	newest, err := m.fence(ctx)
	if err != nil {
		return err
	}
	m.cfg.Step(StepTail)
	limited, cancel := context.WithTimeoutCause(ctx, m.cfg.Fence, errFenceOver)
	defer cancel()
	if _, err := copyLog(limited, m); err != nil {
		return orFenceOver(limited, err)
	}
	if err := awaitProjected(limited, m, newest.position); err != nil {
		return orFenceOver(limited, err)
	}
	if err := m.prepare(ctx, newest); err != nil {
		return err
	}
	return m.depart(ctx, newest)
}

// orFenceOver returns errFenceOver if the time of the fence is over, else err.
func orFenceOver(limited context.Context, err error) error {
	if errors.Is(context.Cause(limited), errFenceOver) {
		return errFenceOver
	}
	return err
}
