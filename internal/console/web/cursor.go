package web

import (
	"encoding/base64"
	"encoding/json"
	"errors"
)

// ErrCursor reports a cursor that does not belong to its list.
var ErrCursor = errors.New("the cursor is not one of this list")

// FormatCursor encodes a position, a plain struct, for a link.
func FormatCursor(position any) string {
	b, err := json.Marshal(position)
	if err != nil {
		return "" // not reached: positions are plain structs
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor decodes what FormatCursor made. The error is ErrCursor.
func ParseCursor[P any](cursor string) (*P, error) {
	p := new(P)
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(b, p) != nil {
		return nil, ErrCursor
	}
	return p, nil
}
