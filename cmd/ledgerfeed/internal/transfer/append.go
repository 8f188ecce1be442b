// Package transfer has the commands that move entries into the log and out of it
// as NDJSON: append and export.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
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
		if !f.create && !f.restore {
			if err := first.refuseUnknown(ctx, d.Log, env.ErrOut); err != nil {
				return err
			}
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
