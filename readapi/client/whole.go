package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
)

// ErrBrokenOff is the error of a whole list whose last line is missing, so rows are missing too.
// Read it again from its start.
var ErrBrokenOff = errors.New("the list was broken off before its end")

// lineBuffer is how much of a whole list is read at once, in bytes.
const lineBuffer = 64 << 10

// Whole is a whole list in one answer, as it was at one moment. It is streamed, so its length does
// not matter. The parameter Limit has no meaning for it.
type Whole[T any] struct {
	client   *Client
	path     string
	query    url.Values
	cursor   string
	position int64
	removed  []RemovedRow
}

// Cursor is known when Rows has ended without an error. A follower with the same parameters goes on
// from it. Followers include removed rows, so the whole list must have IncludeRemoved, if its
// parameters have that.
func (w *Whole[T]) Cursor() string { return w.cursor }

// Position is the position of the log that the list shows. It is known when the first row is.
func (w *Whole[T]) Position() int64 { return w.position }

// Removed are the rows that are no longer there. They are known when Rows has ended.
func (w *Whole[T]) Removed() []RemovedRow { return w.removed }

// Rows sends the request and reads the rows. Its last error is ErrBrokenOff if rows are missing.
func (w *Whole[T]) Rows(ctx context.Context) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		w.cursor, w.position, w.removed = "", 0, nil
		a, err := w.client.do(ctx, &request{path: w.path, query: w.query, stream: true})
		if err != nil {
			yield(nil, err)
			return
		}
		defer a.stream.Close()
		w.position = a.position()
		for lines := bufio.NewReaderSize(a.stream, lineBuffer); ; {
			row, err := w.next(lines)
			if row == nil && err == nil {
				return
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// next reads the next row. After the last line it returns neither a row nor an error.
func (w *Whole[T]) next(lines *bufio.Reader) (*T, error) {
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", w.path, ErrBrokenOff, err)
		}
		if cursor, ok := lastLine(line); ok {
			if _, err := lines.ReadByte(); !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("%s: %w: there is more after the last line", w.path, ErrBrokenOff)
			}
			w.cursor = cursor
			return nil, nil //nolint:nilnil // the end, as its docstring says
		}
		row, removed, err := readRow[T](line)
		if err != nil {
			return nil, fmt.Errorf("read a row of %s: %w", w.path, err)
		}
		if removed == nil {
			return row, nil
		}
		w.removed = append(w.removed, *removed)
	}
}

// lastLine reads the last line of a list; ok is false for a row.
func lastLine(line []byte) (cursor string, ok bool) {
	if !bytes.Contains(line, []byte(`"has_more"`)) { // most rows are read only once
		return "", false
	}
	var last struct {
		HasMore    *bool   `json:"has_more"`
		NextCursor *string `json:"next_cursor"`
	}
	if err := json.Unmarshal(line, &last); err != nil || last.HasMore == nil || last.NextCursor == nil {
		return "", false
	}
	return *last.NextCursor, true
}

// whole makes a Whole of the list at a path.
func whole[T any](c *Client, path string, query url.Values) *Whole[T] {
	query.Del("limit")
	return &Whole[T]{client: c, path: path + ".ndjson", query: query}
}
