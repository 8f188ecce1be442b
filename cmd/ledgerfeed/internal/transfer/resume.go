package transfer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// continueFile prepares an exported file for further entries and returns, by
// workspace, the position after the last entry that it holds. An unfinished last
// line is cut off.
func continueFile(ctx context.Context, file *os.File, log *eventlog.Log) (next map[string]int64, err error) {
	last, size, err := lastEntries(file)
	if err != nil {
		return nil, err
	}
	next = map[string]int64{}
	for workspaceID, id := range last {
		position, err := log.PositionOf(ctx, workspaceID, id)
		if err != nil {
			return nil, err
		}
		if position == 0 {
			return nil, fmt.Errorf("%s ends in %s with the entry %s, which this log does not have", file.Name(), workspaceID, id)
		}
		next[workspaceID] = position + 1
	}
	if err := file.Truncate(size); err != nil {
		return nil, fmt.Errorf("cannot cut off the unfinished line of %s: %w", file.Name(), err)
	}
	if _, err := file.Seek(size, io.SeekStart); err != nil {
		return nil, fmt.Errorf("cannot continue %s: %w", file.Name(), err)
	}
	return next, nil
}

// lastEntries returns the id of the last entry of each workspace in an exported
// file, and the length of its complete lines in bytes.
func lastEntries(file *os.File) (ids map[string]string, size int64, err error) {
	ids = map[string]string{}
	lines := bufio.NewReaderSize(file, 1<<20)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return ids, size, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("cannot read %s: %w", file.Name(), err)
		}
		var entry struct {
			WorkspaceID string `json:"workspace_id"`
			ID          string `json:"id"`
		}
		if err := json.Unmarshal(line, &entry); err != nil || entry.ID == "" {
			return nil, 0, fmt.Errorf("%s, line %d is not a line of an export", file.Name(), number)
		}
		ids[entry.WorkspaceID] = entry.ID
		size += int64(len(line))
	}
}

// readResume reads the next position of each workspace from the file of
// --resume, which does not exist before the first run. Without a name there is
// none.
func readResume(name string) (next map[string]int64, err error) {
	next = map[string]int64{}
	if name == "" {
		return next, nil
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return next, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &next); err != nil {
		return nil, fmt.Errorf("%s does not tell where to continue: %w", name, err)
	}
	if next == nil {
		return nil, fmt.Errorf("%s does not tell where to continue", name)
	}
	return next, nil
}

// writeResume writes the next position of each workspace to the file of
// --resume, if it has a name.
func writeResume(name string, next map[string]int64) error {
	if name == "" {
		return nil
	}
	text, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("cannot save where to continue: %w", err)
	}
	// A new file that is renamed, so that the old one is never half overwritten.
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("cannot save where to continue: %w", err)
	}
	return nil
}
