package repair

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// verifyView is what verify prints as JSON.
type verifyView struct {
	Workspaces  []replay.Verification `json:"workspaces"`
	Differences []replay.Difference   `json:"differences"`
	Kept        []keptCheckpoint      `json:"checkpoints,omitempty"` // of --checkpoint
}

// VerifyCommand is ledgerfeed verify.
func VerifyCommand(env *cli.Env) *cobra.Command {
	var (
		f          flags
		since      int64
		chain      string
		kept       []string
		keptSigned string
	)
	c := &cobra.Command{
		Use:   "verify",
		Short: "Prove that the log is untouched and that the read models match a replay of it",
		Long: `Prove that the log is untouched and that the read models match a replay of it. The command
walks the chain of each workspace, folds its log by this program's rules, and compares
every read row, anomaly and checkpoint. It lists every difference.

The exit status is 1 if there is a difference. It is also 1 if the projector has handled
nothing of the log, because then there is nothing to compare. The command changes nothing,
and you can run it while the service runs.

For one workspace, verify prints a position and its chain value. Keep both. Later, use
--since-position and --chain to prove that nobody touched the log up to there.

A kept checkpoint of the event feed, /v1/events/checkpoint, proves the same with
--checkpoint. It also proves that the feed was what the checkpoint says: the command
builds the tree again from the log. It checks the signature with --verifier-keys, or with
the key of LEDGERFEED_SIGNING_KEY. It verifies only the workspace of the checkpoint.`,
		Args: cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			checkpoint, err := readCheckpoint(f.workspace, since, chain)
			if err != nil {
				return err
			}
			checkpoints, err := readKept(env, &f.workspace, kept, keptSigned)
			if err != nil {
				return err
			}
			return with(ctx, env, "verify", f, func(r *running) error {
				return r.verify(ctx, replay.VerifyRequest{WorkspaceID: f.workspace, Since: checkpoint, Kept: statesOf(checkpoints)}, checkpoints)
			})
		}),
	}
	f.add(c)
	c.Flags().Int64Var(&since, "since-position", 0, "a position whose chain value you kept; needs --workspace and --chain")
	c.Flags().StringVar(&chain, "chain", "", "the chain value of --since-position, in hex")
	c.Flags().StringArrayVar(&kept, "checkpoint", nil, "a file with a checkpoint of an event feed that somebody kept; can be given several times, for one workspace")
	c.Flags().StringVar(&keptSigned, "verifier-keys", "", "for --checkpoint: a file with verifier keys, one a line, in the form of /docs/keys.txt")
	return c
}

// readCheckpoint reads --since-position and --chain; nil without them.
func readCheckpoint(workspace string, since int64, chain string) (*replay.ChainCheckpoint, error) {
	if since == 0 && chain == "" {
		return nil, nil
	}
	if since < 1 || chain == "" || workspace == "" {
		return nil, cli.Usagef("--since-position (1 or more), --chain and --workspace are given together")
	}
	c := &replay.ChainCheckpoint{Position: since}
	value, err := hex.DecodeString(chain)
	if err != nil || len(value) != len(c.Chain) {
		return nil, cli.Usagef("--chain is %q: want %d hexadecimal digits", chain, 2*len(c.Chain))
	}
	copy(c.Chain[:], value)
	return c, nil
}

// maxHeld is how many differences are held back while progress is displayed. When
// there are more, they are printed as they are found.
const maxHeld = 1000

func (r *running) verify(ctx context.Context, q replay.VerifyRequest, kept []keptCheckpoint) error {
	v := verifyView{Workspaces: []replay.Verification{}, Differences: []replay.Difference{}, Kept: kept}
	for i := range kept {
		kept[i].Holds = true // until a difference is found
	}
	var writing error
	flush := func() {
		r.quiet()
		for i := range v.Differences {
			if _, err := fmt.Fprintln(r.env.Out, v.Differences[i].String()); err != nil {
				writing = err
			}
		}
		v.Differences = nil
	}
	many := false
	err := r.Verify(ctx, q, func(d replay.Difference) {
		failed(kept, &d)
		v.Differences = append(v.Differences, d)
		if many = many || len(v.Differences) > maxHeld; many && !r.env.JSON {
			flush()
		}
	}, func(w replay.Verification) { v.Workspaces = append(v.Workspaces, w) })
	r.quiet()
	if !r.env.JSON {
		flush()
	}
	if err := errors.Join(interrupted(ctx, err, "nothing was changed"), writing); err != nil {
		return err
	}
	if err := r.env.Print(v, func(out io.Writer) error { return writeVerified(out, &v, r.progress) }); err != nil {
		return err
	}
	switch n := r.progress.Differences.Load(); n {
	case 0:
		return unprojectedIn(v.Workspaces).nothingCompared()
	case 1:
		return errors.New("there is one difference")
	default:
		return fmt.Errorf("there are %s differences", thousands(n))
	}
}

func writeVerified(out io.Writer, v *verifyView, m *replay.Progress) error {
	for i := range v.Kept {
		fmt.Fprintln(out, v.Kept[i].String())
	}
	list := v.Workspaces
	if len(list) == 1 {
		w := &list[0]
		fmt.Fprintf(out, "%s is at position %d of %d, chain %s\n", w.WorkspaceID, w.Position, w.Head, w.Chain)
	}
	_, err := fmt.Fprintf(out, "verified %s: %s, %s, %s\n%s%s\n",
		plural.Of(len(list), "workspace", "workspaces"), counted(m.EntriesDone.Load(), "entry", "entries"), counted(m.RowsCompared.Load(), "row", "rows"), counted(m.Differences.Load(), "difference", "differences"),
		unprojectedIn(list).line(), costLine(m))
	return err
}

func unprojectedIn(list []replay.Verification) (u unprojected) {
	for i := range list {
		u.add(list[i].Position, list[i].Head)
	}
	return u
}
