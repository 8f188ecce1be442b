package scenario

import (
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Line is one entry, as it is appended to the log.
type Line struct {
	WorkspaceID string
	// ID is never empty and unique in its workspace, so appending the same stream
	// twice is harmless.
	ID   string
	Type string
	// CreatedAt is in UTC, in whole milliseconds, and never before the time of the
	// line before it. It is zero in lines of a Living, whose time the log assigns.
	CreatedAt time.Time
	// Data is the entry's JSON object in canonical form. The caller owns it.
	Data []byte
}

// AppendNDJSON appends the line as the append command takes it, with its line feed. A
// zero CreatedAt is left out.
func (l Line) AppendNDJSON(b []byte) []byte {
	b = jsonform.AppendString(append(b, `{"workspace_id":`...), l.WorkspaceID)
	b = jsonform.AppendString(append(b, `,"id":`...), l.ID)
	b = jsonform.AppendString(append(b, `,"type":`...), l.Type)
	if !l.CreatedAt.IsZero() {
		b = append(b, `,"created_at":"`...)
		b = appendInstant(b, l.CreatedAt.UnixMilli())
		b = append(b, '"')
	}
	b = append(b, `,"data":`...)
	b = append(b, l.Data...)
	return append(b, '}', '\n')
}
