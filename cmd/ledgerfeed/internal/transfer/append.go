// Package transfer has the commands that move entries into the log and out of it
// as NDJSON: append and export.
package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
)

// AppendCommand is ledgerfeed append.
func AppendCommand(env *cli.Env) *cobra.Command {
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

With --check, append reports the lines that it would refuse, because of their form or
because of the log. It appends nothing.

An entry that has no effect, or not all of it, is an anomaly. At the end, append says how
many of its entries are anomalies. Without --wait, it says so only if the projector
handles the entries within a moment. With --wait, it returns when the projector has
handled all entries of the input. It fails if this takes longer than --timeout. Even then,
the entries are in the log.`,
		RunE: env.Run(func(ctx context.Context, files []string) error {
			if err := f.check(); err != nil {
				return err
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
	c.Flags().StringVar(&f.ids, "ids", "", "a file of ids for lines without one: reads the ids that an earlier run gave, and adds the ids that this run gives")
	c.Flags().BoolVar(&f.wait, "wait", false, "return when the projector has handled the entries")
	c.Flags().Var(&f.timeout, "timeout", "with --wait: fail after this time (default 1m)")
	return c
}

// check checks flags that depend on each other.
func (f *appendFlags) check() error {
	switch {
	case f.stream && f.ids != "":
		return cli.Usagef("--ids is not for --stream, which answers every line with its id")
	case f.trial && (f.stream || f.restore || f.wait || f.ids != ""):
		return cli.Usagef("--check appends nothing: it does not go with --stream, --restore, --wait or --ids")
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
func (f *appendFlags) run(ctx context.Context, env *cli.Env, files []string) (err error) {
	sources, closeAll, err := openSources(files, env.In)
	if err != nil {
		return err
	}
	defer closeAll()
	ids := &idFile{name: f.ids}
	defer func() { err = errors.Join(err, ids.close()) }()
	return env.WithDeps(ctx, func(d *cli.Deps) error {
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
		stop := a.meter.show(env.ErrOut, cli.ProgressEvery)
		err = a.appendAll(ctx, sources)
		stop()
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
		sources = append(sources, &source{name: standardInput, file: file})
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

// appendBatch is how many lines are appended in one transaction: enough that its
// commit costs little a line, few enough that other producers wait only briefly.
const appendBatch = 500

// appendResult is what append prints.
type appendResult struct {
	Appended  int              `json:"appended"`
	Skipped   int              `json:"skipped"`             // the log had them already
	Positions map[string]int64 `json:"positions"`           // by workspace, of the last entry of the input
	Anomalies *int64           `json:"anomalies,omitempty"` // of the entries that were appended; nil: not known

	spans   spans // of the entries that were appended
	created *newWorkspaces
}

func newAppendResult(created *newWorkspaces) *appendResult {
	return &appendResult{Positions: map[string]int64{}, created: created}
}

func (r *appendResult) text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "appended %d, skipped %d\n", r.Appended, r.Skipped)
	if err != nil || r.Anomalies == nil || r.Appended == 0 {
		return err
	}
	if *r.Anomalies == 0 {
		_, err = fmt.Fprintln(w, "none of them is an anomaly")
	} else {
		_, err = fmt.Fprintf(w, "%d of them %s: %s\n", *r.Anomalies, plural.Word(*r.Anomalies, "is an anomaly", "are anomalies"), r.listCommand())
	}
	return err
}

// listCommand is the command that lists the anomalies.
func (r *appendResult) listCommand() string {
	if len(r.Positions) == 1 {
		for w := range r.Positions {
			return "ledgerfeed anomaly list --workspace " + w
		}
	}
	return "ledgerfeed anomaly list"
}

// appender appends lines in batches.
type appender struct {
	log     *eventlog.Log
	restore bool
	ids     *idFile
	result  *appendResult
	meter   *meter

	batch []numbered
}

// numbered is a line of a source.
type numbered struct {
	source string
	number int
	draft  domain.Draft
	made   bool // the line has no id; that of the draft was made for it
}

func (n *numbered) String() string { return fmt.Sprintf("%s, line %d", n.source, n.number) }

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

// following gives, for the workspaces of drafts, the position after the last one
// that was restored.
func (r *appendResult) following(drafts []domain.Draft) map[string]int64 {
	next := map[string]int64{}
	for i := range drafts {
		w := drafts[i].WorkspaceID
		next[w] = r.Positions[w] + 1
	}
	return next
}

// maxCreated is how many new workspaces are named one by one; a restored export may
// have any number of them.
const maxCreated = 10

// newWorkspaces says which workspaces are new, because a mistyped workspace_id makes
// one that nothing removes again. Nil says nothing.
type newWorkspaces struct {
	pool   pg.DB
	errOut io.Writer

	forbidden bool // the account may not read workspaces, as a producer's may not
	named     int
}

// absent returns those of the drafts' workspaces that do not exist yet, but for known
// ones. A failure is no concern of the append, which meets it as well.
func (n *newWorkspaces) absent(ctx context.Context, drafts []domain.Draft, known map[string]int64) map[string]bool {
	asked := map[string]bool{}
	if n == nil || n.forbidden {
		return asked
	}
	var ids []string
	for i := range drafts {
		w := drafts[i].WorkspaceID
		if _, there := known[w]; !there && !asked[w] {
			asked[w] = true
			ids = append(ids, w)
		}
	}
	if len(ids) == 0 {
		return asked
	}
	rows, err := n.pool.Query(ctx, `SELECT workspace_id FROM workspace WHERE workspace_id = ANY($1)`, ids)
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		n.forbidden = pg.Forbidden(err)
		return map[string]bool{}
	}
	for _, w := range ids {
		delete(asked, w)
	}
	return asked
}

// note names the workspace of an entry that was appended, if it is its first one and the
// workspace was absent before.
func (n *newWorkspaces) note(r eventlog.Receipt, workspaceID string, absent map[string]bool) {
	if n == nil || r.Position != 1 || r.Skipped || !absent[workspaceID] && !n.forbidden {
		return
	}
	switch n.named++; {
	case n.named > maxCreated+1:
	case n.named > maxCreated:
		fmt.Fprintln(n.errOut, "more workspaces are new: ledgerfeed workspace list")
	case n.forbidden:
		fmt.Fprintf(n.errOut, "%s had no entries before: if workspace_id is mistyped, this made a workspace\n", workspaceID)
	default:
		fmt.Fprintf(n.errOut, "created the workspace %s, which did not exist\n", workspaceID)
	}
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
func (f *appendFlags) mayWait(ctx context.Context, d *cli.Deps) error {
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

// countAnomalies waits until the read models have the entries, counts the anomalies
// among them into r, and returns a line that says how to see them where they are not
// known yet.
func (f *appendFlags) countAnomalies(ctx context.Context, env *cli.Env, d *cli.Deps, r *appendResult) (hint string, err error) {
	defer r.spans.close()
	if len(r.Positions) == 0 || r.Appended == 0 && !f.wait {
		return "", nil
	}
	d.Notify(ctx)
	timeout := moment
	if f.wait {
		if timeout = time.Duration(f.timeout); timeout == 0 {
			timeout = awaitTimeout
		}
	}
	if err = d.AwaitPositions(ctx, r.Positions, timeout); err == nil {
		var n int64
		if n, err = r.spans.count(ctx, anomaly.NewStore(d.Pool, env.Clock)); err == nil {
			r.Anomalies = &n
			return "", nil
		}
	}
	switch {
	case f.wait:
		return "", fmt.Errorf("the entries are in the log, but the read models do not have them: %w", err)
	case pg.Forbidden(err):
		return fmt.Sprintf("this account of PostgreSQL may not read which of them are anomalies; with an account that may, %s lists them\n", r.listCommand()), nil
	}
	return fmt.Sprintf("not projected yet; then %s says which of them are anomalies\n", r.listCommand()), nil
}

// spans are the positions of entries in the order in which they were appended. Those
// that follow on each other in the log take no memory; the rest is kept in a file.
type spans struct {
	last map[string]anomaly.Span // of each workspace, which may grow
	file *os.File
	out  *bufio.Writer
	err  error // the first failure; the spans are not complete
}

// add adds an entry that was appended after the others.
func (s *spans) add(workspaceID string, position int64) {
	if s.last == nil {
		s.last = map[string]anomaly.Span{}
	}
	span, there := s.last[workspaceID]
	switch {
	case !there:
		span = anomaly.Span{WorkspaceID: workspaceID, First: position}
	case position != span.Last+1:
		s.write(&span)
		span.First = position
	}
	span.Last = position
	s.last[workspaceID] = span
}

func (s *spans) write(span *anomaly.Span) {
	if s.err == nil && s.file == nil {
		if s.file, s.err = os.CreateTemp("", "ledgerfeed-positions-*.txt"); s.err == nil {
			_ = os.Remove(s.file.Name()) // the file exists as long as it is open
			s.out = bufio.NewWriter(s.file)
		}
	}
	if s.err == nil {
		_, s.err = fmt.Fprintln(s.out, span.WorkspaceID, span.First, span.Last)
	}
}

// countBatch is how many spans are counted with one statement.
const countBatch = 1000

// count counts the entries that are anomalies.
func (s *spans) count(ctx context.Context, store *anomaly.Store) (n int64, err error) {
	batch := make([]anomaly.Span, 0, countBatch)
	flush := func() error {
		counted, err := store.CountEntries(ctx, batch)
		n, batch = n+counted, batch[:0]
		return err
	}
	err = s.each(func(span anomaly.Span) error {
		if batch = append(batch, span); len(batch) < countBatch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	return n, err
}

// each calls do with every span.
func (s *spans) each(do func(anomaly.Span) error) error {
	if s.err == nil && s.file != nil {
		if s.err = s.out.Flush(); s.err == nil {
			_, s.err = s.file.Seek(0, io.SeekStart)
		}
	}
	if s.err != nil {
		return fmt.Errorf("cannot keep the positions of entries: %w", s.err)
	}
	if s.file != nil {
		in := bufio.NewReader(s.file)
		for {
			var span anomaly.Span
			_, err := fmt.Fscanln(in, &span.WorkspaceID, &span.First, &span.Last)
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = do(span)
			}
			if err != nil {
				return err
			}
		}
	}
	for _, span := range s.last {
		if err := do(span); err != nil {
			return err
		}
	}
	return nil
}

func (s *spans) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}
