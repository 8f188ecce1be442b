// Package transfer has the commands that move entries into the log and out of it
// as NDJSON: append and export.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
)

// AppendCommand is ledgerfeed append.
func AppendCommand(env *operate.Env) *cobra.Command {
	var f appendFlags
	c := &cobra.Command{
		Use:   "append [FILE…]",
		Short: "Append NDJSON entries to the log",
		Long: `Append entries to the log, one JSON object a line, from FILEs or standard input. Before it
appends anything, the command checks the form of every line, and that no created_at is
more than 5 minutes ahead. Other checks need the log: an id with other content, the order
of time. The command makes these checks as it appends. The first line that fails stops the
command, and the lines before it stay.

You can run the same input again: the command skips lines that the log has. It gives an id
to a line without one, and would give another id in the next run. So after a failure it
leaves these ids in a file, which the error names. Run the same input again with --ids and
that file.

With --stream, the command appends each line as it comes, until the input ends. As soon as
PostgreSQL commits a line, the command prints its id and position on standard output. The
first line that is wrong or refused stops the command.

With --restore, the input is an export, whose times may be ahead of now. The workspaces
must be empty or hold the beginning of the export.

The command refuses a workspace that does not exist: a mistyped workspace_id would make
one, and entries are never removed. With --create-workspace, or
LEDGERFEED_CREATE_WORKSPACES=true, the first entry creates the workspace, and append says
so. --restore creates the workspaces of its export.

With --forgotten, the input is the list that ledgerfeed person forget keeps. After an older
backup was restored, append forgets these people again.

With --check, append reports the lines that it would refuse, because of their form or
because of the log. It appends nothing. ledgerfeed types shows which entries it takes.

An entry that has no effect, or not all of it, is an anomaly. At the end, append says how
many of its entries are anomalies. Without --wait, it says so only if the projector
handles the entries within a moment. With --wait, it returns when the projector has
handled all entries of the input. It fails if this takes longer than --timeout. Even then,
the entries are in the log.`,
		RunE: env.Run(func(ctx context.Context, files []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if f.forgotten {
				return f.runForgotten(ctx, env, files)
			}
			f.create = f.create || env.Settings.CreateWorkspaces
			if f.trial {
				return f.runCheck(ctx, env, files)
			}
			ctx = tracing.FromEnvironment(ctx)
			if f.stream {
				return f.runStream(ctx, env, files)
			}
			return f.run(ctx, env, files)
		}),
	}
	c.Flags().BoolVar(&f.stream, "stream", false, "append each line as it comes, and answer with its id and position")
	c.Flags().BoolVar(&f.restore, "restore", false, "append an export as it is; its times may be ahead of now")
	c.Flags().BoolVar(&f.create, "create-workspace", false, "create workspaces that do not exist")
	c.Flags().BoolVar(&f.trial, "check", false, "report the lines that append would refuse, and append nothing")
	c.Flags().BoolVar(&f.forgotten, "forgotten", false, "after an older backup was restored: forget again who is in the list that person forget keeps")
	c.Flags().StringVar(&f.ids, "ids", "", "a file of ids for lines without one: reads the ids that an earlier run gave, and adds the ids that this run gives")
	c.Flags().BoolVar(&f.wait, "wait", false, "return when the projector has handled the entries")
	c.Flags().Var(&f.timeout, "timeout", "with --wait: fail after this time (default 1m)")
	return c
}

// appendFlags are the flags of append.
type appendFlags struct {
	stream, restore, wait bool
	create                bool               // workspaces that do not exist
	trial                 bool               // append nothing
	forgotten             bool               // the input is a list of person forget
	timeout               texts.DurationFlag // of wait; 0: awaitTimeout
	ids                   string             // name of a file

	personal personalIDs // of the lines read so far
}

// personalIDs counts lines with ids that look like people.
type personalIDs struct {
	lines int
	first string
}

// warn says on standard error that ids look like people.
func (p *personalIDs) warn(out io.Writer) {
	if p.lines > 0 {
		fmt.Fprintf(out, "warning: %s an id or a number that looks like a name, an email address or a telephone number, such as %s. "+
			"Ids and numbers are shown for ever, also when the person is forgotten (docs/operations/erasure.md)\n", texts.Count(p.lines, "line has", "lines have"), p.first)
	}
}

// check checks flags that depend on each other.
func (f *appendFlags) check() error {
	switch {
	case f.stream && f.ids != "":
		return cli.Usagef("--ids is not for --stream, which answers every line with its id")
	case f.trial && (f.stream || f.restore || f.wait || f.ids != ""):
		return cli.Usagef("--check appends nothing: it does not go with --stream, --restore, --wait or --ids")
	case f.forgotten && (f.stream || f.restore || f.wait || f.trial || f.create || f.ids != ""):
		return cli.Usagef("--forgotten goes with no other flag of append")
	case f.restore && f.create:
		return cli.Usagef("--restore makes the workspaces of its export: leave out --create-workspace")
	case f.timeout != 0 && !f.wait:
		return cli.Usagef("--timeout is for --wait")
	case f.timeout < 0:
		return cli.Usagef("--timeout is %s: want a time above 0", time.Duration(f.timeout))
	}
	return nil
}

// run appends what is checked as a whole before.
func (f *appendFlags) run(ctx context.Context, env *operate.Env, files []string) (err error) {
	sources, closeAll, err := openSources(files, env.In)
	if err != nil {
		return err
	}
	defer closeAll()
	ids := &idFile{name: f.ids}
	defer func() { err = errors.Join(err, ids.close()) }()
	return env.WithDeps(ctx, func(d *operate.Deps) error {
		now, err := d.Log.Clock(ctx)
		if err != nil {
			return err
		}
		first := firstLines{}
		lines, err := f.checkForms(ctx, sources, now, env.ErrOut, first)
		if err != nil {
			return err
		}
		if err := f.mayWait(ctx, d); err != nil {
			return err
		}
		if f.create || f.restore {
			err = first.refuseElsewhere(ctx, env, d.Log)
		} else {
			err = first.refuseUnknown(ctx, d.Log, env.ErrOut)
		}
		if err != nil {
			return err
		}
		a := &appender{log: d.Log, restore: f.restore, ids: ids, result: newAppendResult(&newWorkspaces{pool: d.Pool, errOut: env.ErrOut}), meter: &meter{verb: "append", total: lines}}
		stop := a.meter.show(env.ErrOut)
		err = a.appendAll(ctx, sources)
		stop()
		f.personal.warn(env.ErrOut)
		hint := ""
		if err != nil {
			err = ids.explain(err)
		} else {
			hint, err = f.countAnomalies(ctx, env, d, a.result)
		}
		// Printed after a failure, too: what came before the failing line stays.
		err = errors.Join(err, env.Print(a.result, a.result.text))
		fmt.Fprint(env.ErrOut, hint)
		return err
	})
}

// appendBatch is how many lines are appended in one transaction: enough that its
// commit costs little a line, few enough that other producers wait only briefly.
const appendBatch = 500

// appender appends lines in batches.
type appender struct {
	log     *eventlog.Log
	restore bool
	ids     *idFile
	result  *appendResult
	meter   *meter

	batch []numbered
}

func (a *appender) appendAll(ctx context.Context, sources []*source) error {
	for _, s := range sources {
		if err := s.each(ctx, func(number int, line []byte, err error) error {
			if err != nil {
				return fmt.Errorf("%s, line %d changed since it was checked: %w", s.name, number, err)
			}
			return a.add(ctx, s.name, number, line)
		}); err != nil {
			return errors.Join(a.flush(ctx), err)
		}
	}
	return a.flush(ctx)
}

func (a *appender) add(ctx context.Context, source string, number int, line []byte) error {
	d, err := domain.DecodeDraft(line)
	if err != nil {
		return fmt.Errorf("%s, line %d changed since it was checked: %w", source, number, err)
	}
	n := numbered{source: source, number: number, draft: d}
	if d.ID == "" {
		n.made = true
		if n.draft.ID, err = a.ids.next(line); err != nil {
			return fmt.Errorf("%v: %w", &n, err)
		}
	}
	a.batch = append(a.batch, n)
	if len(a.batch) < appendBatch {
		return nil
	}
	return a.flush(ctx)
}

// flush appends the batch. The ids that were given to its lines are on the disk
// before the log can have them.
func (a *appender) flush(ctx context.Context) error {
	batch := a.batch
	a.batch = nil
	if len(batch) == 0 {
		return nil
	}
	if err := a.ids.sync(); err != nil {
		return err
	}
	receipts, err := appendLines(ctx, a.log, a.restore, a.result, batch)
	a.meter.done.Add(int64(len(receipts)))
	if len(receipts) > 0 || err != nil && !certain(err) {
		a.ids.used = true
	}
	return err
}

// appendLines appends lines in one transaction, adds them to the result, and returns
// their receipts. When the log refuses one, the lines before it are appended.
func appendLines(ctx context.Context, log *eventlog.Log, restore bool, result *appendResult, batch []numbered) ([]eventlog.Receipt, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	drafts := make([]domain.Draft, len(batch))
	for i := range batch {
		drafts[i] = batch[i].draft
	}
	absent := result.created.absent(ctx, drafts, result.Positions)
	var receipts []eventlog.Receipt
	var err error
	if restore {
		receipts, err = log.Restore(ctx, result.following(drafts), drafts...)
	} else {
		receipts, err = log.Append(ctx, drafts...)
	}
	if refused, ok := errors.AsType[*eventlog.RefusedError](err); ok {
		if batch[refused.Index].made {
			refused.ID = "" // it exists nowhere
		}
		reason := fmt.Errorf("%v: %w", &batch[refused.Index], err)
		receipts, err = appendLines(ctx, log, restore, result, batch[:refused.Index])
		return receipts, errors.Join(err, reason)
	}
	if err != nil {
		became := errUnknownOutcome
		if certain(err) {
			became = errNotAppended
		}
		return nil, fmt.Errorf("%v to %v %w: %w", &batch[0], &batch[len(batch)-1], became, err)
	}
	for i, r := range receipts {
		w := drafts[i].WorkspaceID
		if r.Skipped {
			result.Skipped++
		} else {
			result.Appended++
			result.spans.add(w, r.Position)
			result.created.note(r, w, absent)
		}
		result.Positions[w] = max(result.Positions[w], r.Position)
	}
	return receipts, nil
}

// What became of lines, for the error of their append.
var (
	errUnknownOutcome = errors.New("may or may not have been appended")
	errNotAppended    = errors.New("were not appended")
)

// certain reports whether nothing was appended. An unknown outcome of the lines before
// one that the log refused is joined with the refusal.
func certain(err error) bool {
	if errors.Is(err, errUnknownOutcome) {
		return false
	}
	_, diverged := errors.AsType[*eventlog.DivergedError](err)
	return diverged || eventlog.Certain(err)
}

const (
	// awaitTimeout is how long --wait waits.
	awaitTimeout = time.Minute
	// moment is how long append waits for the read models without --wait. Where
	// nothing projects, every run takes as much longer.
	moment = 300 * time.Millisecond
)

// mayWait fails, before anything is appended, where --wait is given and the account
// may not read how far the read models are, as a producer's may not.
func (f *appendFlags) mayWait(ctx context.Context, d *operate.Deps) error {
	if !f.wait {
		return nil
	}
	const none = "-" // which rows are read does not matter
	_, err := eventlog.ReadProgress(ctx, d.Pool, eventlog.ReadModels, none)
	if err == nil {
		_, err = anomaly.NewStore(d.Pool, nil).CountEntries(ctx, nil)
	}
	if pg.Forbidden(err) {
		return errors.New("nothing was appended: --wait reads how far the read models are, and this account of PostgreSQL may not. " +
			"Append without --wait, or give the account the role ledgerfeed_auditor as well")
	}
	return err
}

// checkForms checks the form of every line of every source, before anything is
// appended, and that no line is ahead of now, the database's time. It writes what is wrong to
// out, and returns how many lines there are.
// first gets the first line of each workspace.
func (f *appendFlags) checkForms(ctx context.Context, sources []*source, now time.Time, out io.Writer, first firstLines) (lines int64, err error) {
	bad := &lineReport{out: out}
	checked := &meter{verb: "check"}
	stop := checked.show(out)
	defer stop()
	for _, s := range sources {
		err := s.each(ctx, func(number int, line []byte, err error) error {
			checked.done.Add(1)
			n := numbered{source: s.name, number: number}
			if err == nil {
				n.draft, err = f.decode(line)
			}
			if err == nil && !f.restore {
				err = refuseAhead(&n.draft, now)
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

// refuseAhead is the log's answer to an entry that is ahead of now. It comes before what else the log
// may say, so that append and append --check give the same answer.
func refuseAhead(d *domain.Draft, now time.Time) error {
	if !d.CreatedAt.After(now.Add(eventlog.MaxAhead)) {
		return nil
	}
	return &eventlog.RefusedError{ID: d.ID, Reason: eventlog.ErrAhead, Detail: "now is " + domain.FormatTime(now)}
}

// decode reads a line and checks all that does not depend on the log.
func (f *appendFlags) decode(line []byte) (domain.Draft, error) {
	d, err := domain.DecodeDraft(line)
	switch {
	case err != nil:
		return d, err
	case f.restore && (d.ID == "" || d.CreatedAt.IsZero()):
		return d, errNoExport
	case !f.restore && d.IsStored():
		return d, eventlog.ErrStoredForm
	}
	if what := d.PersonalID(); what != "" {
		if f.personal.lines++; f.personal.lines == 1 {
			f.personal.first = what
		}
	}
	return d, nil
}

var errNoExport = errors.New("the line has no id or no created_at: --restore takes an export as it is")

// maxReportedLines bounds how many bad lines are reported.
const maxReportedLines = 20

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
		texts.Count(len(unknown), "workspace", "workspaces"), texts.Plural(len(unknown), "does", "do"), report.shown(), texts.Plural(len(unknown), "it", "them"))
}

// refuseElsewhere is an error where workspaces that the input would create are in another cell.
func (f firstLines) refuseElsewhere(ctx context.Context, env *operate.Env, log *eventlog.Log) error {
	if len(env.Cells) == 0 {
		return nil
	}
	unknown, err := log.Unknown(ctx, slices.Sorted(maps.Keys(f))...)
	if err != nil {
		return err
	}
	return env.NotElsewhere(ctx, unknown...)
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
