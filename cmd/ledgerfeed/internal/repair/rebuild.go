package repair

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// eventTrees is the name of the trees of events, as in the differences of verify.
const eventTrees = "event-trees"

// rebuildView is what rebuild prints as JSON.
type rebuildView struct {
	Workspaces []replay.Rebuilt `json:"workspaces"`
}

// RebuildCommand is ledgerfeed rebuild.
func RebuildCommand(env *cli.Env) *cobra.Command {
	var (
		f    flags
		lost bool
	)
	c := &cobra.Command{
		Use:   "rebuild [RESOURCE…]",
		Short: "Rebuild the read models from the log while readers keep reading",
		Long: `Rebuild the read models from the log while readers keep reading. For each workspace, the
command folds the log by this program's rules, compares, and writes the rows that differ
in one transaction. It does not touch correct rows.

The command rebuilds only what the projector has handled. The exit status is 1 if the
projector has handled nothing.

RESOURCE limits it to some of ` + strings.Join(replay.Resources(), ", ") + `.

` + eventTrees + `, alone, rebuilds the stored signed trees of events. The command makes lost or
changed tiles again from the log, byte for byte. It never changes a published root. It
refuses a workspace whose log gives another root.

Some trees have neither a root nor a witness's signature left. Use --lost-trees to make
them again. First compare the log with a checkpoint that somebody kept
(ledgerfeed verify --checkpoint).

You can interrupt the command at any moment. Each workspace is then either unchanged or
rebuilt, and a second run finishes the rest. The command refuses a workspace if somebody
tampered with its log.`,
		RunE: env.Run(func(ctx context.Context, resources []string) error {
			if slices.Equal(resources, []string{eventTrees}) {
				return with(ctx, env, "rebuild", f, func(r *running) error { return r.rebuildTrees(ctx, f.workspace, lost) })
			}
			if lost {
				return cli.Usagef("--lost-trees is of ledgerfeed rebuild %s", eventTrees)
			}
			for _, name := range resources {
				if name == eventTrees {
					return cli.Usagef("%s is rebuilt alone: want ledgerfeed rebuild %[1]s", eventTrees)
				}
				if err := checkResource(name); err != nil {
					return err
				}
			}
			return with(ctx, env, "rebuild", f, func(r *running) error {
				return r.rebuild(ctx, replay.RebuildRequest{WorkspaceID: f.workspace, Resources: resources})
			})
		}),
		ValidArgs: append(replay.Resources(), eventTrees),
	}
	f.add(c)
	c.Flags().BoolVar(&lost, "lost-trees", false, "make trees again that have neither a root nor a witness's signature left")
	return c
}

func (r *running) rebuild(ctx context.Context, q replay.RebuildRequest) error {
	v := rebuildView{Workspaces: []replay.Rebuilt{}}
	refused := 0
	err := r.Rebuild(ctx, q, func(b replay.Rebuilt) {
		v.Workspaces = append(v.Workspaces, b)
		if b.Refused != "" {
			refused++
		}
	})
	r.quiet()
	if err := interrupted(ctx, err, plural.Of(len(v.Workspaces), "workspace is", "workspaces are")+" rebuilt, the others are as they were: run it again to finish"); err != nil {
		return err
	}
	if err := r.env.Print(v, func(out io.Writer) error { return writeRebuilt(out, v.Workspaces, r.progress) }); err != nil {
		return err
	}
	if refused > 0 {
		return fmt.Errorf("%s refused and %s", plural.Of(refused, "workspace was", "workspaces were"), plural.Word(refused, "is as it was", "are as they were"))
	}
	return unprojectedOf(v.Workspaces).nothingCompared()
}

func writeRebuilt(out io.Writer, list []replay.Rebuilt, m *replay.Progress) error {
	for i := range list {
		b := &list[i]
		switch {
		case b.Refused != "":
			fmt.Fprintf(out, "%s: refused: %s\n", b.WorkspaceID, b.Refused)
		case b.Written+b.Deleted > 0 || b.Rules != b.RulesBefore:
			fmt.Fprintf(out, "%s: at position %d, of %s %s written, %s deleted; rules %d, before %d\n",
				b.WorkspaceID, b.Position, counted(b.Rows, "row", "rows"), thousands(b.Written), thousands(b.Deleted), b.Rules, b.RulesBefore)
		}
	}
	_, err := fmt.Fprintf(out, "rebuilt %s: %s, %s compared, %s written or deleted\n%s%s\n",
		plural.Of(len(list), "workspace", "workspaces"), counted(m.EntriesDone.Load(), "entry", "entries"), counted(m.RowsCompared.Load(), "row", "rows"), thousands(m.RowsWritten.Load()),
		unprojectedOf(list).line(), costLine(m))
	return err
}

func unprojectedOf(list []replay.Rebuilt) (u unprojected) {
	for i := range list {
		u.add(list[i].Position, list[i].Head)
	}
	return u
}

// treesView is what rebuild event-trees prints as JSON.
type treesView struct {
	Workspaces []replay.RebuiltTrees `json:"workspaces"`
}

func (r *running) rebuildTrees(ctx context.Context, workspaceID string, lost bool) error {
	v := treesView{Workspaces: []replay.RebuiltTrees{}}
	refused := 0
	err := r.RebuildTrees(ctx, workspaceID, lost, func(b replay.RebuiltTrees) {
		v.Workspaces = append(v.Workspaces, b)
		if b.Refused != "" {
			refused++
		}
	})
	r.quiet()
	if err := interrupted(ctx, err, "the trees of "+plural.Of(len(v.Workspaces), "workspace", "workspaces")+" are rebuilt, the others are as they were: run it again to finish"); err != nil {
		return err
	}
	if err := r.env.Print(v, func(out io.Writer) error { return writeTrees(out, v.Workspaces) }); err != nil {
		return err
	}
	if refused > 0 {
		return fmt.Errorf("the trees of %s were refused and are as they were", plural.Of(refused, "workspace", "workspaces"))
	}
	return nil
}

func writeTrees(out io.Writer, list []replay.RebuiltTrees) error {
	refused := 0
	for i := range list {
		switch b := &list[i]; {
		case b.Refused != "":
			refused++
			fmt.Fprintf(out, "%s: refused: %s\n", b.WorkspaceID, b.Refused)
		case b.Written+b.Deleted > 0:
			fmt.Fprintf(out, "%s: at position %d, %s written, %s deleted\n", b.WorkspaceID, b.Position, counted(b.Written, "tile or tree", "tiles and trees"), thousands(b.Deleted))
		}
	}
	_, err := fmt.Fprintln(out, "rebuilt the trees of "+plural.Of(len(list)-refused, "workspace", "workspaces"))
	return err
}
