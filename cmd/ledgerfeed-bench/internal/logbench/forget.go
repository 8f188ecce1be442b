package logbench

import (
	"context"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

const forgottenRows = 400_000

// benchForget measures how long a client with many described time entries takes to be forgotten,
// and what other workspaces and readers of that one notice of it.
func benchForget(ctx context.Context, o *measure.Options) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		r := renaming{Database: db, rows: o.Size(forgottenRows, 5_000)}
		if err := r.prepare(ctx, `,"description":"Assessment at home, with a report to the insurer"`); err != nil {
			return err
		}
		return r.measureForget(ctx)
	})
}

func (r *renaming) measureForget(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended, err := workload.StartProjector(running, r.Database)
	if err != nil {
		return err
	}
	var without noticed
	if err := r.alone(ctx, &without, settleTime, r.Duration(besideTime)); err != nil {
		return err
	}
	r.Say("forgetting")
	var shown, gone time.Duration
	began := time.Now()
	during, err := r.beside(ctx, func(ctx context.Context) error {
		if err := r.forget(ctx); err != nil {
			return err
		}
		shown = time.Since(began)
		err := r.Log.Forget(ctx, renamedWorkspace)
		gone = time.Since(began)
		return err
	})
	if err != nil {
		return err
	}
	if err := r.alone(ctx, &without, settleTime, r.Duration(besideTime)); err != nil {
		return err
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	r.Report.Add(measure.Figure{Name: "forget a client with " + measure.Number(float64(r.rows)) + " described time entries", Value: gone.Seconds(), Unit: "s"}.Below(60))
	r.Report.Add(measure.Figure{Name: "    until no list shows the client's name or a description", Value: shown.Seconds(), Unit: "s"})
	r.compare(&during, &without, "client", "the same before it and 10 s after it")
	return nil
}

// forget appends the entry that forgets the client, and waits until the workspace shows it.
func (r *renaming) forget(ctx context.Context) error {
	subject := eventlog.Subject{Kind: eventlog.SubjectClient, ID: "cl_1"}
	draft, err := eventlog.ForgetDraft(renamedWorkspace, subject, "")
	if err != nil {
		return err
	}
	return r.shown(ctx, func() error {
		_, err := r.Log.AppendForgotten(ctx, subject, draft)
		return err
	})
}
