package localpg

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// tailSize is how much of a log an error quotes.
const tailSize = 3 << 10

// fileTail is the end of a text file, from offset start on at the earliest, in
// whole lines if possible. It serves error messages, so it never fails itself.
func fileTail(path string, start int64) string {
	f, err := os.Open(path)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "(" + err.Error() + ")"
	}
	from := max(start, info.Size()-tailSize)
	text, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	if from > start {
		if _, whole, ok := bytes.Cut(text, []byte("\n")); ok {
			text = whole
		}
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return "(nothing)"
	}
	return string(text)
}

// makeDirs makes a directory and those above that are missing, with this mode
// whatever the umask: another account may have to pass through.
func makeDirs(dir string, mode fs.FileMode) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := makeDirs(filepath.Dir(dir), mode); err != nil {
		return err
	}
	err := os.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}

// syncDir makes renames inside a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync a directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
