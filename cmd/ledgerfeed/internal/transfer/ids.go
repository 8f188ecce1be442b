package transfer

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// idFile keeps the ids that lines without one were given, so that the same input
// can be run again. It has a line for each of them, in the order of the input: the
// id and a checksum of the line. An earlier run's file is read first; when it ends,
// new ids are made and added. Without a name, the file is a temporary one that stays
// only after a failure, if the log may have some of the ids.
type idFile struct {
	name string // given by the user, or made

	temporary bool
	failed    bool
	given     int  // ids so far
	used      bool // the log may have some of them
	file      *os.File
	earlier   *bufio.Reader // nil when its end was reached
	read      int64         // bytes of whole lines
	out       *bufio.Writer
}

// next returns the id of the next line without one.
func (f *idFile) next(line []byte) (id string, err error) {
	if f.file == nil {
		if err := f.open(); err != nil {
			return "", err
		}
	}
	f.given++
	sum := sha256.Sum256(line)
	checksum := hex.EncodeToString(sum[:8])
	if f.earlier != nil {
		text, err := f.earlier.ReadBytes('\n')
		if err == nil {
			return f.match(text, checksum)
		}
		if !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("cannot read %s: %w", f.name, err)
		}
		if err := f.endEarlier(); err != nil {
			return "", err
		}
	}
	if id, err = eventlog.NewID(); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(f.out, "%s %s\n", id, checksum); err != nil {
		return "", fmt.Errorf("cannot write %s: %w", f.name, err)
	}
	return id, nil
}

func (f *idFile) open() (err error) {
	if f.name == "" {
		f.temporary = true
		f.file, err = os.CreateTemp("", "ledgerfeed-ids-*.txt")
	} else {
		f.file, err = os.OpenFile(f.name, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot keep the ids of lines without one: %w", err)
	}
	f.name = f.file.Name()
	f.earlier = bufio.NewReader(f.file)
	return nil
}

// match returns the id of a line of an earlier run's file, which an editor of Windows may have
// written again.
func (f *idFile) match(text []byte, checksum string) (id string, err error) {
	line := text
	if f.read == 0 {
		if line, err = texts.Plain(text); err != nil {
			return "", fmt.Errorf("%s: %w", f.name, err)
		}
	}
	f.read += int64(len(text))
	id, sum, _ := strings.Cut(strings.TrimRight(string(line), "\r\n"), " ")
	if !domain.IsID(id) || len(sum) != len(checksum) {
		return "", fmt.Errorf("%s is not a file that --ids wrote", f.name)
	}
	if sum != checksum {
		return "", fmt.Errorf("this is not the line that %s has an id for; give the input of the earlier run as it was, or another file", f.name)
	}
	return id, nil
}

// endEarlier begins to write. An unfinished last line is cut off.
func (f *idFile) endEarlier() error {
	f.earlier = nil
	if err := f.file.Truncate(f.read); err != nil {
		return fmt.Errorf("cannot continue %s: %w", f.name, err)
	}
	if _, err := f.file.Seek(f.read, io.SeekStart); err != nil {
		return fmt.Errorf("cannot continue %s: %w", f.name, err)
	}
	f.out = bufio.NewWriter(f.file)
	return nil
}

// sync puts the ids on the disk.
func (f *idFile) sync() error {
	if f.out == nil || f.out.Buffered() == 0 {
		return nil
	}
	err := f.out.Flush()
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", f.name, err)
	}
	return nil
}

// explain adds to the error of a run how to run the same input again.
func (f *idFile) explain(err error) error {
	again := "the same input can be run again"
	if errors.Is(err, eventlog.ErrBeforeNewest) {
		again = "leave created_at out of entries of now; append history before anything else, also before a webhook's test, or into another workspace; the corrected input can be run again"
	}
	if f.given == 0 || !f.used {
		return fmt.Errorf("%w\n%s: what was appended is skipped", err, again)
	}
	f.failed = true
	return fmt.Errorf("%w\neach line without an id was given one: run the same input again with --ids %s, which skips what was appended", err, f.name)
}

// close closes the file, and removes a temporary one that is not needed.
func (f *idFile) close() error {
	if f.file == nil {
		return nil
	}
	err := errors.Join(f.sync(), f.file.Close())
	if f.temporary && !f.failed {
		err = errors.Join(err, os.Remove(f.name))
	}
	return err
}
