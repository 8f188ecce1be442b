package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// appendFlags are the flags of append.
type appendFlags struct {
	stream, restore bool
	ids             string // name of a file
}

// maxReportedLines bounds how many bad lines are reported.
const maxReportedLines = 20

// checkForms checks the form of every line of every source, before anything is
// appended, and writes what is wrong to out.
func (f *appendFlags) checkForms(ctx context.Context, sources []*source, now time.Time, out io.Writer) error {
	bad := 0
	for _, s := range sources {
		err := s.each(ctx, func(number int, line []byte, err error) error {
			if err == nil {
				_, err = f.decode(line, now)
			}
			if err == nil {
				return nil
			}
			bad++
			if bad <= maxReportedLines {
				fmt.Fprintf(out, "%s, line %d: %v\n", s.name, number, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	switch {
	case bad == 0:
		return nil
	case bad > maxReportedLines:
		return fmt.Errorf("%d lines have a wrong form, of which the first %d are shown; nothing was appended", bad, maxReportedLines)
	case bad == 1:
		return errors.New("one line has a wrong form; nothing was appended")
	}
	return fmt.Errorf("%d lines have a wrong form; nothing was appended", bad)
}

var errNoExport = errors.New("the line has no id or no created_at: --restore takes an export as it is")

// decode reads a line and checks all that does not depend on the log.
func (f *appendFlags) decode(line []byte, now time.Time) (domain.Draft, error) {
	d, err := domain.DecodeDraft(line)
	switch {
	case err != nil:
		return d, err
	case f.restore && (d.ID == "" || d.CreatedAt.IsZero()):
		return d, errNoExport
	case !f.restore && d.CreatedAt.After(now.Add(eventlog.MaxAhead)):
		return d, fmt.Errorf("%w (now is %s)", eventlog.ErrAhead, domain.FormatTime(now))
	}
	return d, nil
}
