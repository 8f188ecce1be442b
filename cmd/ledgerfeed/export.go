package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

func (p *program) exportCommand() *cobra.Command {
	var x exporting
	c := &cobra.Command{
		Use:   "export",
		Short: "Write the log as NDJSON, in the form that append takes",
		Long: `Write the log as NDJSON, in the form that append takes: on an empty database,
append makes of it the same log, byte by byte, with the same chain.

With --out, the entries are added to a file, which also says where to go on:
run again after any interruption, it holds every entry once. Into a pipe,
--resume keeps in a file of its own where to go on; after an interruption some
entries may come again, and append skips them.`,
		Args: cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			if x.from < 1 {
				return usagef("--from is %d: want a position, 1 or more", x.from)
			}
			if x.file != "" && x.resume != "" {
				return usagef("--resume is for pipes: the file of --out itself says where to go on")
			}
			return p.withLog(ctx, func(w *workbench) error {
				x.log, x.notifier, x.logger = w.log, w.notifier, p.logger
				x.next = map[string]int64{}
				if x.file != "" {
					return x.intoFile(ctx)
				}
				if err := x.readResume(); err != nil {
					return err
				}
				x.out = bufio.NewWriterSize(p.out, 1<<16)
				return x.run(ctx)
			})
		}),
	}
	c.Flags().StringVar(&x.workspace, "workspace", "", "only this workspace (default: all, one after the other)")
	c.Flags().Int64Var(&x.from, "from", 1, "the first position to write, in each workspace")
	c.Flags().BoolVar(&x.follow, "follow", false, "then wait for further entries, until interrupted")
	c.Flags().StringVar(&x.file, "out", "", "add to this file, after the entries that it holds")
	c.Flags().StringVar(&x.resume, "resume", "", "keep in this file where to go on, and begin there")
	c.Flags().BoolVar(&x.chain, "chain", false, "add position and chain (hex) to each line")
	return c
}

// exporting writes entries.
type exporting struct {
	workspace     string
	from          int64
	follow, chain bool
	file, resume  string // --out, --resume

	log      *eventlog.Log
	notifier *eventlog.Notifier
	logger   *slog.Logger
	out      *bufio.Writer
	next     map[string]int64 // by workspace, the position after the last one written
	line     []byte
}

func (x *exporting) run(ctx context.Context) error {
	if x.workspace != "" {
		if _, err := x.log.Head(ctx, x.workspace); err != nil {
			return err
		}
	}
	if !x.follow {
		return x.pass(ctx)
	}
	err := x.followAll(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return x.out.Flush()
	}
	return err
}

// pass writes what there is, and is not written yet.
func (x *exporting) pass(ctx context.Context) error {
	workspaces := []string{x.workspace}
	if x.workspace == "" {
		var err error
		if workspaces, err = x.log.WorkspaceIDs(ctx); err != nil {
			return err
		}
	}
	for _, w := range workspaces {
		if x.next[w] == 0 {
			x.next[w] = x.from
		}
		if err := x.log.Walk(ctx, w, x.next[w]-1, x.write); err != nil {
			return err
		}
	}
	if err := x.out.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return x.keepResume()
}

func (x *exporting) write(e *domain.Entry) error {
	if x.chain {
		x.line = e.AppendChainedNDJSON(x.line[:0])
	} else {
		x.line = e.AppendNDJSON(x.line[:0])
	}
	if _, err := x.out.Write(x.line); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	x.next[e.WorkspaceID] = e.Position + 1
	return nil
}

// followSweep is how long the export trusts in being woken.
const followSweep = time.Second

func (x *exporting) followAll(ctx context.Context) error {
	waiter, done := x.notifier.Subscribe(eventlog.TopicAppended)
	defer done()
	listening, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- x.notifier.Run(listening) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			x.logger.WarnContext(ctx, "wake-ups ended with an error", "error", err)
		}
	}()
	sweep := time.NewTicker(followSweep)
	defer sweep.Stop()
	for {
		if err := x.pass(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-waiter.C:
			waiter.Take()
		case <-sweep.C:
		}
	}
}
