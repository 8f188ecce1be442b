package wholelist

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// appendCell appends a cell (RFC 4180): strings as plain text, all other values as JSON, and
// nothing for null.
func (c *Columns) appendCell(b []byte, v *cell) ([]byte, error) {
	if len(v.json) == 0 {
		return b, nil
	}
	begin := len(b)
	if v.json[0] != '"' {
		b = append(b, v.json...)
	} else {
		var err error
		if b, err = appendText(b, v.json); err != nil {
			return b, err
		}
	}
	if c.plain && v.text {
		b = plain(b, begin)
	}
	return quote(b, begin), nil
}

// plain puts an apostrophe before text that a spreadsheet would take for a formula, which could
// send data away when the file is opened. It does so inside a cell, too, after characters that a
// spreadsheet may read as the end of a cell, such as semicolons and tabs.
func plain(b []byte, begin int) []byte {
	text := string(b[begin:])
	if !strings.ContainsAny(text, formulaStarts) {
		return b
	}
	b = b[:begin]
	starts := true // the start of a cell
	for _, r := range text {
		if starts && strings.ContainsRune(formulaStarts, r) {
			b = append(b, '\'')
		}
		b = utf8.AppendRune(b, r)
		starts = strings.ContainsRune(cellEnds, r) || starts && (r == ' ' || r == '"')
	}
	return b
}

const (
	formulaStarts = "=+-@＝＋－＠"
	cellEnds      = ";\t\r\n\u0085\u2028\u2029"
)

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
