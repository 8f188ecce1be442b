// This file has the commands about entries that could not have their effect, or
// not all of it.

package repair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
)

// AnomalyCommand is ledgerfeed anomaly.
func AnomalyCommand(env *operate.Env) *cobra.Command {
	return cli.Group("anomaly", "List, show and acknowledge entries that had no effect, or not all of it",
		listCommand(env), showCommand(env), acknowledgeCommand(env))
}

func anomalyWith(ctx context.Context, env *operate.Env, work func(*operate.Deps, *anomaly.Store) error) error {
	return env.WithDeps(ctx, func(d *operate.Deps) error { return work(d, anomaly.NewStore(d.Pool, env.Clock)) })
}

func listCommand(env *operate.Env) *cobra.Command {
	var (
		workspace string
		all       bool
	)
	c := &cobra.Command{
		Use:   "list",
		Short: "List anomalies by workspace, reason and entry type",
		Long: `List anomalies by workspace, reason and entry type. If there are more than 100000, the
command counts only the first, ordered by workspace and position, and says so.`,
		Args: cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			return anomalyWith(ctx, env, func(d *operate.Deps, store *anomaly.Store) error {
				if workspace != "" {
					if _, err := d.Log.Head(ctx, workspace); err != nil {
						return err
					}
				}
				groups, err := store.Groups(ctx, anomaly.Filter{WorkspaceID: workspace, All: all, First: anomaly.MostGrouped})
				if err != nil {
					return err
				}
				if groups == nil {
					groups = []anomaly.Group{}
				}
				return env.Print(groups, func(out io.Writer) error { return WriteGroups(out, groups) })
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "only this workspace")
	c.Flags().BoolVar(&all, "all", false, "also list acknowledged anomalies")
	return c
}

// WriteGroups writes groups as a table, and what their reasons mean.
func WriteGroups(out io.Writer, groups []anomaly.Group) error {
	if len(groups) == 0 {
		_, err := fmt.Fprintln(out, "No anomalies wait to be looked at.")
		return err
	}
	var reasons []domain.Reason
	err := cli.Table(out, "WORKSPACE\tREASON\tTYPE\tENTRIES\tACKNOWLEDGED\tPOSITIONS\tLAST OBJECT", groups, func(g *anomaly.Group) string {
		if !slices.Contains(reasons, g.Reason) {
			reasons = append(reasons, g.Reason)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%d – %d\t%s %s", g.WorkspaceID, g.Reason, g.Type, g.Count, g.Acknowledged, g.FirstPosition, g.LastPosition, g.LastObjectType, g.LastObjectID)
	})
	if err != nil {
		return err
	}
	if groups[0].AtLeast {
		fmt.Fprintln(out, anomaly.OnlyFirst())
	}
	for _, r := range reasons {
		fmt.Fprintf(out, "\n%s: %s\n", r, anomaly.Explain(r))
	}
	return nil
}

// showView is what show prints as JSON.
type showView struct {
	Anomalies []anomaly.Anomaly `json:"anomalies"`
	Entry     json.RawMessage   `json:"entry,omitempty"` // with --position, in the form of export
	More      bool              `json:"more"`            // with --after the last position
}

func showCommand(env *operate.Env) *cobra.Command {
	var (
		position, after int64
		limit           int
	)
	c := &cobra.Command{
		Use:   "show WORKSPACE",
		Short: "Show a workspace's anomalies one by one, or the entry at a position",
		Args:  cli.ExactArgs(1),
		RunE: env.RunReading(func(ctx context.Context, args []string) error {
			if position < 0 || after < 0 || limit < 1 || limit > anomaly.MaxPage {
				return cli.Usagef("want positions from 1 on, and a --limit of 1 to %d", anomaly.MaxPage)
			}
			return anomalyWith(ctx, env, func(d *operate.Deps, store *anomaly.Store) error {
				if _, err := d.Log.Head(ctx, args[0]); err != nil {
					return err
				}
				v, err := show(ctx, d, store, args[0], position, after, limit)
				if err != nil {
					return err
				}
				return env.Print(v, func(out io.Writer) error { return writeAnomalies(out, args[0], v) })
			})
		}),
	}
	c.Flags().Int64Var(&position, "position", 0, "show the entry at this position in full")
	c.Flags().Int64Var(&after, "after", 0, "begin after this position")
	c.Flags().IntVar(&limit, "limit", 50, "the most anomalies to show")
	c.MarkFlagsMutuallyExclusive("position", "after")
	return c
}

func show(ctx context.Context, d *operate.Deps, store *anomaly.Store, workspaceID string, position, after int64, limit int) (v *showView, err error) {
	v = &showView{}
	if position == 0 {
		if v.Anomalies, err = store.Page(ctx, workspaceID, after, limit); err != nil {
			return nil, err
		}
		if n := len(v.Anomalies); n > 0 {
			rest, err := store.Page(ctx, workspaceID, v.Anomalies[n-1].Position, 1)
			if err != nil {
				return nil, err
			}
			v.More = len(rest) > 0
		} else {
			v.Anomalies = []anomaly.Anomaly{}
		}
		return v, nil
	}
	if v.Anomalies, err = store.At(ctx, anomaly.Filter{WorkspaceID: workspaceID}, position); err != nil {
		return nil, err
	}
	if len(v.Anomalies) == 0 {
		return nil, fmt.Errorf("the entry of %s at position %d is no anomaly", workspaceID, position)
	}
	entry, err := d.Log.EntryAt(ctx, workspaceID, position)
	if err != nil {
		return nil, err
	}
	if entry != nil {
		v.Entry = json.RawMessage(entry.AppendChainedNDJSON(nil))
	}
	return v, nil
}

func writeAnomalies(out io.Writer, workspaceID string, v *showView) error {
	if len(v.Anomalies) == 0 {
		_, err := fmt.Fprintf(out, "%s has no anomalies.\n", workspaceID)
		return err
	}
	err := cli.Table(out, "POSITION\tREASON\tTYPE\tABOUT\tPUBLISHED\tENTRY\tNOTE", v.Anomalies, func(a *anomaly.Anomaly) string {
		note := ""
		if a.Note != nil {
			note = *a.Note
		}
		return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s\t%s", a.Position, a.Reason, a.Type, strings.TrimSpace(a.ObjectType+" "+a.ObjectID),
			domain.FormatTime(a.PublishedAt), a.EventID, note)
	})
	if err != nil {
		return err
	}
	if v.Entry != nil {
		for i := range v.Anomalies {
			fmt.Fprintf(out, "\n%s: %s\n", v.Anomalies[i].Reason, anomaly.Explain(v.Anomalies[i].Reason))
		}
		fmt.Fprintf(out, "\nThe entry:\n%s", v.Entry)
	}
	if v.More {
		fmt.Fprintf(out, "There are more: --after %d\n", v.Anomalies[len(v.Anomalies)-1].Position)
	}
	return nil
}

func acknowledgeCommand(env *operate.Env) *cobra.Command {
	var (
		which  anomaly.Which
		reason string
		all    bool
		note   string
	)
	c := &cobra.Command{
		Use:   "acknowledge WORKSPACE",
		Short: "Acknowledge anomalies, with a note",
		Long: `Acknowledge anomalies, with a note. Choose the anomalies of one entry, the anomalies with
one reason, or all that the workspace has now. ledgerfeed anomaly list then shows them
only with --all, and ledgerfeed doctor no longer counts them. Nothing else changes.`,
		Args: cli.ExactArgs(1),
		RunE: env.Run(func(ctx context.Context, args []string) error {
			if err := checkWhich(&which, reason, all); err != nil {
				return err
			}
			return anomalyWith(ctx, env, func(_ *operate.Deps, store *anomaly.Store) error {
				n, err := store.Acknowledge(ctx, args[0], which, note)
				if _, wrong := errors.AsType[*anomaly.NoteError](err); wrong {
					return &cli.UsageError{Err: err}
				}
				if err != nil {
					return err
				}
				return env.Print(map[string]int64{"acknowledged": n}, env.Line(texts.Count(n, "anomaly is", "anomalies are")+" acknowledged."))
			})
		}),
	}
	c.Flags().Int64Var(&which.Position, "position", 0, "only the anomalies of the entry at this position")
	c.Flags().StringVar(&reason, "reason", "", "only the anomalies with this reason: "+reasonList())
	c.Flags().BoolVar(&all, "all", false, "every anomaly of the workspace")
	c.Flags().StringVar(&note, "note", "", "what you found or did, in words (required)")
	_ = c.MarkFlagRequired("note") // it is defined above
	return c
}

func checkWhich(which *anomaly.Which, reason string, all bool) error {
	which.Reason = domain.Reason(reason)
	switch {
	case which.Position < 0:
		return cli.Usagef("--position is %d: want the position of an entry", which.Position)
	case reason != "" && !slices.Contains(domain.Reasons(), which.Reason):
		return cli.Usagef("--reason is %q: want one of %s", reason, reasonList())
	case !all && reason == "" && which.Position == 0:
		return cli.Usagef("want --position, --reason or --all")
	case all && (reason != "" || which.Position != 0):
		return cli.Usagef("want --all, or --position and --reason, not both")
	}
	return nil
}

func reasonList() string {
	var names []string
	for _, r := range domain.Reasons() {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}
