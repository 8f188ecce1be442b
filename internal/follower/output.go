package follower

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Output takes the events in order, a page at a time. Once Write has returned, they are safe and
// the follower saves its place.
type Output interface {
	// Write hands events on. It returns the mark of a file, or nil for any other output.
	Write(ctx context.Context, events []json.RawMessage) (*Mark, error)
}

// Mark is how far a file has been written.
type Mark struct {
	Bytes int64  `json:"bytes"`
	Tail  string `json:"tail_sha256"` // hex, of the last 4 KiB before that point
}

// tailSize is how many bytes of a file are compared before writing continues.
const tailSize = 4096

// Lines writes each event as a line, for a pipe or a terminal. After a crash, the last page
// is written again.
type Lines struct{ To io.Writer }

// Write writes the lines.
func (l Lines) Write(_ context.Context, events []json.RawMessage) (mark *Mark, err error) {
	if _, err := l.To.Write(inLines(events)); err != nil {
		return nil, fmt.Errorf("cannot write events: %w", err)
	}
	return mark, nil // only a file has one
}

func inLines(events []json.RawMessage) []byte {
	var b bytes.Buffer
	for _, event := range events {
		b.Write(event)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// File is a file with one event per line.
type File struct {
	file *os.File
	size int64
}

// OpenFile opens a file at the mark of the state, nil for a new file. It cuts off what an earlier
// run wrote after the mark and before it could save its place. The error says that the file does
// not belong to the state.
func OpenFile(name string, mark *Mark) (_ *File, err error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the file that the caller names
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	f := &File{file: file}
	if mark == nil {
		if info.Size() > 0 {
			return nil, fmt.Errorf("%s is not empty, and the state does not say how far it was written: want a new file, or the state that belongs to it", name)
		}
		return f, syncFolder(filepath.Dir(name))
	}
	f.size = mark.Bytes
	have, err := f.Mark()
	if info.Size() < mark.Bytes || err != nil || *have != *mark {
		return nil, fmt.Errorf("%s is not the file that the state is of: what it had up to byte %d has been changed or cut off", name, mark.Bytes)
	}
	if info.Size() > mark.Bytes {
		if err := file.Truncate(mark.Bytes); err != nil {
			return nil, fmt.Errorf("cannot cut off what was not finished: %w", err)
		}
	}
	return f, nil
}

// Write appends the events as lines and syncs the file.
func (f *File) Write(_ context.Context, events []json.RawMessage) (*Mark, error) {
	lines := inLines(events)
	_, err := f.file.WriteAt(lines, f.size)
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write events: %w", err)
	}
	f.size += int64(len(lines))
	return f.Mark()
}

// Mark returns the mark of the file's end.
func (f *File) Mark() (*Mark, error) {
	tail := make([]byte, min(f.size, tailSize))
	if _, err := f.file.ReadAt(tail, f.size-int64(len(tail))); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(tail)
	return &Mark{f.size, hex.EncodeToString(sum[:])}, nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// Command hands events to a shell command. The command gets a page as lines on its standard input,
// and exits with status 0 once they are safe. After a crash, it gets the last page again.
type Command struct {
	Line        string
	Env         []string
	Out, ErrOut io.Writer
}

// Write runs the command.
func (c *Command) Write(ctx context.Context, events []json.RawMessage) (mark *Mark, err error) {
	run := exec.CommandContext(ctx, "sh", "-c", c.Line) //nolint:gosec // it is what the caller asked for
	run.Env, run.Stdin, run.Stdout, run.Stderr = c.Env, bytes.NewReader(inLines(events)), c.Out, c.ErrOut
	if err := run.Run(); err != nil {
		return nil, fmt.Errorf("the command did not take the events, which come again with the next start: %w", err)
	}
	return mark, nil // only a file has one
}
