package wholelist

import (
	"fmt"
	"io"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// chunk is how much of a list is sent at once, in bytes.
const chunk = 64 << 10

// Writer writes the rows of a list to a stream, a chunk at a time.
type Writer struct {
	out     io.Writer
	form    answer.Form
	columns *Columns
	row     []byte
	buffer  []byte
}

// NewWriter makes a writer for a form. columns are the columns of CSV; nil for other forms.
func NewWriter(out io.Writer, form answer.Form, columns *Columns) *Writer {
	w := &Writer{out: out, form: form, columns: columns, buffer: make([]byte, 0, chunk+chunk/4)}
	if columns != nil {
		w.buffer = columns.AppendHeader(w.buffer)
	}
	return w
}

// Row adds a row. Its JSON is its fragments together with a closing brace. sent reports whether a
// chunk was sent. The error comes from the stream, or says that the row cannot be written.
func (w *Writer) Row(fragments [][]byte) (sent bool, err error) {
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
	if len(w.buffer) < chunk {
		return false, nil
	}
	return true, w.send()
}

// End writes what follows the last row, and sends what is left.
func (w *Writer) End(cursor string) error {
	if w.form == answer.NDJSON {
		w.buffer = append(w.buffer, `{"has_more":false,"next_cursor":"`...)
		w.buffer = append(w.buffer, cursor...) // base64
		w.buffer = append(w.buffer, "\"}\n"...)
	}
	return w.send()
}

func (w *Writer) send() error {
	_, err := w.out.Write(w.buffer)
	w.buffer = w.buffer[:0]
	if err != nil {
		return fmt.Errorf("send rows: %w", err)
	}
	return nil
}
