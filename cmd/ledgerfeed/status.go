package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// statusView is what status prints as JSON.
type statusView struct {
	Projections []*projections.Status `json:"projections"`
	Delivery    []delivery.Lag        `json:"delivery"` // a row a webhook
}

func (p *program) statusCommand() *cobra.Command {
	var (
		workspace string
		wait      bool
		patience  time.Duration
	)
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how far the read models are, anomalies, and what is quarantined",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			return p.withLog(ctx, func(w *workbench) error {
				if wait {
					if err := p.awaitProjected(ctx, w, workspace, patience); err != nil {
						return err
					}
				}
				s, err := projections.ReadStatus(ctx, w.pool, w.log, p.clock(), workspace)
				if err != nil {
					return err
				}
				if p.rules.Version > 0 {
					s.CompareRules(p.rules.Version)
				}
				lags, err := delivery.ReadStatus(ctx, w.pool, p.clock(), workspace)
				if err != nil {
					return err
				}
				if lags == nil {
					lags = []delivery.Lag{}
				}
				return p.print(statusView{[]*projections.Status{s}, lags}, func(out io.Writer) error {
					return errors.Join(writeStatus(out, s), writeLags(out, lags))
				})
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "only this workspace")
	c.Flags().BoolVar(&wait, "wait", false, "return when everything that is in the log now is projected")
	c.Flags().DurationVar(&patience, "timeout", 0, "with --wait: fail after this time (default: wait as long as it takes)")
	return c
}

// waitSweep is how long --wait trusts in being woken.
const waitSweep = 200 * time.Millisecond

// standstill is when --wait says that it may wait in vain.
const standstill = 10 * time.Second

// awaitProjected waits until the read models have what the log held when it
// was called.
func (p *program) awaitProjected(ctx context.Context, w *workbench, workspace string, patience time.Duration) error {
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, patience, fmt.Errorf("not everything was projected within %s", patience))
		defer cancel()
	}
	var (
		targets = map[string]int64{}
		first   = true
		least   int64
		moved   = time.Now()
	)
	sweep := time.NewTicker(waitSweep)
	defer sweep.Stop()
	for {
		progress, err := w.log.ProgressOf(ctx, eventlog.ReadModels, workspace)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		behind := int64(0)
		for i := range progress {
			if first {
				targets[progress[i].WorkspaceID] = progress[i].Head
			}
			if progress[i].Quarantined {
				return fmt.Errorf("workspace %s waits at position %d, which cannot be projected: %s",
					progress[i].WorkspaceID, progress[i].Position+1, progress[i].Error)
			}
			behind += max(0, targets[progress[i].WorkspaceID]-progress[i].Position)
		}
		if behind == 0 {
			return nil
		}
		if first || behind < least {
			least, moved = behind, time.Now()
		}
		first = false
		if time.Since(moved) > standstill {
			p.logger.WarnContext(ctx, "nothing is being projected: is ledgerfeed serve running on this database?", "behind", behind)
			moved = time.Now()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-sweep.C:
		}
	}
}

// shownAnomalies is how many of a workspace's anomalies are listed for people.
const shownAnomalies = 50

func writeStatus(out io.Writer, s *projections.Status) error {
	fmt.Fprintf(out, "%s: %d of %d entries, lag %d entries and %.1f s, %d anomalies, %d quarantined\n",
		s.Name, s.Position, s.Head, s.LagEntries, s.LagSeconds, s.Anomalies, s.Quarantined)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WORKSPACE\tPOSITION\tHEAD\tLAG\tSECONDS\tANOMALIES\tSTATE")
	for i := range s.Workspaces {
		w := &s.Workspaces[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.1f\t%d\t%s\n", w.WorkspaceID, w.Position, w.Head, w.LagEntries, w.LagSeconds, len(w.Anomalies), workspaceState(w))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if s.OtherRules > 0 {
		fmt.Fprintf(out, "%d workspaces have rows of other rules than this program's, version %d: ledgerfeed rebuild brings them over\n", s.OtherRules, s.Rules)
	}
	for i := range s.Workspaces {
		w := &s.Workspaces[i]
		if w.Waits(s.Rules) {
			fmt.Fprintf(out, "%s has rows of rules %d\n", w.WorkspaceID, w.Rules)
		}
		if w.Skipped > 0 {
			fmt.Fprintf(out, "%s: %d entries were passed over: ledgerfeed quarantine list\n", w.WorkspaceID, w.Skipped)
		}
		if w.Error != nil {
			fmt.Fprintf(out, "%s at position %d, after %d failures: %s\n", w.WorkspaceID, w.Position+1, w.Failures, *w.Error)
		}
		for j, a := range w.Anomalies {
			if j == shownAnomalies {
				fmt.Fprintf(out, "… and %d more in %s: --json lists all\n", len(w.Anomalies)-j, w.WorkspaceID)
				break
			}
			fmt.Fprintf(out, "anomaly in %s at position %d, %s: %s\n", w.WorkspaceID, a.Position, a.EventID, a.Reason)
		}
	}
	return nil
}

func writeLags(out io.Writer, list []delivery.Lag) error {
	if len(list) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nWEBHOOK\tWORKSPACE\tPOSITION\tVISIBLE\tLAG\tSECONDS\tWAITING\tSTATE")
	for i := range list {
		l := &list[i]
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%.1f\t%d\t%s\n", l.WebhookID, l.WorkspaceID, l.Position, l.Visible, l.Entries, l.Seconds, l.Waiting, l.State)
	}
	return t.Flush()
}

func workspaceState(w *projections.WorkspaceStatus) string {
	switch {
	case w.Quarantined:
		return "quarantined"
	case w.Failures > 0:
		return "failing"
	case w.LagEntries > 0:
		return "behind"
	}
	return "ok"
}
