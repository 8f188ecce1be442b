// Package transfer has the commands that move entries into the log and out of it
// as NDJSON: append and export.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// AppendCommand is ledgerfeed append.
func AppendCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "append [FILE…]",
		Short: "Append NDJSON entries to the log",
		Long: `Append entries to the log, one JSON object a line, from FILEs or standard
input. The form of every line is checked before anything is appended. What
depends on the log (an id with other content, the order of time) is checked as
it is appended: the first such line stops the command, what came before it
stays, and the same file can be run again.`,
		RunE: env.Run(func(ctx context.Context, files []string) error {
			sources, closeAll, err := openSources(files, env.In)
			if err != nil {
				return err
			}
			defer closeAll()
			if err := checkForms(ctx, sources, env.ErrOut); err != nil {
				return err
			}
			return env.WithDeps(ctx, func(d *cli.Deps) error {
				var count appendCount
				err := appendAll(ctx, d.Log, sources, &count)
				// Printed after a failure, too: what came before the failing line stays.
				return errors.Join(err, env.Print(count, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "appended %d, skipped %d\n", count.Appended, count.Skipped)
					return err
				}))
			})
		}),
	}
}

// openSources opens the files. Standard input, which can be read only once, is
// copied into a file first.
func openSources(names []string, in io.Reader) (sources []*source, closeAll func(), err error) {
	closeAll = func() {
		for _, s := range sources {
			_ = s.file.Close()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	if len(names) == 0 {
		file, err := copyToFile(in)
		if err != nil {
			return nil, closeAll, err
		}
		sources = append(sources, &source{name: "standard input", file: file})
		return sources, closeAll, nil
	}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return sources, closeAll, err
		}
		sources = append(sources, &source{name: name, file: file})
	}
	return sources, closeAll, nil
}

func copyToFile(in io.Reader) (_ *os.File, err error) {
	file, err := os.CreateTemp("", "ledgerfeed-append-*.ndjson")
	if err != nil {
		return nil, fmt.Errorf("cannot keep standard input until it is checked: %w", err)
	}
	_ = os.Remove(file.Name()) // the file exists as long as it is open
	if _, err := io.Copy(file, in); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot read standard input: %w", err), file.Close())
	}
	return file, nil
}

// maxReportedLines bounds how many bad lines are reported.
const maxReportedLines = 20

// checkForms checks the form of every line of every source, before anything is
// appended, and writes what is wrong to out.
func checkForms(ctx context.Context, sources []*source, out io.Writer) error {
	bad := 0
	for _, s := range sources {
		err := s.each(ctx, func(number int, line []byte, err error) error {
			if err == nil {
				_, err = domain.DecodeDraft(line)
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

// appendBatch is how many lines are appended in one transaction: enough that its
// commit costs little a line, few enough that other producers wait only briefly.
const appendBatch = 500

// appendCount is what append prints.
type appendCount struct {
	Appended int `json:"appended"`
	Skipped  int `json:"skipped"` // the log had them already
}

func appendAll(ctx context.Context, log *eventlog.Log, sources []*source, count *appendCount) error {
	for _, s := range sources {
		a := appender{log: log, source: s, count: count}
		if err := s.each(ctx, func(number int, line []byte, err error) error {
			if err != nil {
				return fmt.Errorf("%s, line %d changed since it was checked: %w", s.name, number, err)
			}
			return a.add(ctx, number, line)
		}); err != nil {
			return errors.Join(a.flush(ctx), err)
		}
		if err := a.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// appender appends the lines of a source in batches.
type appender struct {
	log     *eventlog.Log
	source  *source
	count   *appendCount
	drafts  []domain.Draft // the batch
	numbers []int          // of the batch's lines
}

func (a *appender) add(ctx context.Context, number int, line []byte) error {
	d, err := domain.DecodeDraft(line)
	if err != nil {
		return fmt.Errorf("%s, line %d changed since it was checked: %w", a.source.name, number, err)
	}
	a.drafts = append(a.drafts, d)
	a.numbers = append(a.numbers, number)
	if len(a.drafts) < appendBatch {
		return nil
	}
	return a.flush(ctx)
}

// flush appends the batch. When the log refuses a line of it, the lines before
// that one are appended.
func (a *appender) flush(ctx context.Context) error {
	drafts, numbers := a.drafts, a.numbers
	a.drafts, a.numbers = nil, nil
	if len(drafts) == 0 {
		return nil
	}
	receipts, err := a.log.Append(ctx, drafts...)
	var refused *eventlog.RefusedError
	if errors.As(err, &refused) {
		refused.ID = drafts[refused.Index].ID // empty if the line has none: the id made for it exists nowhere
		reason := fmt.Errorf("%s, line %d: %w", a.source.name, numbers[refused.Index], err)
		a.drafts, a.numbers = drafts[:refused.Index], numbers[:refused.Index]
		return errors.Join(a.flush(ctx), reason)
	}
	if err != nil {
		return fmt.Errorf("%s: lines %d to %d may or may not have been appended (the file can be run again): %w",
			a.source.name, numbers[0], numbers[len(numbers)-1], err)
	}
	for _, r := range receipts {
		if r.Skipped {
			a.count.Skipped++
		} else {
			a.count.Appended++
		}
	}
	return nil
}
