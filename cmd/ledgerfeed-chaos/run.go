//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/cluster"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/copies"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/fault"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/region"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/report"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// settings of every process of the program: webhooks that are tried again within
// seconds, so that a run sees the end of it, and the background verification.
func settings() []string {
	schedule := "200ms,500ms,1s,1s,2s,2s"
	for range 24 {
		schedule += ",4s"
	}
	return []string{
		"LEDGERFEED_SECRET_KEY=0123456789abcdef0123456789abcdef", "LEDGERFEED_RETRY_SCHEDULE=" + schedule,
		"LEDGERFEED_WEBHOOK_TIMEOUT=3s", "LEDGERFEED_AUDIT_EVERY=20s", "LEDGERFEED_CREATE_WORKSPACES=true",
	}
}

// chaos is a run.
type chaos struct {
	*options

	out, errOut io.Writer
	began       time.Time
	findings    *check.Findings
	cluster     *cluster.Cluster
	work        *workload.Workload
	region      *region.Region // nil: no fault is about one
	copies      *copies.Copies // nil: no fault is about one
	through     region.Figures
	runner      *fault.Runner
	compared    int // rows of read models
	times       int // how often they were compared
}

// run makes a run and reports it.
func run(ctx context.Context, o *options, out, errOut io.Writer) (err error) {
	if o.dir, err = makeDir(o.dir); err != nil {
		return err
	}
	fmt.Fprintf(errOut, "seed %d; everything is in %s\n", o.seed, o.dir)
	defer func() {
		if !o.keep { // which finding something sets
			err = errors.Join(err, os.RemoveAll(o.dir))
		}
	}()
	if o.program == "" {
		if o.program, err = build(ctx, o.dir, "ledgerfeed"); err != nil {
			return err
		}
	}
	c := &chaos{options: o, out: out, errOut: errOut, findings: &check.Findings{}}
	if c.cluster, err = cluster.New(ctx, cluster.Config{Dir: o.dir, Program: o.program, Program0: o.program0, Processes: o.processes}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.cluster.Close()) }()
	return c.run(ctx)
}

// makeDir makes a directory that PostgreSQL's account can enter.
func makeDir(dir string) (string, error) {
	if dir == "" {
		base := ""
		if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
			base = "/dev/shm"
		}
		made, err := os.MkdirTemp(base, "ledgerfeed-chaos-")
		if err != nil {
			return "", err
		}
		if err := os.Chmod(made, 0o755); err != nil {
			return "", err
		}
		dir = made
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	absolute, err := filepath.Abs(dir)
	if err == nil {
		absolute, err = filepath.EvalSymlinks(absolute) // as the system names what works there
	}
	if err != nil {
		return "", fmt.Errorf("cannot find the directory: %w", err)
	}
	return absolute, nil
}

// build builds a program of this module.
func build(ctx context.Context, dir, name string) (string, error) {
	program := filepath.Join(dir, name)
	c := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/ledgerfeed/ledgerfeed/cmd/"+name)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("cannot build %s (--program and --reader name programs that exist): %w\n%s", name, err, out.Bytes())
	}
	return program, nil
}

func (c *chaos) run(ctx context.Context) (err error) {
	c.cluster.Configure(settings()...)
	c.work, err = workload.New(ctx, workload.Config{Cluster: c.cluster, Findings: c.findings, Dir: c.dir, Seed: c.seed, Workspaces: c.workspaces, Pace: c.pace})
	if err != nil {
		return err
	}
	if _, err := c.cluster.Output(ctx, "migrate"); err != nil {
		return err
	}
	if err := c.work.Prepare(ctx); err != nil {
		return err
	}
	if err := c.makeRegion(ctx); err != nil {
		return err
	}
	if err := c.makeCopies(ctx); err != nil {
		return err
	}
	c.cluster.Start(ctx)
	c.work.Start(ctx)
	if c.region != nil {
		c.region.Start(ctx)
	}
	c.began = time.Now()
	if err := c.awaitAnswers(ctx); err != nil {
		return err
	}
	faults := c.doFaults(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var settling sync.WaitGroup
	if c.region != nil {
		settling.Go(func() { c.region.Settle(ctx) })
	}
	c.settle(ctx)
	settling.Wait()
	return c.conclude(ctx, faults)
}

// makeRegion makes a second installation if a fault may be about it.
func (c *chaos) makeRegion(ctx context.Context) (err error) {
	if slices.ContainsFunc(c.kinds(fault.Kinds()), func(k *fault.Kind) bool { return fault.IsRegional(k.Name) }) {
		c.region, err = region.New(ctx, region.Config{Cluster: c.cluster, Findings: c.findings, Dir: c.dir, Seed: c.seed, Pace: c.pace})
	}
	return err
}

// makeCopies makes readers that keep copies if a fault may be about them.
func (c *chaos) makeCopies(ctx context.Context) (err error) {
	if !slices.ContainsFunc(c.kinds(fault.Kinds()), func(k *fault.Kind) bool { return fault.IsOfCopies(k.Name) }) {
		return nil
	}
	if c.reader == "" {
		if c.reader, err = build(ctx, c.dir, "ledgerfeed-reader"); err != nil {
			return err
		}
	}
	c.copies, err = copies.New(ctx, copies.Config{
		Cluster: c.cluster, Findings: c.findings, Dir: c.dir, Program: c.reader, Workspaces: c.work.Workspaces(), Keys: c.work.Keys,
	})
	return err
}

// awaitAnswers returns when every process answers.
func (c *chaos) awaitAnswers(ctx context.Context) error {
	began := time.Now()
	for !c.work.Readers.Answers(began, c.readers()...) {
		if !flow.Sleep(ctx, 50*time.Millisecond) || time.Since(began) > time.Minute {
			return errors.New("not every process answers within a minute")
		}
	}
	return nil
}

func (c *chaos) readers() (list []string) {
	for _, p := range c.cluster.Processes {
		list = append(list, p.Name)
	}
	return list
}

// doFaults does the faults while read models are compared.
func (c *chaos) doFaults(ctx context.Context) []check.Fault {
	stage := &fault.Stage{Cluster: c.cluster, Work: c.work, Region: c.region, Copies: c.copies}
	c.runner = &fault.Runner{Stage: stage, Out: c.errOut, Most: c.faults, For: c.runFor, AtOnce: c.atOnce, Began: c.began}
	until, end := context.WithCancel(ctx)
	defer end()
	comparing, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pause := compareEvery; flow.Sleep(comparing, pause); {
			began := time.Now()
			c.compare(comparing, "while faults happen")
			pause = max(compareEvery, 10*time.Since(began)) // it takes longer as the log grows
			if c.untilFound && len(c.findings.List()) > 0 {
				end()
			}
		}
	}()
	kinds := c.kinds(fault.Possible(stage))
	faults := c.runner.Run(ctx, until, fault.Schedule(c.seed, kinds, c.shorter))
	stop()
	<-ended
	return faults
}

const compareEvery = 10 * time.Second

// compare compares the read models with a fold, if the database answers.
func (c *chaos) compare(ctx context.Context, when string) {
	err := c.cluster.Primary().With(ctx, func(conn *pgx.Conn) error {
		rows, err := check.CompareReadModels(ctx, conn, when, c.findings)
		if err == nil {
			c.compared, c.times = c.compared+rows, c.times+1
		}
		return err
	})
	_ = err // a fault is under way
}

// deliveredTimeout is how long after the last fault receivers may wait for an event:
// longer than the whole retry schedule.
const deliveredTimeout = 150 * time.Second

// settle waits until everything that was begun has come to its end. Connections that
// went silent stay so: nobody comes to reset them.
func (c *chaos) settle(ctx context.Context) {
	if err := c.awaitAnswers(ctx); err != nil {
		c.findings.Add(check.RuleAnswers, "after the last fault: %v", err)
	}
	c.work.StopProducers()
	if err := c.awaitReadModels(ctx); err != nil {
		c.findings.Add(check.RuleReadModels, "after the last append nothing was projected for 2 minutes, though not everything was: %v", err)
	}
	c.work.StopFollowers()
	if c.copies != nil {
		c.copies.Check(ctx)
	}
	deadline := time.Now().Add(deliveredTimeout)
	log, err := c.readLog(ctx)
	for waiting := err == nil; waiting; {
		waiting = !c.delivered(log) && time.Now().Before(deadline) && flow.Sleep(ctx, 500*time.Millisecond)
	}
	c.work.StopOthers()
}

// awaitReadModels returns when everything is projected, or with an error when nothing was for two
// minutes. How long everything takes depends on the log: a rename changes every row of its party,
// so an hour's log has some thousand entries left that change thousands of rows each.
func (c *chaos) awaitReadModels(ctx context.Context) error {
	const behind = `SELECT sum(h.position - c.position)::bigint FROM log_head h JOIN log_checkpoint c USING (workspace_id) WHERE c.consumer = '` + eventlog.ReadModels + `'`
	var before, now int64
	if err := c.cluster.Primary().QueryRow(ctx, behind, &before); err != nil {
		return err
	}
	for {
		_, err := c.cluster.Output(ctx, "status", "--wait", "--timeout", "2m")
		if err == nil {
			return nil
		}
		if failed := c.cluster.Primary().QueryRow(ctx, behind, &now); failed != nil || now >= before {
			return errors.Join(err, failed)
		}
		before = now
	}
}

// delivered tells whether every receiver has every event.
func (c *chaos) delivered(log *check.Log) bool {
	for _, inbox := range c.work.Receivers.Inboxes() {
		if len(inbox.Missing(log)) > 0 {
			return false
		}
	}
	return true
}

func (c *chaos) readLog(ctx context.Context) (log *check.Log, err error) {
	err = c.cluster.Primary().With(ctx, func(conn *pgx.Conn) error {
		log, err = check.ReadLog(ctx, conn)
		return err
	})
	return log, err
}

// conclude makes the last checks and the report.
func (c *chaos) conclude(ctx context.Context, faults []check.Fault) error {
	log, err := c.readLog(ctx)
	if err != nil {
		return err
	}
	var outbox map[string]map[string]bool
	if err := c.cluster.Primary().With(ctx, func(conn *pgx.Conn) error { outbox, err = c.work.Outbox(ctx, conn); return err }); err != nil {
		return err
	}
	log.CheckWhole(time.Now(), c.findings)
	log.CheckHistory(c.work.History, c.findings)
	log.CheckOutbox(c.work.History, outbox, c.findings)
	c.compare(ctx, "at the end")
	states := log.Fold()
	for _, f := range c.work.Follows {
		if f.List == check.ListEvents {
			log.CheckEvents(f, c.work.History, c.findings)
		} else if states[f.Workspace] != nil {
			check.HeldRows(f, states[f.Workspace], c.work.History, c.findings)
		}
	}
	for _, inbox := range c.work.Receivers.Inboxes() {
		inbox.Check(log, c.work.History, disturbances(faults), c.findings)
	}
	gaps := c.work.Readers.Gaps()
	check.AnswersInTime(gaps, faults, workload.Anybody, c.findings)
	check.BystandersUnaffected(c.work.Bystander.Samples(), faults, fault.Bystanding(), c.findings)
	c.checkProcesses(faults)
	if _, err := c.cluster.Output(ctx, "verify"); err != nil {
		c.findings.Add(check.RuleVerify, "at the end: %v", err)
	}
	if c.region != nil {
		if c.through, err = c.region.Check(ctx); err != nil {
			return err
		}
	}
	figures, err := c.figures(log)
	if err != nil {
		return err
	}
	r := &report.Report{
		Seed: c.seed, Took: time.Since(c.began), Faults: faults, Findings: c.findings.List(), Counts: c.findings.Counts(),
		Longest: check.Longest(gaps, faults, workload.Anybody), Each: map[string]time.Duration{}, Figures: figures,
	}
	for _, name := range c.readers() {
		for kind, d := range check.Longest(gaps, faults, name) {
			r.Each[kind] = max(r.Each[kind], d)
		}
	}
	if err := r.Write(c.out); err != nil {
		return err
	}
	if len(r.Findings) > 0 {
		c.keep = true
		return fmt.Errorf("%w: run again with --seed %d; the logs are in %s", errFound, c.seed, c.dir)
	}
	return nil
}

// disturbances are the moments at which attempts can end without a record.
func disturbances(faults []check.Fault) (list []time.Time) {
	for i := range faults {
		if len(faults[i].Touches) > 0 && !fault.IsRegional(faults[i].Kind) && !fault.IsOfCopies(faults[i].Kind) {
			list = append(list, faults[i].Began)
		}
	}
	return list
}

// Bounds of a process that serves.
const (
	mostMemory      = 768 << 20
	mostDescriptors = 400
)

func (c *chaos) checkProcesses(faults []check.Fault) {
	for _, p := range c.cluster.All() {
		s := p.Summary()
		if s.MostMemory > mostMemory {
			c.findings.Add(check.RuleBounds, "process %s had %d MiB", s.Name, s.MostMemory>>20)
		}
		if s.MostDescriptors > mostDescriptors {
			c.findings.Add(check.RuleBounds, "process %s had %d open files", s.Name, s.MostDescriptors)
		}
		for _, end := range s.Unexplained {
			if !check.Excused(end.At, faults, s.Name) {
				c.findings.Add(check.RuleProcess, "process %s ended at %s: %s", s.Name, end.At.Format(time.TimeOnly), end.How)
			}
		}
	}
}

func (c *chaos) figures(log *check.Log) (list []report.Figure, err error) {
	add := func(name, format string, args ...any) {
		list = append(list, report.Figure{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	offered, acknowledged, again, refused, lost := c.work.History.Counts()
	add("entries offered, acknowledged, in the log", "%d, %d, %d", offered, acknowledged, log.Count())
	add("offered more than once because the outcome was unknown", "%d", again)
	add("refused", "%d", refused)
	add("acknowledged and destroyed with a tail by a fault", "%d", lost)
	var pages, told int
	for _, f := range c.work.Follows {
		pages, told = pages+f.Pages, told+f.Told
	}
	add("followers, pages they read, times their cursor was refused and they started again", "%d, %d, %d", len(c.work.Follows), pages, told)
	var attempts, events, repeats int
	for _, b := range c.work.Receivers.Inboxes() {
		a, e, r := b.Counts()
		attempts, events, repeats = attempts+a, events+e, repeats+r
	}
	add("attempts at receivers, events accepted, repeats", "%d, %d, %d", attempts, events, repeats)
	add("comparisons of read models with a fold, rows", "%d, %d", c.times, c.compared)
	verified, rebuilt := c.work.Beside()
	add("runs of verify, rebuild beside the load", "%d, %d", verified, rebuilt)
	if c.region != nil {
		t := c.through
		add("messages of an outbox that are entries, dead letters, messages in the broker, repeats among them, entries of the follower region", "%d, %d, %d, %d, %d", t.Offered, t.Refused, t.Stored, t.Repeats, t.Followed)
	}
	if c.copies != nil {
		again, err := c.copies.StartedAgain()
		if err != nil {
			return nil, err
		}
		add("copies that readers keep, lists that they copied again from the start", "%d, %d", len(c.copies.List), again)
	}
	for _, p := range c.cluster.All() {
		s := p.Summary()
		add("process "+s.Name+": starts, most memory, most open files", "%d, %d MiB, %s", s.Starts, s.MostMemory>>20, strconv.Itoa(s.MostDescriptors))
	}
	return list, nil
}
