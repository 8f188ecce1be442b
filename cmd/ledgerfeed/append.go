package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

func (p *program) appendCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "append [FILE…]",
		Short: "Append NDJSON entries to the log",
		Long: `Append entries to the log, one JSON object a line, from FILEs or standard
input. The form of every line is checked before anything is appended. What
depends on the log (an id with other content, the order of time) is checked as
it is appended: the first such line stops the command, what came before it
stays, and the same file can be run again.`,
		RunE: p.run(func(ctx context.Context, files []string) error {
			sources, cleanUp, err := p.sources(files)
			if err != nil {
				return err
			}
			defer cleanUp()
			if err := p.checkForms(ctx, sources); err != nil {
				return err
			}
			return p.withLog(ctx, func(w *workbench) error { return p.appendSources(ctx, w.log, sources) })
		}),
	}
}

// sources opens the files; standard input, which can be read only once, is
// copied into a file first.
func (p *program) sources(names []string) (sources []*source, cleanUp func(), err error) {
	cleanUp = func() {
		for _, s := range sources {
			_ = s.file.Close()
		}
	}
	defer func() {
		if err != nil {
			cleanUp()
		}
	}()
	if len(names) == 0 {
		file, err := spool(p.in)
		if err != nil {
			return nil, cleanUp, err
		}
		sources = append(sources, &source{name: "standard input", file: file})
		return sources, cleanUp, nil
	}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return sources, cleanUp, err
		}
		sources = append(sources, &source{name: name, file: file})
	}
	return sources, cleanUp, nil
}

func spool(in io.Reader) (_ *os.File, err error) {
	file, err := os.CreateTemp("", "ledgerfeed-append-*.ndjson")
	if err != nil {
		return nil, fmt.Errorf("keep standard input until it is checked: %w", err)
	}
	_ = os.Remove(file.Name()) // it lives as long as it is open
	if _, err := io.Copy(file, in); err != nil {
		return nil, errors.Join(fmt.Errorf("read standard input: %w", err), file.Close())
	}
	return file, nil
}

// maxFaultyLines is how many bad lines are reported.
const maxFaultyLines = 20

// checkForms reads every line of every source and reports those whose form is
// wrong; nothing has been appended by then.
func (p *program) checkForms(ctx context.Context, sources []*source) error {
	faulty := 0
	for _, s := range sources {
		err := s.each(ctx, func(number int, line []byte, err error) error {
			if err == nil {
				_, err = domain.DecodeDraft(line)
			}
			if err == nil {
				return nil
			}
			faulty++
			if faulty <= maxFaultyLines {
				fmt.Fprintf(p.errOut, "%s, line %d: %v\n", s.name, number, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	switch {
	case faulty == 0:
		return nil
	case faulty > maxFaultyLines:
		return fmt.Errorf("%d lines have a wrong form, of which the first %d are shown; nothing was appended", faulty, maxFaultyLines)
	case faulty == 1:
		return errors.New("one line has a wrong form; nothing was appended")
	}
	return fmt.Errorf("%d lines have a wrong form; nothing was appended", faulty)
}

// appendBatch is how many lines are appended in one transaction: enough to
// make its cost small, few enough to hold no workspace up for long.
const appendBatch = 500

type appendCount struct {
	Appended int `json:"appended"`
	Skipped  int `json:"skipped"`
}

func (p *program) appendSources(ctx context.Context, log *eventlog.Log, sources []*source) error {
	var count appendCount
	err := func() error {
		for _, s := range sources {
			a := appending{log: log, source: s, count: &count}
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
	}()
	// Also after a failure: what came before the failing line stays.
	printErr := p.print(count, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "appended %d, skipped %d\n", count.Appended, count.Skipped)
		return err
	})
	return errors.Join(err, printErr)
}

// appending gathers lines of a source into batches.
type appending struct {
	log     *eventlog.Log
	source  *source
	count   *appendCount
	drafts  []domain.Draft
	numbers []int
}

func (a *appending) add(ctx context.Context, number int, line []byte) error {
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

// flush appends what was gathered. Of a batch with a line that the log
// refuses, what comes before that line is appended.
func (a *appending) flush(ctx context.Context) error {
	drafts, numbers := a.drafts, a.numbers
	a.drafts, a.numbers = nil, nil
	if len(drafts) == 0 {
		return nil
	}
	receipts, err := a.log.Append(ctx, drafts...)
	var refused *eventlog.RefusedError
	if errors.As(err, &refused) {
		refused.ID = drafts[refused.Index].ID // not one that was made for it and exists nowhere
		reason := fmt.Errorf("%s, line %d: %w", a.source.name, numbers[refused.Index], err)
		a.drafts, a.numbers = drafts[:refused.Index], numbers[:refused.Index]
		return errors.Join(a.flush(ctx), reason)
	}
	if err != nil {
		return fmt.Errorf("%s, lines %d to %d, of which it is not certain whether they were appended (the file can be run again): %w",
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
