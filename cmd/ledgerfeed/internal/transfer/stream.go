package transfer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// runStream appends lines as they come and answers them. Those that have come while
// others were being appended share a transaction.
func (f *appendFlags) runStream(ctx context.Context, env *operate.Env, files []string) error {
	return env.WithDeps(ctx, func(d *operate.Deps) error {
		if err := f.mayWait(ctx, d); err != nil {
			return err
		}
		reading, stop := context.WithCancel(ctx)
		defer stop()
		lines := make(chan streamed, appendBatch)
		go func() {
			defer close(lines)
			f.readLines(reading, env, files, lines)
		}()
		s := &streamer{env: env, log: d.Log, notify: d.Notify, restore: f.restore, create: f.create, out: bufio.NewWriter(env.Out), errOut: env.ErrOut, result: newAppendResult(&newWorkspaces{pool: d.Pool, errOut: env.ErrOut})}
		hint, err := "", s.run(ctx, lines)
		if err == nil { // the input has ended
			f.personal.warn(env.ErrOut)
			hint, err = f.countAnomalies(ctx, env, d, s.result)
		}
		err = errors.Join(err, s.result.text(env.ErrOut))
		fmt.Fprint(env.ErrOut, hint)
		return err
	})
}

// streamed is a line of the input, or why there is none.
type streamed struct {
	numbered
	err error
}

// readLines reads the lines of the input until it ends, a line is wrong, or ctx ends.
func (f *appendFlags) readLines(ctx context.Context, env *operate.Env, files []string, lines chan<- streamed) {
	send := func(s streamed) error {
		select {
		case lines <- s:
			return s.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	read := func(name string, in io.Reader) error {
		err := eachLine(ctx, name, in, func(number int, line []byte, err error) error {
			s := streamed{numbered: numbered{source: name, number: number}, err: err}
			if err == nil {
				s.draft, s.err = f.decode(bytes.Clone(line))
			}
			if s.err == nil && s.draft.ID == "" {
				s.made = true
				s.draft.ID, s.err = eventlog.NewID()
			}
			if s.err != nil {
				s.err = fmt.Errorf("%v: %w", &s.numbered, s.err)
			}
			return send(s)
		})
		if err != nil {
			_ = send(streamed{err: err}) // after the line's own error nobody reads it
		}
		return err
	}
	if len(files) == 0 {
		_ = read(standardInput, env.In)
		return
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			_ = send(streamed{err: err})
			return
		}
		err = read(name, file)
		_ = file.Close()
		if err != nil {
			return
		}
	}
}

// streamer appends lines and answers them.
type streamer struct {
	env     *operate.Env
	log     *eventlog.Log
	notify  func(context.Context) // running services, of what was appended
	restore bool
	create  bool // workspaces that do not exist
	out     *bufio.Writer
	errOut  io.Writer
	result  *appendResult
}

func (s *streamer) run(ctx context.Context, lines <-chan streamed) error {
	for {
		batch, end, err := collect(ctx, lines)
		batch, refused, err := s.existing(ctx, batch, err)
		end = end || refused
		receipts, aerr := appendLines(ctx, s.log, s.restore, s.result, batch)
		if aerr != nil && len(receipts) == 0 && !certain(aerr) {
			for i := range batch {
				fmt.Fprintf(s.errOut, "%v: not answered, of the id %s\n", &batch[i], batch[i].draft.ID)
			}
		}
		if err := errors.Join(aerr, s.answer(receipts), err); err != nil || end {
			return err
		}
		s.notify(ctx) // it may be long until the next line
	}
}

// existing cuts a batch before the first line of a workspace that does not exist, which stops the
// command. err is why the input ends with the batch.
func (s *streamer) existing(ctx context.Context, batch []numbered, err error) (_ []numbered, refused bool, _ error) {
	if s.create || s.restore {
		if len(s.env.Cells) == 0 {
			return batch, false, err
		}
		first := firstLines{}
		for i := range batch {
			if _, known := s.result.Positions[batch[i].draft.WorkspaceID]; !known {
				first.add(&batch[i])
			}
		}
		if err := first.refuseElsewhere(ctx, s.env, s.log); err != nil {
			return nil, true, err
		}
		return batch, false, err
	}
	at, reason, uerr := unknownAt(ctx, s.log, s.result.Positions, batch)
	switch {
	case uerr != nil:
		return nil, true, uerr
	case at >= 0:
		return batch[:at], true, reason
	}
	return batch, false, err
}

// collect waits for a line and returns it with the lines that have come with it. It
// returns end when there are no more.
func collect(ctx context.Context, lines <-chan streamed) (batch []numbered, end bool, err error) {
	select {
	case first, open := <-lines:
		if !open || first.err != nil {
			return nil, true, first.err
		}
		batch = append(batch, first.numbered)
	case <-ctx.Done():
		return nil, true, context.Cause(ctx)
	}
	for len(batch) < appendBatch {
		select {
		case next, open := <-lines:
			if !open || next.err != nil {
				return batch, true, next.err
			}
			batch = append(batch, next.numbered)
		default:
			return batch, false, nil
		}
	}
	return batch, false, nil
}

func (s *streamer) answer(receipts []eventlog.Receipt) error {
	for _, r := range receipts {
		if _, err := fmt.Fprintf(s.out, `{"id":%q,"position":%d}`+"\n", r.ID, r.Position); err != nil {
			return fmt.Errorf("cannot answer: %w", err)
		}
	}
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("cannot answer: %w", err)
	}
	return nil
}

// checkResult is what append --check prints.
type checkResult struct {
	WouldAppend int `json:"would_append"`
	WouldSkip   int `json:"would_skip"`
	Refused     int `json:"refused"` // lines of a wrong form, and lines that the log would refuse
}

func (r *checkResult) text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d would be appended, %d skipped, %d refused; nothing was appended\n", r.WouldAppend, r.WouldSkip, r.Refused)
	return err
}

// runCheck reports what an append would refuse.
func (f *appendFlags) runCheck(ctx context.Context, env *operate.Env, files []string) error {
	sources, closeAll, err := openSources(files, env.In)
	if err != nil {
		return err
	}
	defer closeAll()
	return env.WithDeps(ctx, func(d *operate.Deps) error {
		now, err := d.Log.Clock(ctx)
		if err != nil {
			return err
		}
		c := &checker{trial: d.Log.NewTrial(f.create), report: &lineReport{out: env.ErrOut}, meter: &meter{verb: "check"}}
		stop := c.meter.show(env.ErrOut)
		for _, s := range sources {
			if err = s.each(ctx, func(number int, line []byte, err error) error {
				n := numbered{source: s.name, number: number}
				if err == nil {
					n.draft, err = f.decode(line)
				}
				if err == nil {
					err = refuseAhead(&n.draft, now)
				}
				return c.add(ctx, n, err)
			}); err != nil {
				break
			}
		}
		if err == nil {
			err = c.flush(ctx)
		}
		stop()
		f.personal.warn(env.ErrOut)
		if err != nil {
			return err
		}
		c.result.Refused = c.report.lines
		if err = env.Print(&c.result, c.result.text); err == nil && c.result.Refused > 0 {
			err = fmt.Errorf("%s would be refused%s", texts.Count(c.result.Refused, "line", "lines"), c.report.shown())
		}
		return err
	})
}

// checker tries lines in batches, and reports them in their order.
type checker struct {
	trial  *eventlog.Trial
	report *lineReport
	meter  *meter
	result checkResult
	batch  []numbered
}

// add adds a line, or reports what is wrong with its form.
func (c *checker) add(ctx context.Context, n numbered, wrong error) error {
	c.meter.done.Add(1)
	if wrong != nil {
		if err := c.flush(ctx); err != nil {
			return err
		}
		c.report.add(&n, wrong)
		return nil
	}
	if c.batch = append(c.batch, n); len(c.batch) < appendBatch {
		return nil
	}
	return c.flush(ctx)
}

func (c *checker) flush(ctx context.Context) error {
	batch := c.batch
	c.batch = nil
	if len(batch) == 0 {
		return nil
	}
	drafts := make([]domain.Draft, len(batch))
	for i := range batch {
		drafts[i] = batch[i].draft
	}
	verdicts, err := c.trial.Append(ctx, drafts...)
	if err != nil {
		return err
	}
	for i, v := range verdicts {
		switch {
		case v.Refused != nil:
			c.report.add(&batch[i], v.Refused)
		case v.Skipped:
			c.result.WouldSkip++
		default:
			c.result.WouldAppend++
		}
	}
	return nil
}

// unknownAt is the index of the first line of a workspace that does not exist, with the reason;
// -1: there is none. Workspaces that known has exist.
func unknownAt(ctx context.Context, log *eventlog.Log, known map[string]int64, batch []numbered) (index int, reason error, err error) {
	first := map[string]int{}
	for i := range batch {
		w := batch[i].draft.WorkspaceID
		if _, there := known[w]; there {
			continue
		}
		if _, there := first[w]; !there {
			first[w] = i
		}
	}
	unknown, err := log.Unknown(ctx, slices.Sorted(maps.Keys(first))...)
	index = -1
	for _, w := range unknown {
		if index < 0 || first[w] < index {
			index = first[w]
			reason = fmt.Errorf("%v: %w: make it with ledgerfeed workspace create, or append with --create-workspace", &batch[index], eventlog.UnknownWorkspace(w))
		}
	}
	return index, reason, err
}
