package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

// ExportCommand is ledgerfeed export.
func ExportCommand(env *cli.Env) *cobra.Command {
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
			return env.WithDeps(ctx, func(d *cli.Deps) error {
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
	c.Flags().BoolVar(&x.chain, "chain", false, "add position and chain (hex) to each line")
	return c
}

// bufferSize is of what is written at once, in bytes.
const bufferSize = 1 << 16

// exporter writes entries.
type exporter struct {
	workspace     string
	from          int64
	follow, chain bool
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
	fmt.Fprintf(x.messages, format+"\n", plural.Of(x.meter.done.Load(), "entry", "entries"), x.file)
}

func (x *exporter) run(ctx context.Context) error {
	if x.workspace != "" {
		if _, err := x.log.Head(ctx, x.workspace); err != nil {
			return err
		}
	}
	if !x.follow {
		stop := x.meter.show(x.messages, cli.ProgressEvery)
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
	return fmt.Errorf("%w; what was exported is not all in this log: export it again from the start, to an empty place", err)
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
