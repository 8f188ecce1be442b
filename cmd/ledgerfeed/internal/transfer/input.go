package transfer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// source is a file of NDJSON that can be read more than once.
type source struct {
	name string // for messages
	file *os.File
}

// standardInput is its name for messages.
const standardInput = "standard input"

var errLongLine = fmt.Errorf("the entry is longer than %d bytes", domain.MaxEntrySize)

// errMark: the beginning of the input may have a mark, which is skipped.
var errMark = errors.New("the line begins with a byte order mark (EF BB BF), which only the beginning of the input may have: remove it; joining files of Windows editors leaves it between them")

// checkShape looks at the first line of an input, and refuses one that does not have an entry in each
// line. One error that says how to convert it is clearer than an error for each line.
func checkShape(name string, first []byte) error {
	var is, do string
	switch first = bytes.TrimSpace(first); {
	case bytes.HasPrefix(first, []byte{0x1f, 0x8b}):
		is, do = "is compressed: unpack it first", "gunzip -c FILE"
	case bytes.HasPrefix(first, []byte{'['}):
		is, do = "is a JSON array: want one entry in each line", "jq -c '.[]' FILE"
	case bytes.Equal(first, []byte{'{'}):
		is, do = "has JSON over several lines: want one entry in each line", "jq -c . FILE"
	default:
		return nil
	}
	return fmt.Errorf("%s %s, as with %s | ledgerfeed append", name, is, do)
}

// each calls do with every line that is not blank, and its number from 1. For a
// line that is longer than an entry may be it passes an error instead.
func (s *source) each(ctx context.Context, do func(number int, line []byte, err error) error) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("cannot read %s: %w (give a pipe on standard input)", s.name, err)
	}
	return eachLine(ctx, s.name, s.file, do)
}

func eachLine(ctx context.Context, name string, in io.Reader, do func(number int, line []byte, err error) error) error {
	reader := bufio.NewReaderSize(texts.NewReader(in), domain.MaxLineSize+2) // and the end of the line
	begun := false
	for number := 1; ; number++ {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		line, err := reader.ReadSlice('\n')
		if !begun && len(bytes.TrimSpace(line)) > 0 {
			begun = true
			if serr := checkShape(name, line); serr != nil {
				return serr
			}
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			if derr := do(number, nil, errLongLine); derr != nil {
				return derr
			}
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = reader.ReadSlice('\n')
			}
			line = nil
		}
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return fmt.Errorf("cannot read %s, line %d: %w", name, number, err)
		}
		if line = bytes.TrimRight(line, "\r\n"); len(bytes.TrimSpace(line)) > 0 {
			var fault error
			if bytes.HasPrefix(line, []byte(texts.ByteOrderMark)) {
				line, fault = nil, errMark
			}
			if derr := do(number, line, fault); derr != nil {
				return derr
			}
		}
		if end {
			return nil
		}
	}
}

// openSources opens the files. Standard input, which can be read only once, is
// copied into a file first.
func openSources(names []string, in io.Reader) (sources []*source, closeAll func(), err error) {
	closeAll = func() {
		for _, s := range sources {
			_ = s.file.Close()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	if len(names) == 0 {
		file, err := copyToFile(in)
		if err != nil {
			return nil, closeAll, err
		}
		sources = append(sources, &source{name: standardInput, file: file})
		return sources, closeAll, nil
	}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return sources, closeAll, err
		}
		sources = append(sources, &source{name: name, file: file})
	}
	return sources, closeAll, nil
}

func copyToFile(in io.Reader) (_ *os.File, err error) {
	file, err := os.CreateTemp("", "ledgerfeed-append-*.ndjson")
	if err != nil {
		return nil, fmt.Errorf("cannot keep standard input until it is checked: %w", err)
	}
	_ = os.Remove(file.Name()) // the file exists as long as it is open
	if _, err := io.Copy(file, in); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot read standard input: %w", err), file.Close())
	}
	return file, nil
}

// numbered is a line of a source.
type numbered struct {
	source string
	number int
	draft  domain.Draft
	made   bool // the line has no id; that of the draft was made for it
}

func (n *numbered) String() string { return fmt.Sprintf("%s, line %d", n.source, n.number) }
