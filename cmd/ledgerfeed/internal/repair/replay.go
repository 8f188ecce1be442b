// Package repair has the commands that fold the log again: verify, rebuild and
// explain, and quarantine, which decides about entries that cannot be projected.
package repair

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/proof"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// flags are the flags that verify and rebuild share.
type flags struct {
	workspace string
	workers   int
	memoryMiB int64
	rate      int // entries and rows a second; 0: no limit; yieldingRate
}

// defaultMemoryMiB is well below what the process may take as a whole, because
// garbage of a fold stays in memory until the next collection.
const defaultMemoryMiB = 256

// yieldingRate slows down while entries are appended or the API is read.
const yieldingRate = -1

func (f *flags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.workspace, "workspace", "", "only this workspace")
	c.Flags().IntVar(&f.workers, "workers", replay.DefaultWorkers, "how many workspaces to work on at once")
	c.Flags().IntVar(&f.rate, "rate", yieldingRate, "the most entries and rows a second; 0 sets no limit, -1 slows down while producers append or readers use the API")
	c.Flags().Int64Var(&f.memoryMiB, "memory", defaultMemoryMiB, "the most MiB for all workspaces in progress, by estimate; the command folds a larger workspace into temporary tables")
}

func (f *flags) check() error {
	switch {
	case f.workers < 1 || f.workers > 64:
		return cli.Usagef("--workers is %d: want 1 to 64", f.workers)
	case f.memoryMiB < 1:
		return cli.Usagef("--memory is %d: want MiB, 1 or more", f.memoryMiB)
	case f.rate < yieldingRate:
		return cli.Usagef("--rate is %d: want entries and rows a second, or 0 for no limit", f.rate)
	}
	return nil
}

// A worker has two connections of its pool, and one for temporary tables. The command has others
// beside them.
const (
	eachWorker        = 3
	leastOwn, mostOwn = 2, 8
	spare             = 1 // of the pool: the rate is read on it
)

// connections divides the connections that the process may have: with few connections, fewer
// workers work at once.
func (f *flags) connections(env *operate.Env) (workers, own int, err error) {
	all, err := operate.Connections(env, "a command that folds the log", eachWorker+spare+leastOwn, eachWorker*f.workers+spare+mostOwn)
	if err != nil {
		return 0, 0, err
	}
	workers = min(f.workers, (all-spare-leastOwn)/eachWorker)
	return workers, min(mostOwn, all-spare-workers*eachWorker), nil
}

// running is a Replay at work for a command.
type running struct {
	*replay.Replayer
	env      *operate.Env
	progress *replay.Progress
	quiet    func() // ends the lines about progress; call it before printing the result
}

// with opens the database, makes a Replay, and shows progress while work runs.
func with(ctx context.Context, env *operate.Env, verb string, f flags, work func(*running) error) error {
	if err := f.check(); err != nil {
		return err
	}
	workers, own, err := f.connections(env)
	if err != nil {
		return err
	}
	return operate.WithConnections(ctx, env, own, func(d *operate.Deps) error {
		pool, err := pg.Open(ctx, d.URL, pg.Options{
			MaxConns: int32(eachWorker*workers + spare), ReadBuffer: 64 << 10, Settings: replay.PoolSettings(),
		})
		if err != nil {
			return err
		}
		defer pool.Close()
		var pace func(context.Context, int) error
		switch {
		case f.rate == yieldingRate:
			pace = replay.NewYieldingRateLimiter(pool)
		case f.rate > 0:
			pace = replay.NewRateLimiter(f.rate)
		}
		var progress replay.Progress
		r, err := replay.New(replay.Config{
			Pool: pool, Direct: d.Direct, Clock: env.Clock, Rules: env.Rules, Notify: d.Notifier.Notify, Workers: workers, Memory: f.memoryMiB << 20, Progress: &progress, Limit: pace,
		})
		if err != nil {
			return err
		}
		quiet := sync.OnceFunc(cli.ShowProgress(env.ErrOut, verb, func(took time.Duration) string { return progressLine(&progress, took) }))
		defer quiet()
		return work(&running{r, env, &progress, quiet})
	})
}

// checkResource returns a UsageError for a name that is no resource.
func checkResource(name string) error {
	if slices.Contains(replay.Resources(), name) {
		return nil
	}
	return &cli.UsageError{Err: &replay.UnknownResourceError{Resource: name}}
}

// interrupted replaces an error that only says that ctx ended by how things
// stand then.
func interrupted(ctx context.Context, err error, state string) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted; %s", state)
	}
	return err
}

// verifyView is what verify prints as JSON.
type verifyView struct {
	Workspaces  []replay.Verification `json:"workspaces"`
	Differences []replay.Difference   `json:"differences"`
	Kept        []keptCheckpoint      `json:"checkpoints,omitempty"` // of --checkpoint
}

// VerifyCommand is ledgerfeed verify.
func VerifyCommand(env *operate.Env) *cobra.Command {
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

func (r *running) verify(ctx context.Context, q replay.VerifyRequest, kept []keptCheckpoint) error {
	v := verifyView{Workspaces: []replay.Verification{}, Differences: []replay.Difference{}, Kept: kept}
	for i := range kept {
		kept[i].Holds = true // until a difference is found
	}
	var writing error
	err := r.Verify(ctx, q, func(d replay.Difference) {
		failed(kept, &d)
		if r.env.JSON {
			v.Differences = append(v.Differences, d)
		} else if _, err := fmt.Fprintln(r.env.Out, d.String()); err != nil {
			writing = err
		}
	}, func(w replay.Verification) { v.Workspaces = append(v.Workspaces, w) })
	r.quiet()
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
		texts.Count(len(list), "workspace", "workspaces"), counted(m.EntriesDone.Load(), "entry", "entries"), counted(m.RowsCompared.Load(), "row", "rows"), counted(m.Differences.Load(), "difference", "differences"),
		unprojectedIn(list).line(), costLine(m))
	return err
}

func unprojectedIn(list []replay.Verification) (u unprojected) {
	for i := range list {
		u.add(list[i].Position, list[i].Head)
	}
	return u
}

// eventTrees is the name of the trees of events, as in the differences of verify.
const eventTrees = "event-trees"

// rebuildView is what rebuild prints as JSON.
type rebuildView struct {
	Workspaces []replay.Rebuilt `json:"workspaces"`
}

// RebuildCommand is ledgerfeed rebuild.
func RebuildCommand(env *operate.Env) *cobra.Command {
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
				return cli.Usagef("--lost-trees is only for ledgerfeed rebuild %s", eventTrees)
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
	if err := interrupted(ctx, err, texts.Count(len(v.Workspaces), "workspace is", "workspaces are")+" rebuilt, the others are as they were: run it again to finish"); err != nil {
		return err
	}
	if err := r.env.Print(v, func(out io.Writer) error { return writeRebuilt(out, v.Workspaces, r.progress) }); err != nil {
		return err
	}
	if refused > 0 {
		return fmt.Errorf("%s refused and %s", texts.Count(refused, "workspace was", "workspaces were"), texts.Plural(refused, "is as it was", "are as they were"))
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
		texts.Count(len(list), "workspace", "workspaces"), counted(m.EntriesDone.Load(), "entry", "entries"), counted(m.RowsCompared.Load(), "row", "rows"), thousands(m.RowsWritten.Load()),
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
	if err := interrupted(ctx, err, "the trees of "+texts.Count(len(v.Workspaces), "workspace", "workspaces")+" are rebuilt, the others are as they were: run it again to finish"); err != nil {
		return err
	}
	if err := r.env.Print(v, func(out io.Writer) error { return writeTrees(out, v.Workspaces) }); err != nil {
		return err
	}
	if refused > 0 {
		return fmt.Errorf("the trees of %s were refused and are as they were", texts.Count(refused, "workspace", "workspaces"))
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
	_, err := fmt.Fprintln(out, "rebuilt the trees of "+texts.Count(len(list)-refused, "workspace", "workspaces"))
	return err
}

// keptCheckpoint is a checkpoint of an event tree that somebody kept, as verify shows it.
type keptCheckpoint struct {
	File     string   `json:"file"`
	Origin   string   `json:"origin"`
	Size     int64    `json:"size"`
	Root     string   `json:"root"`     // base64
	Position int64    `json:"position"` // of the log
	By       []string `json:"signed_by"`
	Holds    bool     `json:"holds"` // the log gives the same
	of       eventtree.Kept
}

// readKept reads checkpoints from files, each a signed note, which must be of one workspace.
// keys is a file with verifier keys; empty: the keys of this process.
func readKept(env *operate.Env, workspace *string, files []string, keys string) (list []keptCheckpoint, err error) {
	if len(files) == 0 && keys != "" {
		return nil, cli.Usagef("--verifier-keys is for --checkpoint, which is missing")
	}
	for _, file := range files {
		k, of, err := readOneKept(env, file, keys)
		if err != nil {
			return nil, fmt.Errorf("--checkpoint %s: %w", file, err)
		}
		if *workspace != "" && of != *workspace {
			return nil, cli.Usagef("--checkpoint %s is of the workspace %s, not %s: want checkpoints of one workspace", file, of, *workspace)
		}
		*workspace = of
		list = append(list, *k)
	}
	return list, nil
}

func readOneKept(env *operate.Env, file, keys string) (_ *keptCheckpoint, workspace string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	note, err := signingkey.ReadNote(f)
	if err != nil {
		return nil, "", err
	}
	origin, _, _ := strings.Cut(string(note), "\n")
	k := &keptCheckpoint{File: file, Origin: origin}
	if workspace, k.of.Sight, err = eventtree.ParseOrigin(origin); err != nil {
		return nil, "", fmt.Errorf("the first line: %w", err)
	}
	verifiers, err := verifiersOf(env, note, origin, keys)
	if err != nil {
		return nil, "", err
	}
	s, err := verifiers.OpenCheckpoint(note, origin)
	if err != nil {
		return nil, "", err
	}
	k.Size, k.Root, k.Position, k.By = s.Tree.N, s.Tree.Hash.String(), s.Position, s.By
	k.of.State = eventtree.State{Position: s.Position, Chain: s.Chain, Size: s.Tree.N, Root: s.Tree.Hash}
	return k, workspace, nil
}

// verifiersOf are the keys that a checkpoint is checked with.
func verifiersOf(env *operate.Env, note []byte, origin, file string) (*signingkey.Verifiers, error) {
	if file == "" {
		v, err := proof.Own(env, note)
		if err != nil {
			return nil, fmt.Errorf("want --verifier-keys, a file in the form of /docs/keys.txt: %w", err)
		}
		return v, nil
	}
	text, err := texts.ReadFile(file)
	if err != nil {
		return nil, err
	}
	list, err := signingkey.ForName(string(text), origin)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return signingkey.ParseVerifiers(strings.Join(list, "\n"))
}

// statesOf is what the checkpoints say.
func statesOf(list []keptCheckpoint) (states []eventtree.Kept) {
	for i := range list {
		states = append(states, list[i].of)
	}
	return states
}

// failed notes a difference that is about one of the checkpoints.
func failed(list []keptCheckpoint, d *replay.Difference) {
	for i := range list {
		if d.Resource == replay.ResourceKept && d.ID == replay.KeptID(&list[i].of) {
			list[i].Holds = false
		}
	}
}

func (k *keptCheckpoint) String() string {
	if !k.Holds {
		return fmt.Sprintf("%s: the log does NOT give the tree %s of size %d, which %s signed", k.File, k.Origin, k.Size, strings.Join(k.By, " and "))
	}
	return fmt.Sprintf("%s: the log gives the tree %s of size %d at position %d, as %s signed it", k.File, k.Origin, k.Size, k.Position, strings.Join(k.By, " and "))
}

// unprojected counts what no read model shows yet, which therefore was compared with
// nothing.
type unprojected struct {
	entries    int64
	workspaces int
	compared   int64 // entries whose effect was compared
}

// add counts a workspace: the position that its rows were compared at, and the end
// of its log.
func (u *unprojected) add(position, head int64) {
	u.compared += position
	if position < head {
		u.entries += head - position
		u.workspaces++
	}
}

// line tells of them; empty when there are none.
func (u unprojected) line() string {
	if u.entries == 0 {
		return ""
	}
	return fmt.Sprintf("not projected yet, and compared with nothing: %s in %s\n", u.waiting(), texts.Count(u.workspaces, "workspace", "workspaces"))
}

// waiting is the count of the entries.
func (u unprojected) waiting() string {
	return thousands(u.entries) + " " + texts.Plural(u.entries, "entry", "entries")
}

// nothingCompared is an error when the log has entries and none is projected.
func (u unprojected) nothingCompared() error {
	if u.entries == 0 || u.compared > 0 {
		return nil
	}
	return fmt.Errorf("nothing was compared: none of the %s in %s is projected yet; "+
		"run ledgerfeed serve, wait with ledgerfeed status --wait, and try again", u.waiting(), texts.Count(u.workspaces, "workspace", "workspaces"))
}
