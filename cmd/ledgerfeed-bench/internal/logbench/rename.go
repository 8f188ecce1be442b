package logbench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

const (
	renamedRows      = 400_000
	renamedWorkspace = "renamed"

	// Others append beside it: as many entries a second to as many workspaces.
	besideWorkspaces = 100
	besidePerSecond  = 200
	besideTime       = 20 * time.Second
	readEvery        = 50 * time.Millisecond

	// settleTime is what a server needs to be as before after so many appends.
	settleTime = 10 * time.Second
)

// benchRename measures the rename of a client with many time entries, and what
// other workspaces and readers of that one notice of it.
func benchRename(ctx context.Context, o *measure.Options) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		r := renaming{Database: db, rows: o.Size(renamedRows, 5_000)}
		if err := r.prepare(ctx, ""); err != nil {
			return err
		}
		return r.measure(ctx)
	})
}

// renaming is a database with a client of many time entries.
type renaming struct {
	*measure.Database
	rows int
	page api.Request // of the workspace whose client is renamed
}

// prepare makes the time entries. more has further members of each, with a comma before them.
func (r *renaming) prepare(ctx context.Context, more string) error {
	err := r.fill(ctx, renamedWorkspace, r.rows, func(workspaceID string, i int) ([]domain.Draft, error) {
		d, err := domain.NewDraft(workspaceID, "time_entry.recorded", fmt.Appendf(nil, `{"time_entry_id":"te_%07d","work_date":"2026-10-01",
			"client_id":"cl_1","contractor_id":"co_%d","service":"Occupational therapy","hours":7.5,"invoice_id":"in_%d","period":"2026-10",
			"currency":"EUR","bill_rate":"120.00","bill_amount":"900.00","pay_rate":"80.00","pay_amount":"600.00"%s}`, i, i%50, i/30, more))
		if err != nil {
			return nil, fmt.Errorf("cannot make a time entry: %w", err)
		}
		return []domain.Draft{d}, nil
	})
	if err != nil {
		return err
	}
	if err := r.serve(ctx, "/v1/time-entries?limit=50&client_id=cl_1"); err != nil {
		return err
	}
	return r.Quiesce(ctx)
}

func (r *renaming) measure(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended, err := workload.StartProjector(running, r.Database)
	if err != nil {
		return err
	}
	var without noticed
	r.Say("measuring without a rename")
	if err := r.alone(ctx, &without, settleTime, r.Duration(besideTime)); err != nil {
		return err
	}
	measure.ResetPeak()
	idle := measure.PeakMemory()
	r.Say("renaming")
	began := time.Now()
	var took time.Duration
	during, err := r.beside(ctx, func(ctx context.Context) error {
		err := r.rename(ctx)
		took = time.Since(began)
		return err
	})
	if err != nil {
		return err
	}
	peak := measure.PeakMemory()
	r.Say("measuring without a rename once more")
	if err := r.alone(ctx, &without, settleTime, r.Duration(besideTime)); err != nil {
		return err
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	if err := r.Quiesce(ctx); err != nil {
		return err
	}
	began = time.Now()
	if err := r.bareUpdate(ctx); err != nil {
		return err
	}
	bare := time.Since(began)
	r.Report.Add(measure.Figure{
		Name: fmt.Sprintf("rename a client with %s time entries", measure.Number(float64(r.rows))), Value: took.Seconds(), Unit: "s",
		Limit: bare.Seconds(), LimitIs: "one bare UPDATE of the same rows, nothing beside it",
	})
	r.Report.Add(measure.Figure{Name: "    memory of the process above idle, at its peak", Value: peak - idle, Unit: "MiB"}.Below(256))
	const beforeAndAfter = "the same before it and 10 s after it"
	r.compare(&during, &without, "client", beforeAndAfter)
	r.Report.Add(measure.Figure{
		Name: "    the longest of these pages", Value: measure.Quantile(during.pages, 1), Unit: "ms",
		Limit: measure.Quantile(without.pages, 1), LimitIs: beforeAndAfter,
	})
	return nil
}

// rename appends the new name and waits until the workspace shows it.
func (r *renaming) rename(ctx context.Context) error {
	return r.change(ctx, "client.recorded", `{"client_id":"cl_1","name":"Northwind Clinic"}`)
}

// change appends an entry and waits until the workspace shows it.
func (r *renaming) change(ctx context.Context, typ, data string) error {
	d, err := domain.NewDraft(renamedWorkspace, typ, []byte(data))
	if err != nil {
		return fmt.Errorf("cannot make an entry of the type %s: %w", typ, err)
	}
	return r.shown(ctx, func() error {
		_, err := r.Log.Append(ctx, d)
		return err
	})
}

// shown makes a change, and waits until the workspace shows it.
func (r *renaming) shown(ctx context.Context, change func() error) error {
	projected, unsubscribe := r.Notifier.Subscribe(eventlog.TopicProjected)
	defer unsubscribe()
	if err := change(); err != nil {
		return err
	}
	return await(ctx, projected, renamedWorkspace)
}

// bareUpdate has the database alone write the rows once.
func (r *renaming) bareUpdate(ctx context.Context) error {
	r.Say("updating the rows without the program")
	_, err := r.Pool.Exec(ctx, `
		UPDATE time_entry SET position = position + 1, base = replace(base, '"name":"Northwind Clinic"', '"name":"Northwind"')
		 WHERE workspace_id = $1 AND client_id = 'cl_1'`, renamedWorkspace)
	if err != nil {
		return fmt.Errorf("cannot update the rows: %w", err)
	}
	return nil
}

// noticed is how long others had to wait, and how many pages were refused.
type noticed struct {
	visible, pages []time.Duration
	refused        int
}

// errRefused says that a page was answered 503.
var errRefused = errors.New("a page of time entries was answered 503")

// beside appends to other workspaces and reads the one that is renamed until work
// returns.
func (r *renaming) beside(ctx context.Context, work func(context.Context) error) (noticed, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		n      noticed
		failed error
	)
	note := func(list *[]time.Duration, took time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		*list = append(*list, took)
		if errors.Is(err, errRefused) {
			n.refused++
			return
		}
		if err != nil && failed == nil {
			failed = err
			cancel()
		}
	}
	group.Go(func() {
		r.appendBeside(ctx, done, func(took time.Duration, err error) { note(&n.visible, took, err) })
	})
	group.Go(func() {
		r.readPages(ctx, done, func(took time.Duration, err error) { note(&n.pages, took, err) })
	})
	err := work(ctx)
	close(done)
	group.Wait()
	if failed != nil {
		err = failed
	}
	return n, err
}

// alone measures what others notice while nothing is changed, once the server has settled, and adds that
// to without.
func (r *renaming) alone(ctx context.Context, without *noticed, settle, measured time.Duration) error {
	if _, err := r.beside(ctx, after(settle)); err != nil {
		return err
	}
	n, err := r.beside(ctx, after(measured))
	without.visible, without.pages = append(without.visible, n.visible...), append(without.pages, n.pages...)
	return err
}

// compare reports what others noticed of a change. whose are the time entries that pages showed.
func (r *renaming) compare(during, without *noticed, whose, limitIs string) {
	for _, f := range []struct {
		name            string
		during, without []time.Duration
	}{
		{"    append → projected in other workspaces meanwhile, p99", during.visible, without.visible},
		{"    a page of the " + whose + "'s time entries meanwhile, p99", during.pages, without.pages},
	} {
		r.Report.Add(measure.Figure{
			Name: f.name, Value: measure.Quantile(f.during, 0.99), Unit: "ms", Limit: measure.Quantile(f.without, 0.99), LimitIs: limitIs,
		}.RatioAtMost(1.5))
	}
}

// appendBeside appends to one other workspace after the other, and notes how long
// each entry takes to be projected.
func (r *renaming) appendBeside(ctx context.Context, done <-chan struct{}, note func(time.Duration, error)) {
	var group sync.WaitGroup
	defer group.Wait()
	var turns [besideWorkspaces]sync.Mutex // one entry of a workspace at a time
	tick := time.NewTicker(time.Second / besidePerSecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		group.Go(func() {
			turns[i%besideWorkspaces].Lock()
			defer turns[i%besideWorkspaces].Unlock()
			note(r.appendOne(ctx, workload.WorkspaceID(i%besideWorkspaces)))
		})
	}
}

func (r *renaming) appendOne(ctx context.Context, workspaceID string) (time.Duration, error) {
	projected, unsubscribe := r.Notifier.Subscribe(eventlog.TopicProjected)
	defer unsubscribe()
	if _, err := r.Log.Append(ctx, workload.Reversed(workspaceID, "")); err != nil {
		return 0, err
	}
	committed := time.Now()
	err := await(ctx, projected, workspaceID)
	return time.Since(committed), err
}

func await(ctx context.Context, projected *eventlog.Subscription, workspaceID string) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-projected.C:
		}
		ids, _ := projected.Take()
		for _, id := range ids {
			if id == workspaceID {
				return nil
			}
		}
	}
}

func (r *renaming) readPages(ctx context.Context, done <-chan struct{}, note func(time.Duration, error)) {
	conn, err := r.page.Dial(ctx)
	if err != nil {
		note(0, err)
		return
	}
	defer conn.Close()
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		began := time.Now()
		status, err := conn.Call()
		switch {
		case err == nil && status == http.StatusServiceUnavailable:
			err = errRefused
		case err == nil && status != http.StatusOK:
			err = fmt.Errorf("a page of time entries was answered %d", status)
		}
		note(time.Since(began), err)
		if err != nil && !errors.Is(err, errRefused) {
			return
		}
	}
}

// after waits for a time.
func after(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error { return measure.Pause(ctx, d) }
}
