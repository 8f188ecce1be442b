package scenario

import "time"

// Line is one entry in the form that the log takes.
type Line struct {
	WorkspaceID string
	// ID is always given and unique in its workspace, so that appending the
	// same stream twice is harmless.
	ID   string
	Type string
	// CreatedAt is in UTC, of millisecond precision and never before that of
	// the line before it. It is zero for living entries: the log assigns it.
	CreatedAt time.Time
	// Data is the entry's JSON object in canonical form. The caller owns it.
	Data []byte
}

// AppendNDJSON appends the line as the log reads it, with its line feed, and
// without created_at when that is zero.
func (l Line) AppendNDJSON(b []byte) []byte {
	b = append(b, `{"workspace_id":`...)
	b = appendText(b, l.WorkspaceID)
	b = append(b, `,"id":`...)
	b = appendText(b, l.ID)
	b = append(b, `,"type":`...)
	b = appendText(b, l.Type)
	if !l.CreatedAt.IsZero() {
		b = append(b, `,"created_at":"`...)
		b = appendInstant(b, l.CreatedAt.UnixMilli())
		b = append(b, '"')
	}
	b = append(b, `,"data":`...)
	b = append(b, l.Data...)
	return append(b, '}', '\n')
}
