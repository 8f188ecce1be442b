//go:build unix

package localpg

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// tailSize is how much of a log an error quotes, in bytes.
const tailSize = 3 << 10

// fileTail returns the end of a text file, but nothing before offset start. It is for error
// messages, so it never fails: if it cannot read the file, it returns the reason.
func fileTail(path string, start int64) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	text = text[min(start, int64(len(text))):]
	return string(bytes.TrimSpace(text[max(0, len(text)-tailSize):]))
}

// maxLogSize is the size, in bytes, above which a start renames the old log.
const maxLogSize = 8 << 20

// openLog opens the server's log for appending.
func openLog(dir *datadir.Dir) (*os.File, error) {
	if info, err := dir.Lstat(serverLogName); err == nil && info.Size() > maxLogSize {
		if err := dir.Rename(serverLogName, serverLogName+".1"); err != nil {
			return nil, fmt.Errorf("put the old log aside: %w", err)
		}
	}
	return dir.OpenFile(serverLogName, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
}

// leastFree is the space, in bytes, without which a disk counts as full. The server's log is on that
// disk too, so it may lack the line that says so.
const leastFree = 1 << 20

// explainDisk makes err, how the server ended or failed to start, a *DiskFullError if the disk is
// full. An err with another cause stays as it is.
func (p place) explainDisk(err error) error {
	var known *DiskFullError
	if errors.As(err, &known) {
		return known
	}
	free, unknown := datadir.Free(p.dir)
	told := errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "No space left on device") // in the log's end
	if told || unknown == nil && free < leastFree {
		return &DiskFullError{DataDir: p.dir, Free: free, Err: err}
	}
	return err
}
