package texts

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// ErrUTF16 says that a text is UTF-16, as programs on Windows write it, and how to convert it.
var ErrUTF16 = errors.New("it is UTF-16: want UTF-8, as from iconv -f UTF-16 -t UTF-8")

// ByteOrderMark stands before UTF-8 that programs on Windows write. Readers here skip it.
const ByteOrderMark = "\ufeff"

// Plain returns a text without its byte order mark. The error is ErrUTF16.
func Plain(text []byte) ([]byte, error) {
	if isUTF16(text) {
		return nil, ErrUTF16
	}
	return bytes.TrimPrefix(text, []byte(ByteOrderMark)), nil
}

// isUTF16 looks at the beginning of a text: a byte order mark, or a NUL among the first two bytes,
// which is half of an ASCII character in UTF-16. UTF-8 text has no NUL there.
func isUTF16(text []byte) bool {
	return bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff}) || len(text) >= 2 && (text[0] == 0) != (text[1] == 0)
}

// ReadFile reads a file. The error names it.
func ReadFile(name string) ([]byte, error) {
	text, err := os.ReadFile(name) //nolint:gosec // a file that the caller names
	if err != nil {
		return nil, err
	}
	if text, err = Plain(text); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// NewReader returns a reader that skips the byte order mark. Reading UTF-16 fails with ErrUTF16.
func NewReader(in io.Reader) io.Reader { return &reader{in: in} }

type reader struct {
	in    io.Reader
	begun bool
}

func (r *reader) Read(p []byte) (int, error) {
	if !r.begun {
		r.begun = true
		start := bufio.NewReader(r.in)
		// Peek one byte at a time: the next byte of a pipe may be long in coming.
		for n := 1; n <= len(ByteOrderMark); n++ {
			first, err := start.Peek(n)
			if isUTF16(first) {
				return 0, ErrUTF16
			}
			if err != nil || !strings.HasPrefix(ByteOrderMark, string(first)) && n >= 2 {
				break
			}
			if n == len(ByteOrderMark) {
				_, _ = start.Discard(n) // they are in the buffer
			}
		}
		r.in = start
	}
	return r.in.Read(p) //nolint:wrapcheck // the reader's own
}
