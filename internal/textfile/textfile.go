// Package textfile reads text that people wrote. Programs on Windows put a byte order mark before
// UTF-8, which says nothing and is skipped, or write UTF-16, which is named.
package textfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// ErrUTF16 says that a text is not UTF-8, and what to do.
var ErrUTF16 = errors.New("it is UTF-16: want UTF-8, as from iconv -f UTF-16 -t UTF-8")

// mark is the byte order mark in UTF-8.
const mark = "\ufeff"

// Plain returns a text without its byte order mark. The error is ErrUTF16.
func Plain(text []byte) ([]byte, error) {
	if isUTF16(text) {
		return nil, ErrUTF16
	}
	return bytes.TrimPrefix(text, []byte(mark)), nil
}

// isUTF16 tells by the beginning of a text: by its mark, or by a NUL among the first two bytes,
// which is half of an ASCII character in UTF-16. Text in UTF-8 has none.
func isUTF16(text []byte) bool {
	return bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff}) || len(text) >= 2 && (text[0] == 0) != (text[1] == 0)
}

// Read reads a file. The error names it.
func Read(name string) ([]byte, error) {
	text, err := os.ReadFile(name) //nolint:gosec // a file that the caller names
	if err != nil {
		return nil, err
	}
	if text, err = Plain(text); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// NewReader reads a text without its byte order mark. Reading ends with ErrUTF16.
func NewReader(in io.Reader) io.Reader { return &reader{in: in} }

type reader struct {
	in    io.Reader
	begun bool
}

func (r *reader) Read(p []byte) (int, error) {
	if !r.begun {
		r.begun = true
		start := bufio.NewReader(r.in)
		// One byte after the other: the next one of a pipe may be long in coming.
		for n := 1; n <= len(mark); n++ {
			first, err := start.Peek(n)
			if isUTF16(first) {
				return 0, ErrUTF16
			}
			if err != nil || !strings.HasPrefix(mark, string(first)) && n >= 2 {
				break
			}
			if n == len(mark) {
				_, _ = start.Discard(n) // they are in the buffer
			}
		}
		r.in = start
	}
	return r.in.Read(p) //nolint:wrapcheck // the reader's own
}
