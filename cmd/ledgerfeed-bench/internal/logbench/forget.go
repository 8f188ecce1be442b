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
	quiet := func() error {
		if _, err := r.beside(ctx, after(settleTime)); err != nil {
			return err
		}
		n, err := r.beside(ctx, after(r.Duration(besideTime)))
		without.visible, without.pages = append(without.visible, n.visible...), append(without.pages, n.pages...)
		return err
	}
	if err := quiet(); err != nil {
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
	if err := quiet(); err != nil {
		return err
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	const alone = "the same before it and 10 s after it"
	r.Report.Add(measure.Figure{Name: "forget a client with " + measure.Number(float64(r.rows)) + " described time entries", Value: gone.Seconds(), Unit: "s"}.Below(60))
	r.Report.Add(measure.Figure{Name: "    until no list shows the client's name or a description", Value: shown.Seconds(), Unit: "s"})
	for _, f := range []struct {
		name            string
		during, without []time.Duration
	}{
		{"    append → projected in other workspaces meanwhile, p99", during.visible, without.visible},
		{"    a page of the client's time entries meanwhile, p99", during.pages, without.pages},
	} {
		r.Report.Add(measure.Figure{
			Name: f.name, Value: measure.Quantile(f.during, 0.99), Unit: "ms", Limit: measure.Quantile(f.without, 0.99), LimitIs: alone,
		}.RatioAtMost(1.5))
	}
	return nil
}

// forget appends the entry that forgets the client, and waits until the workspace shows it.
func (r *renaming) forget(ctx context.Context) error {
	projected, unsubscribe := r.Notifier.Subscribe(eventlog.TopicProjected)
	defer unsubscribe()
	subject := eventlog.Subject{Kind: eventlog.SubjectClient, ID: "cl_1"}
	draft, err := eventlog.ForgetDraft(renamedWorkspace, subject, "")
	if err != nil {
		return err
	}
	if _, err := r.Log.AppendForgotten(ctx, subject, draft); err != nil {
		return err
	}
	return await(ctx, projected, renamedWorkspace)
}
