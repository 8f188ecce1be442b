package pages

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// scratchPattern names the directories of workbooks in the making, in the system's directory for
// temporary files (docs/operations/erasure.md).
const scratchPattern = "ledgerfeed-workbook-*"

// scratch is a directory for the temporary files of one workbook. Its lock ends with the process.
type scratch struct {
	name string
	lock *os.File
}

// newScratch makes a directory.
func newScratch() (*scratch, error) {
	for {
		name, err := os.MkdirTemp("", scratchPattern)
		if err != nil {
			return nil, fmt.Errorf("make a workbook: %w", err)
		}
		s, err := lockScratch(name)
		if err != nil {
			return nil, fmt.Errorf("make a workbook: %w", err)
		}
		// Another process that starts may have taken it for a dead one's.
		if _, err := os.Stat(name); err == nil && s != nil {
			return s, nil
		}
	}
}

// lockScratch locks a directory; nil: its process is alive, or it is gone or another user's.
func lockScratch(name string) (*scratch, error) {
	dir, err := os.Open(name) //nolint:gosec // a name of our own pattern
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil, nil //nolint:nilnil // it is gone, or another user's
	}
	if err != nil {
		return nil, err
	}
	locked, err := tryLock(dir)
	if locked {
		return &scratch{name, dir}, nil
	}
	_ = dir.Close()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return nil, nil //nolint:nilnil // another process has locked it
}

func (s *scratch) remove() {
	_ = os.RemoveAll(s.name)
	_ = s.lock.Close()
}

// ClearScratch removes what processes left that were killed while they made a workbook.
func ClearScratch() error {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), scratchPattern))
	for _, name := range left {
		s, fault := lockScratch(name)
		if err = errors.Join(err, fault); s != nil {
			s.remove()
		}
	}
	return err
}
