package transfer

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

// checkResult is what append --check prints.
type checkResult struct {
	WouldAppend int `json:"would_append"`
	WouldSkip   int `json:"would_skip"`
	Refused     int `json:"refused"` // lines of a wrong form, and those that the log would refuse
}

func (r *checkResult) text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d would be appended, %d skipped, %d refused; nothing was appended\n", r.WouldAppend, r.WouldSkip, r.Refused)
	return err
}

// runCheck reports what an append would refuse.
func (f *appendFlags) runCheck(ctx context.Context, env *cli.Env, files []string) error {
	sources, closeAll, err := openSources(files, env.In)
	if err != nil {
		return err
	}
	defer closeAll()
	return env.WithDeps(ctx, func(d *cli.Deps) error {
		c := &checker{trial: d.Log.NewTrial(f.create), report: &lineReport{out: env.ErrOut}, meter: &meter{verb: "check"}}
		stop := c.meter.show(env.ErrOut, cli.ProgressEvery)
		for _, s := range sources {
			if err = s.each(ctx, func(number int, line []byte, err error) error {
				n := numbered{source: s.name, number: number}
				if err == nil {
					n.draft, err = f.decode(line)
				}
				return c.add(ctx, n, err)
			}); err != nil {
				break
			}
		}
		if err == nil {
			err = c.flush(ctx)
		}
		stop()
		if err != nil {
			return err
		}
		c.result.Refused = c.report.lines
		if err = env.Print(&c.result, c.result.text); err == nil && c.result.Refused > 0 {
			err = fmt.Errorf("%s would be refused%s", plural.Of(c.result.Refused, "line", "lines"), c.report.shown())
		}
		return err
	})
}

// checker tries lines in batches, and reports them in their order.
type checker struct {
	trial  *eventlog.Trial
	report *lineReport
	meter  *meter
	result checkResult
	batch  []numbered
}

// add adds a line, or reports what is wrong with its form.
func (c *checker) add(ctx context.Context, n numbered, wrong error) error {
	c.meter.done.Add(1)
	if wrong != nil {
		if err := c.flush(ctx); err != nil {
			return err
		}
		c.report.add(&n, wrong)
		return nil
	}
	if c.batch = append(c.batch, n); len(c.batch) < appendBatch {
		return nil
	}
	return c.flush(ctx)
}

func (c *checker) flush(ctx context.Context) error {
	batch := c.batch
	c.batch = nil
	if len(batch) == 0 {
		return nil
	}
	drafts := make([]domain.Draft, len(batch))
	for i := range batch {
		drafts[i] = batch[i].draft
	}
	verdicts, err := c.trial.Append(ctx, drafts...)
	if err != nil {
		return err
	}
	for i, v := range verdicts {
		switch {
		case v.Refused != nil:
			c.report.add(&batch[i], v.Refused)
		case v.Skipped:
			c.result.WouldSkip++
		default:
			c.result.WouldAppend++
		}
	}
	return nil
}

// lineReport writes what is wrong with lines, up to maxReportedLines of them.
type lineReport struct {
	out   io.Writer
	lines int
}

func (r *lineReport) add(n *numbered, wrong error) {
	if r.lines++; r.lines <= maxReportedLines {
		fmt.Fprintf(r.out, "%v: %v\n", n, wrong)
	}
}

// shown says how many of the lines were written.
func (r *lineReport) shown() string {
	if r.lines <= maxReportedLines {
		return ""
	}
	return fmt.Sprintf(", of which the first %d are shown", maxReportedLines)
}

// firstLines has the first line of each workspace of the input.
type firstLines map[string]numbered

func (f firstLines) add(n *numbered) {
	if _, there := f[n.draft.WorkspaceID]; !there {
		f[n.draft.WorkspaceID] = *n
	}
}

// refuseUnknown is an error where workspaces of the input do not exist, before anything is
// appended to others.
func (f firstLines) refuseUnknown(ctx context.Context, log *eventlog.Log, out io.Writer) error {
	unknown, err := log.Unknown(ctx, slices.Sorted(maps.Keys(f))...)
	if err != nil || len(unknown) == 0 {
		return err
	}
	report := &lineReport{out: out}
	for _, w := range unknown {
		n := f[w]
		report.add(&n, eventlog.UnknownWorkspace(w))
	}
	return fmt.Errorf("%s of the input %s not exist%s: make %s with ledgerfeed workspace create, or append with --create-workspace; nothing was appended",
		plural.Of(len(unknown), "workspace", "workspaces"), plural.Word(len(unknown), "does", "do"), report.shown(), plural.Word(len(unknown), "it", "them"))
}

// unknownAt is the index of the first line of a workspace that does not exist, with the reason;
// -1: there is none. Workspaces that known has exist.
func unknownAt(ctx context.Context, log *eventlog.Log, known map[string]int64, batch []numbered) (index int, reason error, err error) {
	first := map[string]int{}
	for i := range batch {
		w := batch[i].draft.WorkspaceID
		if _, there := known[w]; there {
			continue
		}
		if _, there := first[w]; !there {
			first[w] = i
		}
	}
	unknown, err := log.Unknown(ctx, slices.Sorted(maps.Keys(first))...)
	index = -1
	for _, w := range unknown {
		if index < 0 || first[w] < index {
			index = first[w]
			reason = fmt.Errorf("%v: %w: make it with ledgerfeed workspace create, or append with --create-workspace", &batch[index], eventlog.UnknownWorkspace(w))
		}
	}
	return index, reason, err
}
