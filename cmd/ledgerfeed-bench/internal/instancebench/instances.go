// Package instancebench measures processes of ledgerfeed serve beside each other on one
// PostgreSQL: what they cost when idle, how they share work, and how they take over.
package instancebench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/deliverbench"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Benchmark is ledgerfeed-bench instances.
func Benchmark(o *measure.Options) measure.Benchmark {
	x := &instances{}
	return measure.Benchmark{
		Name: "instances", Short: "Sixteen processes on one PostgreSQL: what they cost when idle, how even their shares are, and how they take over",
		Parts: []measure.Part{
			{Name: "idle", Measure: x.measureIdle},
			{Name: "projecting", Measure: x.measureProjecting},
			{Name: "delivering", Measure: x.measureDelivering},
			{Name: "takeover", Measure: x.measureTakeOver},
		},
		SetUp: func(ctx context.Context, work func(context.Context) error) error { return x.setUp(ctx, o, work) },
	}
}

const (
	mostInstances = 16
	// quiet is how long processes have been idle before that is measured, and window how long
	// it is measured.
	quiet  = 10 * time.Second
	window = 20 * time.Second
)

// noAudit turns the verification in the background off, which is work, not idleness: with
// so many new workspaces it would go on for hours.
const noAudit = "LEDGERFEED_AUDIT_EVERY=0"

// rolesOf are the roles of the i-th process. The first has all.
func rolesOf(i int) string {
	return []string{"api,project,deliver,console", "api", "project,deliver", "project,deliver"}[i%4]
}

// works reports whether the i-th process projects and delivers.
func works(i int) bool { return i%4 != 1 }

// instances are processes beside each other.
type instances struct {
	*measure.Database
	webhooks *deliverbench.Subscriptions
	running  []*served
	hooked   int // workspaces with a webhook, the first ones
	all      int // workspaces
	invoices int // the number of the last one
}

// setUp makes what the parts share. Each starts the processes that it needs, which the next
// goes on with.
func (x *instances) setUp(ctx context.Context, o *measure.Options, work func(context.Context) error) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) (err error) {
		*x = instances{Database: db, all: o.Size(20_000, 200), hooked: o.Size(2_000, 100)}
		if err := x.fill(ctx); err != nil {
			return err
		}
		defer x.webhooks.Close()
		defer func() { err = errors.Join(err, x.stop()) }()
		return work(ctx)
	})
}

// fill makes the workspaces, all of them projected and with their trees, and webhooks of some.
func (x *instances) fill(ctx context.Context) error {
	x.Say("making %d workspaces, %d of them with a webhook", x.all, x.hooked)
	if err := x.appendTo(ctx, 0, x.all); err != nil {
		return err
	}
	if err := x.project(ctx); err != nil {
		return err
	}
	var err error
	if x.webhooks, err = deliverbench.Subscribe(x.Database); err != nil {
		return err
	}
	// Counting the events for the console's charts is work, too.
	_, err = x.Pool.Exec(ctx, `
		INSERT INTO event_rollup_cursor (workspace_id, position) SELECT workspace_id, position FROM log_checkpoint WHERE consumer = 'read_models'
		    ON CONFLICT (workspace_id) DO UPDATE SET position = excluded.position`)
	if err != nil {
		return fmt.Errorf("cannot move the cursors of counted events: %w", err)
	}
	for w := range x.hooked {
		if err := x.webhooks.Add(ctx, workload.WorkspaceID(w)); err != nil {
			return err
		}
	}
	return x.Quiesce(ctx)
}

// project has everything projected and the trees built, so that no process has that to do
// which is measured while it is idle.
func (x *instances) project(ctx context.Context) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	projected, err := workload.StartProjector(working, x.Database)
	if err != nil {
		return err
	}
	built, err := workload.StartTrees(working, x.Database)
	if err != nil {
		stop()
		return errors.Join(err, <-projected)
	}
	err = workload.AwaitProjected(ctx, x.Database)
	if err == nil {
		err = workload.AwaitTrees(ctx, x.Database)
	}
	stop()
	return errors.Join(err, <-projected, <-built)
}

// appendTo appends an event to each of the workspaces from one on and before another, and
// tells the processes.
func (x *instances) appendTo(ctx context.Context, first, end int) error {
	const batch = 500
	x.invoices++
	data := fmt.Appendf(nil, `{"invoice_id":"in_%d","invoice_number":"%[1]d","amount":"420.00"}`, x.invoices)
	for from := first; from < end; from += batch {
		var drafts []domain.Draft
		for w := from; w < min(end, from+batch); w++ {
			d, err := domain.NewDraft(workload.WorkspaceID(w), "invoice.issued", data)
			if err != nil {
				return fmt.Errorf("cannot make entries to measure with: %w", err)
			}
			drafts = append(drafts, d)
		}
		if _, err := x.Log.Append(ctx, drafts...); err != nil {
			return err
		}
		if err := x.Notifier.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// grow starts processes until there are n.
func (x *instances) grow(ctx context.Context, n int) error {
	for len(x.running) < n {
		s, err := start(ctx, x.Database, rolesOf(len(x.running)), x.webhooks, noAudit)
		if err != nil {
			return err
		}
		x.running = append(x.running, s)
	}
	return nil
}

func (x *instances) stop() (err error) {
	err = x.signal(continueSignal) // a measurement that failed may have left some stopped
	for _, s := range x.running {
		err = errors.Join(err, s.stop())
	}
	return err
}

// idleCost is what idle processes take in a second, each on the average.
type idleCost struct {
	process, server float64 // processor time, as a share of one
	dearest         float64 // process, of the one that takes most
	statements      float64
	served          float64 // time that PostgreSQL works on their statements, as a share
}

// measureIdle reports what 1, 4, 8 and 16 processes take that have nothing to do.
func (x *instances) measureIdle(ctx context.Context) error {
	if _, err := x.Pool.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS pg_stat_statements`); err != nil {
		return fmt.Errorf("statements cannot be counted; the server needs shared_preload_libraries = pg_stat_statements: %w", err)
	}
	costs := map[int]idleCost{}
	for _, n := range []int{1, 4, 8, mostInstances} {
		if err := x.grow(ctx, n); err != nil {
			return err
		}
		x.Say("%d processes are idle", n)
		c, err := x.idle(ctx)
		if err != nil {
			return err
		}
		costs[n] = c
		what := fmt.Sprintf("%d idle processes, each on the average", n)
		if n == 1 {
			what = "one idle process with all roles"
		}
		x.Report.Add(measure.Figure{Name: what + ": statements", Value: c.statements, Unit: "/s"}.Below(10))
		x.Report.Add(measure.Figure{Name: "    processor time", Value: 100 * c.process, Unit: "%"}.Below(1))
		x.Report.Add(measure.Figure{Name: "    processor time of the one that takes most", Value: 100 * c.dearest, Unit: "%"}.Below(1))
		x.Report.Add(measure.Figure{Name: "    processor time of PostgreSQL", Value: 100 * c.server, Unit: "%"})
		x.Report.Add(measure.Figure{Name: "    time PostgreSQL works on their statements", Value: 100 * c.served, Unit: "%"})
	}
	x.Report.Add(measure.Figure{
		Name: "statements of each of 16", Value: costs[mostInstances].statements, Unit: "/s", Limit: costs[4].statements, LimitIs: "of each of 4",
	}.RatioAtMost(1.2))
	x.Report.Add(measure.Figure{
		Name: "time for the statements of each of 16", Value: 100 * costs[mostInstances].served, Unit: "%", Limit: 100 * costs[4].served, LimitIs: "of each of 4",
	}.RatioAtMost(1.5))
	return nil
}

// idle measures processes that have nothing to do.
func (x *instances) idle(ctx context.Context) (c idleCost, err error) {
	if err := measure.Pause(ctx, x.Duration(quiet)); err != nil {
		return c, err
	}
	if _, err := x.Pool.Exec(ctx, `SELECT pg_stat_statements_reset()`); err != nil {
		return c, fmt.Errorf("cannot count statements: %w", err)
	}
	before, server, err := x.times(ctx)
	if err != nil {
		return c, err
	}
	began := time.Now()
	if err := measure.Pause(ctx, x.Duration(window)); err != nil {
		return c, err
	}
	after, serverAfter, err := x.times(ctx)
	if err != nil {
		return c, err
	}
	took, n := time.Since(began).Seconds(), float64(len(x.running))
	for i := range after {
		share := (after[i] - before[i]).Seconds() / took
		c.process += share / n
		c.dearest = max(c.dearest, share)
	}
	c.server = (serverAfter - server).Seconds() / took / n
	var calls, milliseconds float64
	// Not this benchmark's own.
	err = x.Pool.QueryRow(ctx, `
		SELECT coalesce(sum(calls), 0), coalesce(sum(total_exec_time), 0) FROM pg_stat_statements
		 WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND query !~ 'pg_stat_statements|pg_backend_pid'`).Scan(&calls, &milliseconds)
	if err != nil {
		return c, fmt.Errorf("cannot count statements: %w", err)
	}
	c.statements, c.served = calls/took/n, milliseconds/1000/took/n
	return c, x.sayDearest(ctx, took*n)
}

// sayDearest names the statements that take most.
func (x *instances) sayDearest(ctx context.Context, seconds float64) error {
	rows, err := x.Pool.Query(ctx, `
		SELECT calls, total_exec_time, left(regexp_replace(query, '\s+', ' ', 'g'), 110) FROM pg_stat_statements
		 WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND query !~ 'pg_stat_statements|pg_backend_pid'
		 ORDER BY total_exec_time DESC LIMIT 12`)
	if err != nil {
		return fmt.Errorf("cannot count statements: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var calls, milliseconds float64
		var text string
		if err := rows.Scan(&calls, &milliseconds, &text); err != nil {
			return fmt.Errorf("cannot count statements: %w", err)
		}
		x.Say("    %6.2f/s %7.3f ms/s  %s", calls/seconds, milliseconds/seconds, text)
	}
	return rows.Err()
}

// times are the processor times of each process, and of the server.
func (x *instances) times(ctx context.Context) (each []time.Duration, server time.Duration, err error) {
	for _, s := range x.running {
		t, err := processTime(s.cmd.Process.Pid)
		if err != nil {
			return nil, 0, err
		}
		each = append(each, t)
	}
	server, err = serverTime(ctx, x.Database)
	return each, server, err
}
