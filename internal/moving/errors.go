package moving

import (
	"errors"
	"fmt"
)

// errFenceOver means that the old place takes appends again, or a process has taken up a webhook
// again, before the workspace left. The move then copies the new entries and tries again.
var errFenceOver = errors.New("the time in which appends are refused was over, or a webhook was taken up again, before the workspace could leave")

// Errors of moves that cannot begin, continue or be undone.
var (
	// ErrOther: the workspace is moving to another database than the one given.
	ErrOther = errors.New("the database given is not the one that this workspace moves to; give the one with which the move was begun")
	// ErrUndone: somebody has begun to undo the move.
	ErrUndone = errors.New("the move is being undone; run it with --undo again, and then begin again")
	// ErrOpen: the move is over, so it cannot be undone.
	ErrOpen = errors.New("the workspace is open at the new place, which may have taken entries; to bring it back, end this move with --finish and move it from there")
	// ErrNothing: there is nothing to undo or to finish.
	ErrNothing = errors.New("the workspace is not being moved from here")
	// ErrUnproven: the new place does not prove that it has the workspace.
	ErrUnproven = errors.New("nothing was removed: the new place is not open with the whole history and the same chain")
	// ErrGone: the workspace was moved from here.
	ErrGone = errors.New("the workspace has moved from here; move it from where it is")
	// ErrReceiving: the workspace is being moved here and is not open yet.
	ErrReceiving = errors.New("the workspace is being moved here, and is not open yet")
)

// TakenError says that the workspace's id is taken at the new place.
type TakenError struct{ WorkspaceID, Place, Why string }

// Error names the place.
func (e *TakenError) Error() string {
	return fmt.Sprintf("%s has the workspace %s already: %s", e.Place, e.WorkspaceID, e.Why)
}

// OwnerError says that an account may not move workspaces.
type OwnerError struct{ Place, Account string }

// Error says which account to use.
func (e *OwnerError) Error() string {
	return fmt.Sprintf("the account %s does not own the tables in %s: move workspaces with the account that migrates", e.Account, e.Place)
}

// SchemaError says that the databases have different versions of the schema.
type SchemaError struct{ From, To int64 }

// Error says what to do.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("the schema of the old place has version %d and that of the new one %d: bring both to the same version of the program first (ledgerfeed migrate)", e.From, e.To)
}

// DivergedError says that the new place has another log than the old one, or that the old place's
// log was altered.
type DivergedError struct {
	WorkspaceID string
	Position    int64
	Altered     bool // the old place's chain is broken
}

// Error names the position.
func (e *DivergedError) Error() string {
	if e.Altered {
		return fmt.Sprintf("the chain of %s is broken at position %d: ledgerfeed verify --workspace %s shows more; nothing after it was copied", e.WorkspaceID, e.Position, e.WorkspaceID)
	}
	return fmt.Sprintf("at position %d of %s the new place has another entry than the old one; undo the move there, or give an empty database", e.Position, e.WorkspaceID)
}

// IdleError says that a place did not do its part in time.
type IdleError struct {
	Place, Waits string // what the move waited for
	Position     int64  // of the read models there
	Fault        string // of the projector; empty: none is known
}

// Error says what to look at.
func (e *IdleError) Error() string {
	s := fmt.Sprintf("%s did not do its part in time: the move waited for %s", e.Place, e.Waits)
	if e.Position > 0 || e.Fault != "" {
		s += fmt.Sprintf(" (the read models are at position %d)", e.Position)
	}
	if e.Fault != "" {
		s += ": " + e.Fault
	}
	return s + "; run the same command again, or undo it with --undo"
}
