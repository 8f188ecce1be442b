package transfer

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// ExportCommand is ledgerfeed export.
func ExportCommand(env *operate.Env) *cobra.Command {
	var x exporter
	c := &cobra.Command{
		Use:   "export",
		Short: "Write the log as NDJSON, in the form that append takes",
		Long: `Write the log as NDJSON, in the form that append takes. If you append the export to an
empty database, you get the same log, byte by byte, with the same chain.

With --out, the command adds the entries to a file. The file itself tells the command
where to continue. Run the command again after any interruption, and the file holds every
entry once. For a pipe, use --resume to keep in another file where to continue. After an
interruption the pipe may get some entries again, and append skips them.

A line has "data" as it was appended and, if some of its fields are about people, the "salt"
of their commitment. Where these fields were forgotten, the line has the "stored" form
instead of both. With --without-values all lines are like that: you get a complete copy
without personal data, whose chain still verifies.

An export continues only the log that it began with. It stops and says so if somebody
restored an older backup, or if a server without the last commits took over.`,
		Args: cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			if x.from < 1 {
				return cli.Usagef("--from is %d: want a position, 1 or more", x.from)
			}
			if x.file != "" && x.resume != "" {
				return cli.Usagef("--resume is for pipes: the file of --out itself tells where to continue")
			}
			return env.WithDeps(ctx, func(d *operate.Deps) error {
				x.log, x.workspaces, x.notifier, x.logger = d.Log, d.Workspaces(), d.Notifier, env.Logger
				x.meter, x.messages = &meter{verb: "export"}, env.ErrOut
				if x.file != "" {
					return x.toFile(ctx)
				}
				return x.toPipe(ctx, env.Out)
			})
		}),
	}
	c.Flags().StringVar(&x.workspace, "workspace", "", "only this workspace (default: all, one after the other)")
	c.Flags().Int64Var(&x.from, "from", 1, "the first position to write, in each workspace")
	c.Flags().BoolVar(&x.follow, "follow", false, "then wait for new entries until you interrupt the command")
	c.Flags().StringVar(&x.file, "out", "", "add to this file, after the entries that it holds")
	c.Flags().StringVar(&x.resume, "resume", "", "keep in this file where to continue, and start there")
	c.Flags().BoolVar(&x.chain, "chain", false, "add position, chain (hex) and stored form to each line")
	c.Flags().BoolVar(&x.withoutValues, "without-values", false, "leave out names, addresses and texts about people: the chain is still complete and can be verified")
	return c
}

// bufferSize is of what is written at once, in bytes.
const bufferSize = 1 << 16

// exporter writes entries.
type exporter struct {
	workspace     string
	from          int64
	follow, chain bool
	withoutValues bool
	file, resume  string // --out, --resume

	log        *eventlog.Log
	workspaces *eventlog.Workspaces
	notifier   *eventlog.Notifier
	logger     *slog.Logger
	out        *bufio.Writer
	written    map[string]eventlog.Mark // by workspace, of the last entry written
	line       []byte
	meter      *meter
	messages   io.Writer
}

// toPipe exports to standard output, from where the file of --resume says.
func (x *exporter) toPipe(ctx context.Context, out io.Writer) (err error) {
	if x.written, err = readResume(x.resume); err != nil {
		return err
	}
	x.out = bufio.NewWriterSize(out, bufferSize)
	return x.run(ctx)
}

// toFile adds to the file of --out the entries that it does not hold yet.
func (x *exporter) toFile(ctx context.Context) (err error) {
	file, err := os.OpenFile(x.file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if x.written, err = continueFile(ctx, file, x.log); err != nil {
		return err
	}
	x.out = bufio.NewWriterSize(file, bufferSize)
	if err := x.run(ctx); err != nil {
		return errors.Join(err, x.out.Flush())
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("cannot write entries: %w", err)
	}
	x.tell("added %s to %s")
	return nil
}

// tell says on standard error how many entries were added to the file.
func (x *exporter) tell(format string) {
	fmt.Fprintf(x.messages, format+"\n", texts.Count(x.meter.done.Load(), "entry", "entries"), x.file)
}

func (x *exporter) run(ctx context.Context) error {
	if x.workspace != "" {
		if _, err := x.log.Head(ctx, x.workspace); err != nil {
			return err
		}
	}
	if !x.follow {
		stop := x.meter.show(x.messages)
		defer stop()
		return x.writeNew(ctx)
	}
	err := x.followLog(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return x.out.Flush()
	}
	return err
}

// writeNew writes the entries that the log has and that are not written yet.
func (x *exporter) writeNew(ctx context.Context) error {
	workspaces := []string{x.workspace}
	if x.workspace == "" {
		var err error
		if workspaces, err = x.workspaces.IDs(ctx); err != nil {
			return err
		}
		// One that was exported and is gone is another log, too.
		var gone []string
		for w := range x.written {
			if _, found := slices.BinarySearch(workspaces, w); !found { // IDs sorts bytewise
				gone = append(gone, w)
			}
		}
		slices.Sort(gone)
		workspaces = append(workspaces, gone...)
	}
	for _, w := range workspaces {
		after, begun := x.written[w]
		if !begun {
			after.Position = x.from - 1
		}
		if err := x.log.WalkAfter(ctx, w, after, x.write); err != nil {
			return x.explain(err)
		}
	}
	if err := x.out.Flush(); err != nil {
		return fmt.Errorf("cannot write entries: %w", err)
	}
	return writeResume(x.resume, x.written)
}

func (x *exporter) write(e *domain.Entry) error {
	if x.withoutValues {
		e.Value = ""
	}
	if x.chain {
		x.line = e.AppendChainedNDJSON(x.line[:0])
	} else {
		x.line = e.AppendNDJSON(x.line[:0])
	}
	if _, err := x.out.Write(x.line); err != nil {
		return fmt.Errorf("cannot write entries: %w", err)
	}
	x.meter.done.Add(1)
	x.written[e.WorkspaceID] = eventlog.NewMark(e.Position, e.Chain[:8])
	return nil
}

// explain adds what to do when the log is not the one that the export began with.
func (x *exporter) explain(err error) error {
	if _, other := errors.AsType[*eventlog.OtherLogError](err); !other {
		return err
	}
	return fmt.Errorf("%w; this log lacks some of what was exported: export again from the start, to an empty place", err)
}

// followLog writes new entries until ctx ends.
func (x *exporter) followLog(ctx context.Context) error {
	listening, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- x.notifier.Run(listening) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			x.logger.WarnContext(ctx, "notifications ended with an error", "error", err)
		}
	}()
	caughtUp := false
	return x.notifier.Follow(ctx, eventlog.TopicAppended, func(ctx context.Context) error {
		err := x.writeNew(ctx)
		if err == nil && !caughtUp && x.file != "" {
			x.tell("added %s to %s; waiting for further ones")
			caughtUp = true
		}
		return err
	})
}

// continueFile prepares an exported file for further entries and returns, by
// workspace, the Mark of the last entry that it holds. An unfinished last line is cut
// off. The file is folded, so that it continues only if the log has exactly its
// entries.
func continueFile(ctx context.Context, file *os.File, log *eventlog.Log) (written map[string]eventlog.Mark, err error) {
	last, size, err := foldFile(ctx, file, log)
	if err != nil {
		return nil, err
	}
	written = map[string]eventlog.Mark{}
	for workspaceID, e := range last {
		entry, err := log.EntryAt(ctx, workspaceID, e.Position)
		if err != nil {
			return nil, err
		}
		if entry == nil || entry.Chain != e.Chain {
			return nil, fmt.Errorf("%s has entries of %s, up to %s at position %d, that this log does not have in that order: "+
				"an older backup was restored, or a server without the last commits took over; export to another file", file.Name(), workspaceID, e.ID, e.Position)
		}
		written[workspaceID] = eventlog.NewMark(e.Position, e.Chain[:8])
	}
	if err := file.Truncate(size); err != nil {
		return nil, fmt.Errorf("cannot cut off the unfinished line of %s: %w", file.Name(), err)
	}
	if _, err := file.Seek(size, io.SeekStart); err != nil {
		return nil, fmt.Errorf("cannot continue %s: %w", file.Name(), err)
	}
	return written, nil
}

// foldFile returns the last entry of each workspace in an exported file, with the
// position and chain that follow from the file and from the first entry's place in the
// log, and the length of the complete lines in bytes.
func foldFile(ctx context.Context, file *os.File, log *eventlog.Log) (last map[string]*domain.Entry, size int64, err error) {
	last = map[string]*domain.Entry{}
	lines := bufio.NewReaderSize(file, 1<<20)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return last, size, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("cannot read %s: %w", file.Name(), err)
		}
		content := line
		if number == 1 {
			if content, err = texts.Plain(line); err != nil {
				return nil, 0, fmt.Errorf("%s: %w", file.Name(), err)
			}
		}
		e, ok := exported(content)
		if !ok {
			return nil, 0, fmt.Errorf("%s, line %d is not a line of an export", file.Name(), number)
		}
		before := last[e.WorkspaceID]
		if before == nil {
			if before, err = entryBefore(ctx, log, e); err != nil {
				return nil, 0, fmt.Errorf("%s, line %d: %w", file.Name(), number, err)
			}
		}
		e.Position = before.Position + 1
		e.Chain = e.ChainAfter(before.Chain)
		last[e.WorkspaceID] = e
		size += int64(len(line))
	}
}

// exported reads a line of an export.
func exported(line []byte) (*domain.Entry, bool) {
	d, err := domain.DecodeExported(line)
	if err != nil || d.ID == "" || d.CreatedAt.IsZero() {
		return nil, false
	}
	e := d.Entry()
	return &e, true
}

// entryBefore returns the entry of the log before that with the id of e.
func entryBefore(ctx context.Context, log *eventlog.Log, e *domain.Entry) (*domain.Entry, error) {
	position, err := log.PositionOf(ctx, e.WorkspaceID, e.ID)
	if err != nil {
		return nil, err
	}
	switch position {
	case 0:
		return nil, fmt.Errorf("this log does not have the entry %s of %s", e.ID, e.WorkspaceID)
	case 1:
		return &domain.Entry{Chain: domain.Genesis(e.WorkspaceID)}, nil
	}
	before, err := log.EntryAt(ctx, e.WorkspaceID, position-1)
	if err == nil && before == nil {
		err = fmt.Errorf("this log does not have position %d of %s", position-1, e.WorkspaceID)
	}
	return before, err
}

// resumePoint is where an export continues in a workspace: after an entry, whose
// chain value begins with these bytes (hex).
type resumePoint struct {
	Position int64  `json:"position"`
	Chain    string `json:"chain"`
}

// readResume reads where to continue from the file of --resume, which does not exist
// before the first run. Without a name there is none.
func readResume(name string) (written map[string]eventlog.Mark, err error) {
	written = map[string]eventlog.Mark{}
	if name == "" {
		return written, nil
	}
	text, err := texts.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return written, nil
	}
	if err != nil {
		return nil, err
	}
	var points map[string]resumePoint
	if err := json.Unmarshal(text, &points); err != nil || points == nil {
		return nil, fmt.Errorf("%s does not tell where to continue; remove it to export from the start (%w)", name, errors.Join(err, errNoResumePoint))
	}
	for workspaceID, p := range points {
		chain, err := hex.DecodeString(p.Chain)
		if err != nil || len(chain) != len(eventlog.Mark{}.Chain) || p.Position < 1 {
			return nil, fmt.Errorf("%s does not tell where to continue in %s; remove it to export from the start", name, workspaceID)
		}
		written[workspaceID] = eventlog.NewMark(p.Position, chain)
	}
	return written, nil
}

var errNoResumePoint = errors.New("it is not a file of --resume")

// writeResume writes where to continue to the file of --resume, if it has a name.
func writeResume(name string, written map[string]eventlog.Mark) error {
	if name == "" {
		return nil
	}
	points := make(map[string]resumePoint, len(written))
	for workspaceID, m := range written {
		points[workspaceID] = resumePoint{m.Position, hex.EncodeToString(m.Chain[:])}
	}
	text, err := json.Marshal(points)
	if err != nil {
		return fmt.Errorf("cannot save where to continue: %w", err)
	}
	// A new file that is renamed, so that the old one is never half overwritten.
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("cannot save where to continue: %w", err)
	}
	return nil
}
