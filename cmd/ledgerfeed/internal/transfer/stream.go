package transfer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
	"github.com/ledgerfeed/ledgerfeed/internal/textfile"
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
		s := &streamer{env: env, log: d.Log, notify: d.Notify, restore: f.restore, create: f.create, out: bufio.NewWriter(env.Out), errOut: env.ErrOut, result: newAppendResult(&newWorkspaces{pool: d.Pool, errOut: env.ErrOut})}
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
	env     *cli.Env
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
		first := firstLines{}
		for i := range batch {
			w := batch[i].draft.WorkspaceID
			if _, known := s.result.Positions[w]; !known {
				first[w] = batch[i]
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
func (f *appendFlags) runCheck(ctx context.Context, env *cli.Env, files []string) error {
	sources, closeAll, err := openSources(files, env.In)
	if err != nil {
		return err
	}
	defer closeAll()
	return env.WithDeps(ctx, func(d *cli.Deps) error {
		c := &checker{trial: d.Log.NewTrial(f.create), report: &lineReport{out: env.ErrOut}, meter: &meter{verb: "check"}}
		stop := c.meter.show(env.ErrOut, cli.ProgressEvery)
		for _, s := range sources {
			if err = s.each(ctx, func(number int, line []byte, err error) error {
				n := numbered{source: s.name, number: number}
				if err == nil {
					n.draft, err = f.decode(line)
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
		if err != nil {
			return err
		}
		c.result.Refused = c.report.lines
		if err = env.Print(&c.result, c.result.text); err == nil && c.result.Refused > 0 {
			err = fmt.Errorf("%s would be refused%s", plural.Of(c.result.Refused, "line", "lines"), c.report.shown())
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

// lineReport writes what is wrong with lines, up to maxReportedLines of them.
type lineReport struct {
	out   io.Writer
	lines int
}

func (r *lineReport) add(n *numbered, wrong error) {
	if r.lines++; r.lines <= maxReportedLines {
		fmt.Fprintf(r.out, "%v: %v\n", n, wrong)
	}
}

// shown says how many of the lines were written.
func (r *lineReport) shown() string {
	if r.lines <= maxReportedLines {
		return ""
	}
	return fmt.Sprintf("; the first %d are shown", maxReportedLines)
}

// firstLines has the first line of each workspace of the input.
type firstLines map[string]numbered

func (f firstLines) add(n *numbered) {
	if _, there := f[n.draft.WorkspaceID]; !there {
		f[n.draft.WorkspaceID] = *n
	}
}

// refuseUnknown is an error where workspaces of the input do not exist, before anything is
// appended to others.
func (f firstLines) refuseUnknown(ctx context.Context, log *eventlog.Log, out io.Writer) error {
	unknown, err := log.Unknown(ctx, slices.Sorted(maps.Keys(f))...)
	if err != nil || len(unknown) == 0 {
		return err
	}
	report := &lineReport{out: out}
	for _, w := range unknown {
		n := f[w]
		report.add(&n, eventlog.UnknownWorkspace(w))
	}
	return fmt.Errorf("%s of the input %s not exist%s: make %s with ledgerfeed workspace create, or append with --create-workspace; nothing was appended",
		plural.Of(len(unknown), "workspace", "workspaces"), plural.Word(len(unknown), "does", "do"), report.shown(), plural.Word(len(unknown), "it", "them"))
}

// refuseElsewhere is an error where workspaces that the input would create are in another cell.
func (f firstLines) refuseElsewhere(ctx context.Context, env *cli.Env, log *eventlog.Log) error {
	if len(env.Cells) == 0 {
		return nil
	}
	unknown, err := log.Unknown(ctx, slices.Sorted(maps.Keys(f))...)
	if err != nil {
		return err
	}
	return env.NotElsewhere(ctx, unknown...)
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
		if line, err = textfile.Plain(text); err != nil {
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
	if f.given == 0 || !f.used {
		return fmt.Errorf("%w\nthe same input can be run again: what was appended is skipped", err)
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
