package repair

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// ExplainCommand is ledgerfeed explain.
func ExplainCommand(env *operate.Env) *cobra.Command {
	var (
		workspace, asOf string
	)
	c := &cobra.Command{
		Use:   "explain RESOURCE ID",
		Short: "Show a row as it was at some moment, and which entry set each field",
		Long: `Show a row as it was at some moment, and the entry that set each field: why does this
invoice say 420.00? The command also shows the entries about the row that had no effect,
or not all of it, and says why: why is this row missing?

The answer comes from the log alone. To see whether readers get the same row, run
ledgerfeed verify --workspace WORKSPACE.

RESOURCE is one of ` + strings.Join(replay.Resources(), ", ") + `.
For a credit, ID is the client's id.`,
		Args: cli.ExactArgs(2),
		RunE: env.RunReading(func(ctx context.Context, args []string) error {
			q := replay.ExplainRequest{WorkspaceID: workspace, Resource: args[0], ID: args[1]}
			if err := checkResource(q.Resource); err != nil {
				return err
			}
			if err := readMoment(asOf, &q); err != nil {
				return err
			}
			f := flags{workers: 1, memoryMiB: defaultMemoryMiB, rate: 0}
			return with(ctx, env, "explain", f, func(r *running) error {
				x, err := r.Explain(ctx, q)
				r.quiet()
				if err != nil {
					return interrupted(ctx, err, "nothing was explained")
				}
				return env.Print(x, func(out io.Writer) error { return writeExplanation(out, x) })
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "the workspace of the row")
	c.Flags().StringVar(&asOf, "as-of", "", "a position, or a time such as 2026-10-02T09:15:00Z (default: now, as the log says)")
	_ = c.MarkFlagRequired("workspace") // it is defined above
	return c
}

// readMoment reads a position or a time.
func readMoment(text string, q *replay.ExplainRequest) error {
	if text == "" {
		return nil
	}
	if position, err := strconv.ParseInt(text, 10, 64); err == nil && position > 0 {
		q.AsOf = position
		return nil
	}
	at, ok := domain.ParseTime(text)
	if !ok {
		return cli.Usagef("--as-of is %q: want a position, 1 or more, or a time such as 2026-10-02T09:15:00Z", text)
	}
	q.At = at
	return nil
}

// maxValue bounds a value in the table for people, in bytes.
const maxValue = 60

func writeExplanation(out io.Writer, x *replay.Explanation) error {
	fmt.Fprintf(out, "%s %s of %s, as of position %d\n", x.Resource, x.ID, x.WorkspaceID, x.Position)
	if x.Hidden != "" {
		fmt.Fprintln(out, x.Hidden)
	}
	head := ""
	switch {
	case len(x.Fields) > 0:
		head = "FIELD\tVALUE\tSET BY\tAT\tPOSITION\tENTRY"
	case len(x.History) > 0:
		fmt.Fprintln(out, "It had been deleted.")
	default:
		fmt.Fprintln(out, "It is not there: the entries about it had no effect on it.")
	}
	err := cli.Table(out, head, x.Fields, func(f *replay.ExplainedField) string {
		value := string(f.Value)
		if len(value) > maxValue {
			value = strings.ToValidUTF8(value[:maxValue], "") + "…"
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s", f.Name, value, f.SetBy.Type, f.SetBy.CreatedAt, f.SetBy.Position, f.SetBy.EventID)
	})
	if err != nil {
		return err
	}
	if len(x.History) > 0 {
		fmt.Fprintln(out, "History:")
	}
	err = cli.Table(out, "", x.History, func(h *replay.ExplainedEntry) string {
		what := "changed " + strings.Join(h.Fields, ", ")
		switch {
		case h.Deleted:
			what = "deleted it"
		case len(h.Fields) == 0:
			what = "changed nothing"
		}
		return fmt.Sprintf("  %d\t%s\t%s\t%s\t%s", h.Position, h.CreatedAt, h.Type, h.EventID, what)
	})
	if err != nil {
		return err
	}
	return writeUnapplied(out, x)
}

// writeUnapplied writes the entries without effect, and what their reasons mean.
func writeUnapplied(out io.Writer, x *replay.Explanation) error {
	if len(x.Unapplied) == 0 {
		return nil
	}
	fmt.Fprintln(out, "Entries about it that had no effect, or not all of it:")
	newest := map[domain.Reason]int64{} // positions
	var reasons []domain.Reason
	for _, u := range x.Unapplied {
		fmt.Fprintf(out, "  %d\t%s\t%s\t%s\t%s\n", u.Position, u.CreatedAt, u.Type, u.EventID, u.Reason)
		if newest[u.Reason] == 0 {
			reasons = append(reasons, u.Reason)
		}
		newest[u.Reason] = u.Position
	}
	for _, r := range reasons {
		meaning := anomaly.Explain(r)
		next := "ledgerfeed anomaly show %s --position %d shows the entry."
		if r == replay.Skipped {
			meaning = "An operator decided that the entry has no effect."
			next = "ledgerfeed quarantine retry %s --position %d gives it its effect."
		}
		fmt.Fprintf(out, "%s: %s "+next+"\n", r, meaning, x.WorkspaceID, newest[r])
	}
	return nil
}
