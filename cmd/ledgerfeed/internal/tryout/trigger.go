package tryout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

const (
	// DemoWorkspace is the id of the demo's workspace.
	DemoWorkspace = "demo-agency"
	// testPrefix begins the ids of workspaces that are for trying. A customer can be called
	// testing-house.
	testPrefix = "test-"
)

// triggered is what a call has appended.
type triggered struct {
	WorkspaceID string   `json:"workspace_id"`
	Type        string   `json:"type"`
	EventID     string   `json:"event_id"`
	Position    int64    `json:"position"`
	Before      []string `json:"before"` // types of the entries that the event needs
}

// TriggerCommand is ledgerfeed trigger.
func TriggerCommand(env *operate.Env) *cobra.Command {
	var workspace string
	c := &cobra.Command{
		Use:   "trigger TYPE",
		Short: "Append a real event of a type to the demo's workspace or to a test workspace",
		Long: `Append the event of a type, and before it the entries that lead to it, with new ids. The
event is in the feed and goes to webhooks like any other. The log keeps everything for
ever. So the workspace has to be the demo's (` + DemoWorkspace + `) or have an id that begins with "` + testPrefix + `".

Types: ` + strings.Join(eventTypes(), ", ") + `.
To send a test.ping, use ledgerfeed webhook test.`,
		ValidArgs: eventTypes(),
		Args:      cli.ExactArgs(1),
		RunE: env.RunReading(func(ctx context.Context, args []string) error {
			entries, err := forType(args[0])
			if err != nil {
				return err
			}
			if workspace != DemoWorkspace && !strings.HasPrefix(workspace, testPrefix) {
				return cli.Usagef("--workspace is %q: want %s, or an id that begins with %q: what is appended stays for ever", workspace, DemoWorkspace, testPrefix)
			}
			return env.WithDeps(ctx, func(d *operate.Deps) error {
				if err := mustExist(ctx, d, workspace); err != nil {
					return err
				}
				drafts, err := entries.drafts(workspace, newObjects(uuid.NewString()[:8], env.Clock()))
				if err != nil {
					return err
				}
				appended, err := d.Log.Append(ctx, drafts...)
				if err != nil {
					return err
				}
				last := appended[len(appended)-1]
				view := triggered{WorkspaceID: workspace, Type: args[0], EventID: last.ID, Position: last.Position, Before: entries.types()[:len(entries)-1]}
				return env.Print(view, env.Line(fmt.Sprintf("%s %s at position %d of %s, after %s", view.Type, view.EventID, view.Position, workspace, strings.Join(view.Before, ", "))))
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", DemoWorkspace, "the workspace")
	return c
}

// mustExist is an error where there is no such workspace. Appending would make it, for
// somebody who meant another database.
func mustExist(ctx context.Context, d *operate.Deps, workspace string) error {
	_, err := d.Workspaces().Get(ctx, workspace)
	if _, unknown := errors.AsType[*domain.UnknownWorkspaceError](err); !unknown {
		return err
	}
	if workspace == DemoWorkspace {
		return fmt.Errorf("%w: ledgerfeed demo makes it; --data-dir or DATABASE_URL names another demo's database", err)
	}
	return fmt.Errorf("%w: ledgerfeed workspace create --id %s makes it", err, workspace)
}

// eventTypes are the event types that can be made.
func eventTypes() []string {
	return slices.DeleteFunc(domain.PublicTypes(), func(t string) bool { return t == domain.TypeTestPing })
}

// forType finds what leads to an event of a type.
func forType(name string) (entries, error) {
	if name == domain.TypeTestPing {
		return nil, cli.Usagef("a test.ping is sent with ledgerfeed webhook test WEBHOOK")
	}
	if !slices.Contains(eventTypes(), name) {
		return nil, cli.Usagef("there is no event type %s: want one of %s%s", name, strings.Join(eventTypes(), ", "), texts.DidYouMean(name, eventTypes()))
	}
	return leadingTo(name), nil
}
