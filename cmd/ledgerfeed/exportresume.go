package main

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
)

// intoFile exports into a file, after what it holds.
func (x *exporting) intoFile(ctx context.Context) (err error) {
	file, err := os.OpenFile(x.file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := x.goOnAfter(ctx, file); err != nil {
		return err
	}
	x.out = bufio.NewWriterSize(file, 1<<16)
	if err := x.run(ctx); err != nil {
		return errors.Join(err, x.out.Flush())
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// goOnAfter finds out what a file holds: the last entry of each workspace. A
// last line that was not finished is cut off.
func (x *exporting) goOnAfter(ctx context.Context, file *os.File) error {
	var (
		lines = bufio.NewReaderSize(file, 1<<20)
		whole int64 // bytes of complete lines
		last  = map[string]string{}
	)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read what %s holds: %w", x.file, err)
		}
		var name struct {
			WorkspaceID string `json:"workspace_id"`
			ID          string `json:"id"`
		}
		if err := json.Unmarshal(line, &name); err != nil || name.ID == "" {
			return fmt.Errorf("%s, line %d is not a line of an export", x.file, number)
		}
		last[name.WorkspaceID] = name.ID
		whole += int64(len(line))
	}
	for workspaceID, id := range last {
		position, err := x.log.PositionOf(ctx, workspaceID, id)
		if err != nil {
			return err
		}
		if position == 0 {
			return fmt.Errorf("%s ends in %s with the entry %s, which this log does not have", x.file, workspaceID, id)
		}
		x.next[workspaceID] = position + 1
	}
	if err := file.Truncate(whole); err != nil {
		return fmt.Errorf("cut off the unfinished line of %s: %w", x.file, err)
	}
	if _, err := file.Seek(whole, io.SeekStart); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// readResume reads where to go on; nothing, before the first time.
func (x *exporting) readResume() error {
	if x.resume == "" {
		return nil
	}
	text, err := os.ReadFile(x.resume)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &x.next); err != nil {
		return fmt.Errorf("%s does not say where to go on: %w", x.resume, err)
	}
	if x.next == nil {
		return fmt.Errorf("%s does not say where to go on", x.resume)
	}
	return nil
}

// keepResume keeps where to go on: the next position of each workspace.
func (x *exporting) keepResume() error {
	if x.resume == "" {
		return nil
	}
	text, err := json.Marshal(x.next)
	if err != nil {
		return fmt.Errorf("keep where to go on: %w", err)
	}
	// Beside it and renamed, so that it is never half written.
	file, err := os.CreateTemp(filepath.Dir(x.resume), filepath.Base(x.resume)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), x.resume)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("keep where to go on: %w", err)
	}
	return nil
}
