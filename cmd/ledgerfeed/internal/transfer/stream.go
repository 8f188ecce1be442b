package transfer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// runStream appends lines as they come and answers them. Those that have come while
// others were being appended share a transaction.
func (f *appendFlags) runStream(ctx context.Context, env *cli.Env, files []string) error {
	return env.WithDeps(ctx, func(d *cli.Deps) error {
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
		s := &streamer{log: d.Log, notify: d.Notify, restore: f.restore, create: f.create, out: bufio.NewWriter(env.Out), errOut: env.ErrOut, result: newAppendResult(&newWorkspaces{pool: d.Pool, errOut: env.ErrOut})}
		hint, err := "", s.run(ctx, lines)
		if err == nil {
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
func (f *appendFlags) readLines(ctx context.Context, env *cli.Env, files []string, lines chan<- streamed) {
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

// collect waits for a line and returns it with those that have come with it. It
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
