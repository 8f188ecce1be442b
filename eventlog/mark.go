package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Mark is a position of a workspace's log with the start of the chain there. A
// reader that keeps a Mark outside the database can tell later whether the log up
// to there is still the one that it has read: an older backup that was restored, or
// a server that took over without the last commits, gives the same positions to
// other entries. The zero Mark is the start of every log.
type Mark struct {
	Position int64
	Chain    [8]byte // the first bytes of the entry's chain value; zero at position 0, or if they are not known
}

// NewMark makes a Mark of what ChainStart selects for a position; nil at position 0.
func NewMark(position int64, chain []byte) Mark {
	m := Mark{Position: position}
	copy(m.Chain[:], chain)
	return m
}

// ChainStart is the SQL of the bytes of a Mark, of a row e of event_log.
const ChainStart = `substr(e.chain, 1, 8)`

// HoldsMark is the SQL condition that the log of a workspace holds a Mark, from the
// SQL of the workspace's id and of the Mark's position and bytes. It is true if the bytes
// are not known.
func HoldsMark(workspaceID, position, chain string) string {
	return `(` + chain + `::bytea = '\x0000000000000000' OR coalesce(` + AtPosition(ChainStart, workspaceID, position+`::bigint`) + ` = ` + chain + `, false))`
}

// AtPosition is the SQL of a value of the entry e at a position of a workspace's log; null: there
// is no entry. A range of one position in the order of positions is read along their index,
// whatever the statistics say of the workspace.
func AtPosition(value, workspaceID, position string) string {
	return `(SELECT ` + value + ` FROM event_log e WHERE e.workspace_id = ` + workspaceID +
		` AND e.position BETWEEN ` + position + ` AND ` + position + ` ORDER BY e.position LIMIT 1)`
}

// markOf is the Mark of an entry.
func markOf(e *domain.Entry) Mark { return NewMark(e.Position, e.Chain[:8]) }

// OtherLogError says that the log of a workspace is not the one that a Mark was taken
// of.
type OtherLogError struct {
	WorkspaceID string
	Position    int64 // of the Mark
	Head        int64 // newest position of the log
}

// Error says what is different, and how that comes about.
func (e *OtherLogError) Error() string {
	what := "holds another entry there"
	if e.Head < e.Position {
		what = fmt.Sprintf("has come to position %d only", e.Head)
	}
	return fmt.Sprintf("cannot continue after position %d of %s: the log %s, because an older backup was restored or a server without the last commits took over",
		e.Position, e.WorkspaceID, what)
}

// WalkAfter is Walk after a Mark. The error is an *OtherLogError when the log does not
// hold the Mark, also when that comes about during the walk. A Mark of a position
// whose chain is not known, all zero, is not compared.
func (l *Log) WalkAfter(ctx context.Context, workspaceID string, after Mark, do func(*domain.Entry) error) error {
	for {
		known := after.Chain != [8]byte{}
		from := after.Position
		if known {
			from-- // the entry of the Mark, too
		}
		entries, err := l.Read(ctx, workspaceID, from, readPage)
		if err != nil {
			return err
		}
		full := len(entries) == readPage
		if known {
			if len(entries) == 0 || markOf(&entries[0]) != after {
				return l.otherLog(ctx, workspaceID, after)
			}
			entries = entries[1:]
		}
		for i := range entries {
			if err := do(&entries[i]); err != nil {
				return err
			}
			after = markOf(&entries[i])
		}
		if !full {
			return nil
		}
	}
}

func (l *Log) otherLog(ctx context.Context, workspaceID string, m Mark) error {
	head, err := l.Head(ctx, workspaceID)
	if _, gone := errors.AsType[*domain.UnknownWorkspaceError](err); err != nil && !gone {
		return err
	}
	return &OtherLogError{WorkspaceID: workspaceID, Position: m.Position, Head: head.Position}
}
