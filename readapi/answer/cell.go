package answer

import (
	"bytes"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// appendCell appends a cell (RFC 4180): strings as plain text, all other values as JSON, and
// nothing for null.
func appendCell(b, value []byte) ([]byte, error) {
	if len(value) == 0 {
		return b, nil
	}
	begin := len(b)
	if value[0] != '"' {
		b = append(b, value...)
	} else {
		var err error
		if b, err = appendText(b, value); err != nil {
			return b, err
		}
	}
	return quote(b, begin), nil
}

func needsQuotes(text []byte) bool {
	if text[0] == ' ' || text[len(text)-1] == ' ' {
		return true
	}
	for _, c := range text {
		if c == ',' || c == '"' || c == '\r' || c == '\n' {
			return true
		}
	}
	return jsonform.EndsLine(text)
}

// AppendCell appends a text as a cell of a whole list (RFC 4180).
func AppendCell(b []byte, text string) []byte {
	begin := len(b)
	return quote(append(b, text...), begin)
}

// quote puts the cell that begins at begin into quotation marks, if it needs them.
func quote(b []byte, begin int) []byte {
	text := b[begin:]
	if len(text) == 0 || !needsQuotes(text) {
		return b
	}
	marks := bytes.Count(text, []byte{'"'})
	end := len(b)
	b = append(b, make([]byte, marks+2)...)
	at := len(b) - 1
	b[at] = '"'
	for i := end - 1; i >= begin; i-- { // backwards, in place
		at--
		b[at] = b[i]
		if b[i] == '"' {
			at--
			b[at] = '"'
		}
	}
	b[begin] = '"'
	return b
}
