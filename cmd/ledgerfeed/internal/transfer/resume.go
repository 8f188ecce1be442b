package transfer

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/textfile"
)

// continueFile prepares an exported file for further entries and returns, by
// workspace, the Mark of the last entry that it holds. An unfinished last line is cut
// off. The file is folded, so that it continues only if the log has exactly its
// entries.
func continueFile(ctx context.Context, file *os.File, log *eventlog.Log) (written map[string]eventlog.Mark, err error) {
	last, size, err := foldFile(ctx, file, log)
	if err != nil {
		return nil, err
	}
	written = map[string]eventlog.Mark{}
	for workspaceID, e := range last {
		entry, err := log.EntryAt(ctx, workspaceID, e.Position)
		if err != nil {
			return nil, err
		}
		if entry == nil || entry.Chain != e.Chain {
			return nil, fmt.Errorf("%s has entries of %s, up to %s at position %d, that this log does not have in that order: "+
				"an older backup was restored, or a server without the last commits took over; export to another file", file.Name(), workspaceID, e.ID, e.Position)
		}
		written[workspaceID] = eventlog.NewMark(e.Position, e.Chain[:8])
	}
	if err := file.Truncate(size); err != nil {
		return nil, fmt.Errorf("cannot cut off the unfinished line of %s: %w", file.Name(), err)
	}
	if _, err := file.Seek(size, io.SeekStart); err != nil {
		return nil, fmt.Errorf("cannot continue %s: %w", file.Name(), err)
	}
	return written, nil
}

// foldFile returns the last entry of each workspace in an exported file, with the
// position and chain that follow from the file and from the first entry's place in the
// log, and the length of the complete lines in bytes.
func foldFile(ctx context.Context, file *os.File, log *eventlog.Log) (last map[string]*domain.Entry, size int64, err error) {
	last = map[string]*domain.Entry{}
	lines := bufio.NewReaderSize(file, 1<<20)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return last, size, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("cannot read %s: %w", file.Name(), err)
		}
		content := line
		if number == 1 {
			if content, err = textfile.Plain(line); err != nil {
				return nil, 0, fmt.Errorf("%s: %w", file.Name(), err)
			}
		}
		e, ok := exported(content)
		if !ok {
			return nil, 0, fmt.Errorf("%s, line %d is not a line of an export", file.Name(), number)
		}
		before := last[e.WorkspaceID]
		if before == nil {
			if before, err = entryBefore(ctx, log, e); err != nil {
				return nil, 0, fmt.Errorf("%s, line %d: %w", file.Name(), number, err)
			}
		}
		e.Position = before.Position + 1
		e.Chain = e.ChainAfter(before.Chain)
		last[e.WorkspaceID] = e
		size += int64(len(line))
	}
}

// exported reads a line of an export.
func exported(line []byte) (*domain.Entry, bool) {
	var fields struct {
		WorkspaceID string          `json:"workspace_id"`
		ID          string          `json:"id"`
		Type        string          `json:"type"`
		CreatedAt   string          `json:"created_at"`
		Data        json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(line, &fields); err != nil || fields.ID == "" {
		return nil, false
	}
	at, ok := domain.ParseTime(fields.CreatedAt)
	return &domain.Entry{WorkspaceID: fields.WorkspaceID, ID: fields.ID, Type: fields.Type, CreatedAt: at, Data: string(fields.Data)}, ok
}

// entryBefore returns the entry of the log before that with the id of e.
func entryBefore(ctx context.Context, log *eventlog.Log, e *domain.Entry) (*domain.Entry, error) {
	position, err := log.PositionOf(ctx, e.WorkspaceID, e.ID)
	if err != nil {
		return nil, err
	}
	switch position {
	case 0:
		return nil, fmt.Errorf("this log does not have the entry %s of %s", e.ID, e.WorkspaceID)
	case 1:
		return &domain.Entry{Chain: domain.Genesis(e.WorkspaceID)}, nil
	}
	before, err := log.EntryAt(ctx, e.WorkspaceID, position-1)
	if err == nil && before == nil {
		err = fmt.Errorf("this log does not have position %d of %s", position-1, e.WorkspaceID)
	}
	return before, err
}

// resumePoint is where an export continues in a workspace: after an entry, whose
// chain value begins with these bytes (hex).
type resumePoint struct {
	Position int64  `json:"position"`
	Chain    string `json:"chain"`
}

// readResume reads where to continue from the file of --resume, which does not exist
// before the first run. Without a name there is none.
func readResume(name string) (written map[string]eventlog.Mark, err error) {
	written = map[string]eventlog.Mark{}
	if name == "" {
		return written, nil
	}
	text, err := textfile.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return written, nil
	}
	if err != nil {
		return nil, err
	}
	var points map[string]resumePoint
	if err := json.Unmarshal(text, &points); err != nil || points == nil {
		return nil, fmt.Errorf("%s does not tell where to continue; remove it to export from the start (%w)", name, errors.Join(err, errNoResumePoint))
	}
	for workspaceID, p := range points {
		chain, err := hex.DecodeString(p.Chain)
		if err != nil || len(chain) != len(eventlog.Mark{}.Chain) || p.Position < 1 {
			return nil, fmt.Errorf("%s does not tell where to continue in %s; remove it to export from the start", name, workspaceID)
		}
		written[workspaceID] = eventlog.NewMark(p.Position, chain)
	}
	return written, nil
}

var errNoResumePoint = errors.New("it is not a file of --resume")

// writeResume writes where to continue to the file of --resume, if it has a name.
func writeResume(name string, written map[string]eventlog.Mark) error {
	if name == "" {
		return nil
	}
	points := make(map[string]resumePoint, len(written))
	for workspaceID, m := range written {
		points[workspaceID] = resumePoint{m.Position, hex.EncodeToString(m.Chain[:])}
	}
	text, err := json.Marshal(points)
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
