package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"
)

// Page is a part of a list.
type Page[T any] struct {
	Rows []T
	// Removed are rows that were deleted or that the key may no longer see. Only followers and
	// lists with IncludeRemoved have them. A page has each id once, here or in Rows.
	Removed []RemovedRow

	Cursor   string // goes on after this page
	More     bool   // there are rows after this page now
	Position int64  // the position of the log that the page shows

	// Restarted says why a follower has begun again before this page; nil: it has not. Empty your
	// copy of the list before you take this page over: not all rows of the copy come again.
	Restarted *Error

	held bool // the API held the answer, or would have
}

// errSameCursor is the error of a list that would never end.
var errSameCursor = errors.New("the page says that there is more, but its cursor is the one with which it was asked for")

// readPage reads the page after a cursor.
func readPage[T any](ctx context.Context, c *Client, path string, query url.Values, cursor string, wait time.Duration) (*Page[T], error) {
	if cursor != "" {
		query.Set("cursor", cursor)
	} else {
		query.Del("cursor")
	}
	a, err := c.do(ctx, &request{path: path, query: query, wait: wait})
	if err != nil {
		return nil, err
	}
	var body struct {
		Data       []json.RawMessage `json:"data"`
		HasMore    *bool             `json:"has_more"`
		NextCursor *string           `json:"next_cursor"`
	}
	if err := json.Unmarshal(a.body, &body); err != nil {
		return nil, fmt.Errorf("read a page of %s: %w", path, err)
	}
	if body.HasMore == nil || body.NextCursor == nil {
		return nil, fmt.Errorf("read a page of %s: has_more or next_cursor is missing", path)
	}
	p := &Page[T]{Cursor: *body.NextCursor, More: *body.HasMore, held: a.header.Get("Preference-Applied") != ""}
	if p.More && p.Cursor == cursor {
		return nil, fmt.Errorf("read a page of %s: %w", path, errSameCursor)
	}
	p.Position = a.position()
	for _, text := range body.Data {
		row, removed, err := readRow[T](text)
		if err != nil {
			return nil, fmt.Errorf("read a row of %s: %w", path, err)
		}
		if removed != nil {
			p.Removed = append(p.Removed, *removed)
		} else {
			p.Rows = append(p.Rows, *row)
		}
	}
	return p, nil
}

// readRow reads a row, or a removed one.
func readRow[T any](text []byte) (*T, *RemovedRow, error) {
	row := new(T)
	if raw, ok := any(row).(*RawRow); ok {
		if !json.Valid(text) {
			return nil, nil, fmt.Errorf("%q is not JSON", text)
		}
		*raw = text
		return row, nil, nil
	}
	if bytes.Contains(text, []byte(`"removed"`)) { // most rows are read only once
		var gone RemovedRow
		if err := json.Unmarshal(text, &gone); err == nil && gone.Removed {
			return nil, &gone, nil
		}
	}
	return row, nil, json.Unmarshal(text, row) //nolint:wrapcheck // the caller names the list
}

// pages reads a list from its start to its end.
func pages[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[*Page[T], error] {
	return func(yield func(*Page[T], error) bool) {
		for cursor := ""; ; {
			p, err := readPage[T](ctx, c, path, query, cursor, 0)
			if !yield(p, err) || err != nil || !p.More {
				return
			}
			cursor = p.Cursor
		}
	}
}

// rows reads a list from its start to its end, in the fewest requests if the caller has no wish.
func rows[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[*T, error] {
	if !query.Has("limit") {
		query.Set("limit", "100")
	}
	return func(yield func(*T, error) bool) {
		for p, err := range pages[T](ctx, c, path, query) {
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range p.Rows {
				if !yield(&p.Rows[i], nil) {
					return
				}
			}
		}
	}
}
