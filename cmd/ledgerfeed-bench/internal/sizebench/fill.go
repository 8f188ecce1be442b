package sizebench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/deliverbench"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
)

// producers are workspaces whose entries come side by side, a few at a time.
type producers struct {
	*measure.Database
	histories *workload.Histories
	size      shape
}

// shape is how much data is measured.
type shape struct{ workspaces, each, requests int }

func (s shape) entries() int { return s.workspaces * s.each }

// newProducers makes the histories; nothing is appended yet.
func newProducers(db *measure.Database, size shape) (p *producers, err error) {
	p = &producers{Database: db, size: size}
	p.histories, err = workload.NewHistories(size.workspaces, size.each)
	return p, err
}

// appendNext appends the next entries of every workspace in one call, or none at the
// end, and returns how many these were.
func (p *producers) appendNext(ctx context.Context, each int) (int, error) {
	drafts, err := p.histories.Next(each)
	if err != nil || len(drafts) == 0 {
		return 0, err
	}
	_, err = p.Log.Append(ctx, drafts...)
	return len(drafts), err
}

// appendSingly appends the next entry of every workspace, each in a transaction of its
// own.
func (p *producers) appendSingly(ctx context.Context) (int, error) {
	drafts, err := p.histories.Next(1)
	if err != nil {
		return 0, err
	}
	for i := range drafts {
		if _, err := p.Log.Append(ctx, drafts[i]); err != nil {
			return 0, err
		}
	}
	return len(drafts), nil
}

// projecting does work while the log is projected.
func (p *producers) projecting(ctx context.Context, work func(context.Context) error) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended, err := workload.StartProjector(running, p.Database)
	if err != nil {
		return err
	}
	err = work(ctx)
	stop()
	return errors.Join(err, <-ended)
}

// projectAll projects what was appended.
func (p *producers) projectAll(ctx context.Context) error {
	return p.projecting(ctx, func(ctx context.Context) error { return workload.AwaitProjected(ctx, p.Database) })
}

// subscribe makes a webhook for all events of each workspace.
func (p *producers) subscribe(ctx context.Context) (*deliverbench.Subscriptions, error) {
	s, err := deliverbench.Subscribe(p.Database)
	if err != nil {
		return nil, err
	}
	for w := range p.size.workspaces {
		if err := s.Add(ctx, workload.WorkspaceID(w)); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// request sends requests for pages until so many stand in the request log.
func (p *producers) request(ctx context.Context, n int) error {
	p.Say("sending %d requests", n)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	server, err := api.Serve(serving, p.Database, api.Options{RequestLog: true})
	if err != nil {
		return err
	}
	var callers []*api.Caller
	defer func() {
		for _, c := range callers {
			c.Close()
		}
	}()
	for w := range min(p.size.workspaces, mostCallers) {
		key, err := server.NewKey(ctx, workload.WorkspaceID(w))
		if err != nil {
			return err
		}
		c, err := api.Request{Host: server.Address, Path: "/v1/invoices?limit=50", Key: key}.Dial(ctx)
		if err != nil {
			return err
		}
		callers = append(callers, c)
	}
	for i := range n {
		if err := callers[i%len(callers)].Expect(http.StatusOK); err != nil {
			return err
		}
	}
	return p.await(ctx, `SELECT count(*) >= $1 FROM request_log`, n)
}

// mostCallers is how many workspaces requests are sent for.
const mostCallers = 100

// await waits until a statement says true.
func (p *producers) await(ctx context.Context, sql string, args ...any) error {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		var done bool
		if err := p.Pool.QueryRow(ctx, sql, args...).Scan(&done); err != nil {
			return fmt.Errorf("cannot see how far it is: %w", err)
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		}
	}
}
