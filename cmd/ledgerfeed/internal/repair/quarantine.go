package repair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// QuarantineCommand is ledgerfeed quarantine.
func QuarantineCommand(env *operate.Env) *cobra.Command {
	return cli.Group("quarantine", "List, retry or skip entries that cannot be projected or relayed",
		quarantineListCommand(env), quarantineShowCommand(env), quarantineRetryCommand(env), quarantineSkipCommand(env))
}

// consumerFlag adds the flag that says whose quarantine a command is about.
func consumerFlag(c *cobra.Command, consumer *string) {
	c.Flags().StringVar(consumer, "consumer", eventlog.ReadModels, "the consumer: read_models, event_trees, or relay:NAME for a relay")
}

// quarantineOf is the quarantine of a consumer that there is.
func quarantineOf(ctx context.Context, d *operate.Deps, consumer string) (*eventlog.Quarantine, error) {
	names, err := eventlog.Consumers(ctx, d.Pool)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, consumer) && consumer != eventlog.ReadModels {
		return nil, cli.Usagef("--consumer: there is no %q; want one of %s", consumer, strings.Join(names, ", "))
	}
	return d.Quarantine(consumer), nil
}

// quarantineView is a workspace that waits at an entry that a consumer cannot handle.
type quarantineView struct {
	Consumer    string     `json:"consumer"`
	WorkspaceID string     `json:"workspace_id"`
	Position    int64      `json:"position"` // of the entry it waits at
	Error       string     `json:"error"`
	Failures    int        `json:"failures"`
	RetryAt     *time.Time `json:"retry_at"` // null: at the next poll
	Behind      int64      `json:"behind"`   // entries not handled, this one included
}

// quarantineListView is what list prints as JSON.
type quarantineListView struct {
	Quarantined []quarantineView `json:"quarantined"`
	Skipped     []eventlog.Skip  `json:"skipped"`
}

func quarantined(ctx context.Context, d *operate.Deps, consumer, workspaceID string) ([]quarantineView, error) {
	progress, err := eventlog.ReadProgress(ctx, d.Pool, consumer, workspaceID)
	if err != nil {
		return nil, err
	}
	if workspaceID != "" && len(progress) == 0 {
		return nil, &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
	}
	list := []quarantineView{}
	for i := range progress {
		q := &progress[i]
		if q.Quarantined {
			var retry *time.Time
			if !q.RetryAt.IsZero() {
				retry = &q.RetryAt
			}
			list = append(list, quarantineView{consumer, q.WorkspaceID, q.Position + 1, q.Error, q.Failures, retry, q.Head - q.Position})
		}
	}
	return list, nil
}

func quarantineListCommand(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List quarantined workspaces and skipped entries",
		Args:  cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			return env.WithDeps(ctx, func(d *operate.Deps) error {
				names, err := eventlog.Consumers(ctx, d.Pool)
				if err != nil {
					return err
				}
				list, skips := []quarantineView{}, []eventlog.Skip{}
				for _, consumer := range names {
					waiting, err := quarantined(ctx, d, consumer, "")
					if err != nil {
						return err
					}
					skipped, err := d.Quarantine(consumer).Skips(ctx, "")
					if err != nil {
						return err
					}
					list, skips = append(list, waiting...), append(skips, skipped...)
				}
				return env.Print(quarantineListView{list, skips}, func(out io.Writer) error { return writeQuarantined(out, list, skips) })
			})
		}),
	}
}

func writeQuarantined(out io.Writer, list []quarantineView, skips []eventlog.Skip) error {
	if len(list) == 0 {
		fmt.Fprintln(out, "No workspace is quarantined.")
		return writeSkips(out, skips)
	}
	err := cli.Table(out, "CONSUMER\tWORKSPACE\tPOSITION\tWAITING\tFAILURES\tERROR", list, func(q *quarantineView) string {
		return fmt.Sprintf("%s\t%s\t%d\t%d\t%d\t%s", q.Consumer, q.WorkspaceID, q.Position, q.Behind, q.Failures, q.Error)
	})
	return errors.Join(err, writeSkips(out, skips))
}

func writeSkips(out io.Writer, skips []eventlog.Skip) error {
	for i := range skips {
		s := &skips[i]
		by := ""
		if s.Consumer != eventlog.ReadModels {
			by = " by " + s.Consumer
		}
		if _, err := fmt.Fprintf(out, "skipped%s in %s at position %d, %s (%s), on %s, because: %s\n",
			by, s.WorkspaceID, s.Position, s.EventID, s.Type, domain.FormatTime(s.SkippedAt), s.Reason); err != nil {
			return err
		}
	}
	return nil
}

// quarantineShowView is what show prints as JSON.
type quarantineShowView struct {
	*quarantineView                    // absent when the workspace does not wait
	Entry           json.RawMessage    `json:"entry,omitempty"` // that it waits at, in the form of export
	History         []eventlog.Failure `json:"history"`
	Skipped         []eventlog.Skip    `json:"skipped"`
}

func quarantineShowCommand(env *operate.Env) *cobra.Command {
	var consumer string
	c := &cobra.Command{
		Use:   "show WORKSPACE",
		Short: "Show the entry that stops a workspace, the error, and its history",
		Args:  cli.ExactArgs(1),
		RunE: env.RunReading(func(ctx context.Context, args []string) error {
			return env.WithDeps(ctx, func(d *operate.Deps) error {
				v, err := showQuarantine(ctx, d, consumer, args[0])
				if err != nil {
					return err
				}
				return env.Print(v, func(out io.Writer) error { return writeQuarantine(out, args[0], v) })
			})
		}),
	}
	consumerFlag(c, &consumer)
	return c
}

func showQuarantine(ctx context.Context, d *operate.Deps, consumer, workspaceID string) (*quarantineShowView, error) {
	v := &quarantineShowView{History: []eventlog.Failure{}, Skipped: []eventlog.Skip{}}
	of, err := quarantineOf(ctx, d, consumer)
	if err != nil {
		return nil, err
	}
	list, err := quarantined(ctx, d, consumer, workspaceID)
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		v.quarantineView = &list[0]
		entry, err := d.Log.EntryAt(ctx, workspaceID, list[0].Position)
		if err != nil {
			return nil, err
		}
		if entry != nil {
			v.Entry = json.RawMessage(entry.AppendChainedNDJSON(nil))
		}
	}
	failures, err := of.Failures(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	skips, err := of.Skips(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	v.History = append(v.History, failures...)
	v.Skipped = append(v.Skipped, skips...)
	return v, nil
}

func writeQuarantine(out io.Writer, workspaceID string, v *quarantineShowView) error {
	if v.quarantineView == nil {
		fmt.Fprintf(out, "%s is not quarantined.\n", workspaceID)
	} else {
		fmt.Fprintf(out, "%s waits at position %d; %s not handled, this one included.\nEntry: %sError: %s\nFailures: %d, next attempt: %s\n",
			workspaceID, v.Position, texts.Count(v.Behind, "entry is", "entries are"), v.Entry, v.Error, v.Failures, nextAttempt(v.RetryAt))
	}
	for i := range v.History {
		f := &v.History[i]
		fmt.Fprintf(out, "%s failed %s, from %s to %s: %s\n",
			positions(f.From, f.Through), texts.Count(f.Times, "time", "times"), domain.FormatTime(f.FirstAt), domain.FormatTime(f.LastAt), f.Error)
	}
	return writeSkips(out, v.Skipped)
}

func positions(from, through int64) string {
	if from == through {
		return fmt.Sprintf("position %d", from)
	}
	return fmt.Sprintf("positions %d to %d", from, through)
}

func nextAttempt(at *time.Time) string {
	if at == nil {
		return "at once"
	}
	return domain.FormatTime(*at)
}

func quarantineRetryCommand(env *operate.Env) *cobra.Command {
	var (
		position int64
		consumer string
	)
	c := &cobra.Command{
		Use:   "retry WORKSPACE",
		Short: "Let a running service retry the entry that stops a workspace",
		Long: `Let a running service retry now the entry that stops a workspace.

With --position, restore a skipped entry. The command rebuilds the workspace with this
entry while readers keep reading. If the entry still fails, nothing changes and the entry
stays skipped.`,
		Args: cli.ExactArgs(1),
		RunE: env.Run(func(ctx context.Context, args []string) error {
			if position < 0 {
				return cli.Usagef("--position is %d: want the position of a skipped entry", position)
			}
			if position > 0 && consumer != eventlog.ReadModels {
				return cli.Usagef("--position is for entries that the read models have skipped")
			}
			if position > 0 {
				return restore(ctx, env, args[0], position)
			}
			return retryQuarantined(ctx, env, consumer, args[0])
		}),
	}
	c.Flags().Int64Var(&position, "position", 0, "restore the skipped entry at this position")
	consumerFlag(c, &consumer)
	return c
}

func retryQuarantined(ctx context.Context, env *operate.Env, consumer, workspaceID string) error {
	return env.WithDeps(ctx, func(d *operate.Deps) error {
		of, err := quarantineOf(ctx, d, consumer)
		if err != nil {
			return err
		}
		if err := of.Retry(ctx, workspaceID); err != nil {
			return err
		}
		return env.Print(map[string]string{"workspace_id": workspaceID}, env.Line(workspaceID+" is tried again within seconds if ledgerfeed serve is running."))
	})
}

// restore gives an entry that was skipped its effect.
func restore(ctx context.Context, env *operate.Env, workspaceID string, position int64) error {
	f := flags{workers: 1, memoryMiB: defaultMemoryMiB, rate: yieldingRate}
	return with(ctx, env, "retry", f, func(r *running) error {
		b, err := r.Restore(ctx, workspaceID, position)
		r.quiet()
		if err != nil {
			return interrupted(ctx, err, "nothing was changed")
		}
		if err := env.Print(b, func(out io.Writer) error { return writeRestored(out, &b, position) }); err != nil {
			return err
		}
		if b.Refused != "" {
			return fmt.Errorf("the entry at position %d of %s stays skipped", position, workspaceID)
		}
		return nil
	})
}

func writeRestored(out io.Writer, b *replay.Rebuilt, position int64) (err error) {
	if b.Refused != "" {
		_, err = fmt.Fprintf(out, "%s: refused: %s\n", b.WorkspaceID, b.Refused)
		return err
	}
	_, err = fmt.Fprintf(out, "%s: the entry at position %d is restored: %s written, %s deleted\n",
		b.WorkspaceID, position, counted(b.Written, "row", "rows"), thousands(b.Deleted))
	return err
}

func quarantineSkipCommand(env *operate.Env) *cobra.Command {
	var reason, consumer string
	c := &cobra.Command{
		Use:   "skip WORKSPACE --reason TEXT",
		Short: "Skip the entry that stops a workspace",
		Long: `Skip the entry that stops a workspace. The entry has no effect on the read models, now or
in a rebuild. The projector continues with the next entry. The skipped entry stays in the
log, and the feed shows it if the feed shows its type. ledgerfeed quarantine list shows it
with your reason. To restore it, use ledgerfeed quarantine retry --position.

With --consumer relay:NAME, the relay of that name does not send the entry and continues
with the next one. ledgerfeed status shows which entry the relay cannot send.`,
		Args: cli.ExactArgs(1),
		RunE: env.Run(func(ctx context.Context, args []string) error {
			if reason == "" {
				return cli.Usagef("--reason is empty: want why the entry may be skipped")
			}
			if consumer == eventtree.Consumer {
				return cli.Usagef("--consumer is %s: a tree of events without one of them proves nothing; ledgerfeed rebuild event-trees makes it anew", consumer)
			}
			return env.WithDeps(ctx, func(d *operate.Deps) error {
				of, err := quarantineOf(ctx, d, consumer)
				if err != nil {
					return err
				}
				s, err := of.Skip(ctx, args[0], reason)
				var not *eventlog.NotQuarantinedError
				if errors.As(err, &not) {
					return fmt.Errorf("%w: only an entry that a workspace waits at can be skipped", err)
				}
				if err != nil {
					return err
				}
				return env.Print(s, func(out io.Writer) error { return writeSkips(out, []eventlog.Skip{s}) })
			})
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why you skip the entry, in words; listed with it")
	consumerFlag(c, &consumer)
	_ = c.MarkFlagRequired("reason") // it is defined above
	return c
}
