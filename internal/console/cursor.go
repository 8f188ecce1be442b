package console

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"
)

// errCursor means that a page's cursor does not belong to its list.
var errCursor = errors.New("the cursor is not one of this list")

// endOfTime is later than every moment that a list can hold.
func endOfTime() time.Time { return time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC) }

// formatCursor encodes a position, a plain struct, for a link.
func formatCursor(position any) string {
	b, err := json.Marshal(position)
	if err != nil {
		return "" // not reached: positions are plain structs
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor decodes what formatCursor made. The error is errCursor.
func parseCursor[P any](cursor string) (*P, error) {
	p := new(P)
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(b, p) != nil {
		return nil, errCursor
	}
	return p, nil
}
