package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/timespan"
)

// appendFlags are the flags of append.
type appendFlags struct {
	stream, restore, wait bool
	create                bool          // workspaces that do not exist
	trial                 bool          // append nothing
	timeout               timespan.Flag // of wait; 0: awaitTimeout
	ids                   string        // name of a file
}

// maxReportedLines bounds how many bad lines are reported.
const maxReportedLines = 20

// checkForms checks the form of every line of every source, before anything is
// appended, and that no line is ahead of now, the database's time. It writes what is wrong to
// out, and returns how many lines there are.
// first gets the first line of each workspace.
func (f *appendFlags) checkForms(ctx context.Context, sources []*source, now time.Time, out io.Writer, first firstLines) (lines int64, err error) {
	bad := &lineReport{out: out}
	checked := &meter{verb: "check"}
	stop := checked.show(out, cli.ProgressEvery)
	defer stop()
	for _, s := range sources {
		err := s.each(ctx, func(number int, line []byte, err error) error {
			checked.done.Add(1)
			n := numbered{source: s.name, number: number}
			if err == nil {
				n.draft, err = f.decode(line)
			}
			if err == nil && !f.restore && n.draft.CreatedAt.After(now.Add(eventlog.MaxAhead)) {
				err = fmt.Errorf("%w (now is %s)", eventlog.ErrAhead, domain.FormatTime(now))
			}
			if err != nil {
				bad.add(&n, err)
				return nil
			}
			first.add(&n)
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	switch bad.lines {
	case 0:
		return checked.done.Load(), nil
	case 1:
		return 0, errors.New("one line has a wrong form; nothing was appended")
	}
	return 0, fmt.Errorf("%d lines have a wrong form%s; nothing was appended", bad.lines, bad.shown())
}

var errNoExport = errors.New("the line has no id or no created_at: --restore takes an export as it is")

// decode reads a line and checks all that does not depend on the log.
func (f *appendFlags) decode(line []byte) (domain.Draft, error) {
	d, err := domain.DecodeDraft(line)
	switch {
	case err != nil:
		return d, err
	case f.restore && (d.ID == "" || d.CreatedAt.IsZero()):
		return d, errNoExport
	}
	return d, nil
}
