package answer

import (
	"fmt"
	"io"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// listChunk is how much of a list is sent at once, in bytes.
const listChunk = 64 << 10

// ListWriter writes the rows of a list to a stream, a chunk at a time.
type ListWriter struct {
	out     io.Writer
	form    Form
	columns *Columns
	row     []byte
	buffer  []byte
}

// NewListWriter makes a writer for a form. columns are the columns of CSV; nil for other forms.
func NewListWriter(out io.Writer, form Form, columns *Columns) *ListWriter {
	w := &ListWriter{out: out, form: form, columns: columns, buffer: make([]byte, 0, listChunk+listChunk/4)}
	if columns != nil {
		w.buffer = columns.AppendHeader(w.buffer)
	}
	return w
}

// Row adds a row. Its JSON is its fragments together with a closing brace. sent reports whether a
// chunk was sent. The error comes from the stream, or says that the row cannot be written.
func (w *ListWriter) Row(fragments [][]byte) (sent bool, err error) {
	if w.columns == nil {
		begin := len(w.buffer)
		for _, f := range fragments {
			w.buffer = append(w.buffer, f...)
		}
		w.buffer = append(jsonform.EscapeLineEnds(w.buffer, begin), "}\n"...)
	} else {
		w.row = w.row[:0]
		for _, f := range fragments {
			w.row = append(w.row, f...)
		}
		w.row = append(w.row, '}')
		if w.buffer, err = w.columns.AppendRow(w.buffer, w.row); err != nil {
			return false, err
		}
	}
	if len(w.buffer) < listChunk {
		return false, nil
	}
	return true, w.send()
}

// End writes what follows the last row, and sends what is left.
func (w *ListWriter) End(cursor string) error {
	if w.form == NDJSON {
		w.buffer = append(w.buffer, `{"has_more":false,"next_cursor":"`...)
		w.buffer = append(w.buffer, cursor...) // base64
		w.buffer = append(w.buffer, "\"}\n"...)
	}
	return w.send()
}

func (w *ListWriter) send() error {
	_, err := w.out.Write(w.buffer)
	w.buffer = w.buffer[:0]
	if err != nil {
		return fmt.Errorf("send rows: %w", err)
	}
	return nil
}
