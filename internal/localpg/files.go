//go:build unix

package localpg

import (
	"bytes"
	"fmt"
	"os"

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
