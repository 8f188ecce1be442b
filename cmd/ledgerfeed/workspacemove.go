package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/moving"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// moveFlags are the flags of workspace move.
type moveFlags struct {
	id, to        string
	toCell        string
	publicAddress string
	secretKeyFile string
	fence         time.Duration
	undo, finish  bool
}

// movedView is the output of workspace move.
type movedView struct {
	WorkspaceID string  `json:"workspace_id"`
	State       string  `json:"state"`                     // complete, undone or removed
	Position    int64   `json:"position,omitempty"`        // of the newest entry when it moved
	Chain       string  `json:"chain,omitempty"`           // of that entry
	Refused     float64 `json:"refused_seconds,omitempty"` // how long appends were refused
	History     int64   `json:"history_rows,omitempty"`    // that this run copied after the new place was open
}

func workspaceMoveCommand(env *operate.Env) *cobra.Command {
	var f moveFlags
	c := &cobra.Command{
		Use:   "move",
		Short: "Move a workspace to another database while readers read it",
		Long: `Move a workspace from this database to another one: its log (same positions, same chain),
keys, webhooks with everything that waits for them, names, audit trail and records. The
other database needs the tables of the same version and serving processes. Both accounts
have to own the tables. docs/operations/moving.md has the steps.

The command copies most of the data while readers read and producers append. Then it holds
deliveries. For seconds, --fence at most, appends wait or the log refuses them. The
command copies the rest and opens the new place. From then on, readers who ask at the old
place get 503 with the address in --public-address. Cursors go on at the new place.

If the command is interrupted, run it again with the same databases. Until the new place
is open, --undo gives the workspace back to this database. Only --finish removes data
here. It first asks the new place for proof.

Each place encrypts the secrets of webhooks with its own key. If the new place has another
key, name its file in --to-secret-key-file.`,
		Args: cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			if err := f.check(env); err != nil {
				return err
			}
			return env.WithDeps(ctx, func(d *operate.Deps) error { return f.run(ctx, env, d) })
		}),
	}
	c.Flags().StringVar(&f.id, "id", "", "the workspace (required)")
	c.Flags().StringVar(&f.to, "to", "", "URL of the other database; its password can be in a file (PGPASSFILE)")
	c.Flags().StringVar(&f.toCell, "to-cell", "", "the other database by its name in LEDGERFEED_CELLS")
	c.MarkFlagsMutuallyExclusive("to", "to-cell")
	c.Flags().StringVar(&f.publicAddress, "public-address", "", "address of the API at the new place, https://…; readers who ask here get it")
	c.Flags().StringVar(&f.secretKeyFile, "to-secret-key-file", "", "file with the LEDGERFEED_SECRET_KEY of the new place (default: the same as here)")
	c.Flags().DurationVar(&f.fence, "fence", 30*time.Second, "how long the log refuses appends at most, 1s to 5m; if the move needs longer, the log takes appends again and the move tries again")
	c.Flags().BoolVar(&f.undo, "undo", false, "give the workspace back to this database, and remove the data that the other one has received")
	c.Flags().BoolVar(&f.finish, "finish", false, "remove the data here, after the new place has proved that it has them")
	return c
}

func (f *moveFlags) check(env *operate.Env) error {
	if f.toCell != "" {
		c, err := env.Cells.Named(f.toCell)
		switch {
		case err != nil:
			return cli.Usagef("--to-cell: %v", err)
		case c.Name == env.Cell:
			return cli.Usagef("--to-cell is %s, where the workspace already is. To run --undo or --finish, or to continue a move, set --cell to the cell it came from", c.Name)
		}
		f.to = c.URL
	}
	switch {
	case f.id == "" || f.to == "":
		return cli.Usagef("want --id, and --to or --to-cell")
	case f.undo && f.finish:
		return cli.Usagef("--undo and --finish exclude each other")
	case f.fence < time.Second || f.fence > 5*time.Minute:
		return cli.Usagef("--fence is %v: want 1s to 5m", f.fence)
	}
	if f.publicAddress == "" {
		return nil
	}
	u, err := url.Parse(f.publicAddress)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return cli.Usagef("--public-address is %q: want an address such as https://api.example.com", f.publicAddress)
	}
	f.publicAddress = strings.TrimSuffix(f.publicAddress, "/")
	return nil
}

func (f *moveFlags) run(ctx context.Context, env *operate.Env, d *operate.Deps) error {
	other, err := pg.Open(ctx, f.to, pg.Options{MaxConns: 4})
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer other.Close()
	cfg := moving.Config{
		WorkspaceID: f.id, PublicAddress: f.publicAddress, Fence: f.fence, Clock: env.Clock, Logger: env.Logger,
		From: place(ctx, env, d.Pool, d.Notifier), To: place(ctx, env, other, eventlog.NewNotifier(other, env.Logger)),
		Step: func(s moving.Step) { fmt.Fprintf(env.ErrOut, "%s: %s\n", f.id, s) },
	}
	if cfg.From.Keyring, err = env.ReadKeyring(d.Database); err != nil {
		return err
	}
	if cfg.To.Keyring, err = f.otherKeyring(cfg.From.Keyring); err != nil {
		return err
	}
	m, err := moving.New(cfg)
	if err != nil {
		return err
	}
	v := movedView{WorkspaceID: f.id}
	switch {
	case f.undo:
		v.State, err = "undone", m.Undo(ctx)
	case f.finish:
		v.State, err = "removed", m.Finish(ctx)
	default:
		var result moving.Result
		result, err = m.Run(ctx)
		v.State, v.Position, v.Chain = result.State, result.Position, hex.EncodeToString(result.Chain[:])
		v.Refused, v.History = result.Refused.Seconds(), result.History
	}
	if err != nil {
		return err
	}
	return env.Print(v, func(out io.Writer) error { return v.text(out, cfg.To.Name) })
}

// place is a side of a move; processes that serve it are notified at once.
func place(ctx context.Context, env *operate.Env, pool pg.DB, n *eventlog.Notifier) moving.Place {
	c := pg.ConfigOf(pool)
	return moving.Place{
		Pool: pool, Name: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database,
		Notify: func(topic eventlog.Topic, workspaceIDs ...string) {
			n.Notify(topic, workspaceIDs...)
			if err := n.Flush(ctx); err != nil && !errors.Is(err, context.Canceled) {
				env.Logger.WarnContext(ctx, "cannot notify running services; they find out within seconds by polling", "error", err)
			}
		},
	}
}

// otherKeyring has the keys of the other place.
func (f *moveFlags) otherKeyring(same *keyring.Keyring) (*keyring.Keyring, error) {
	if f.secretKeyFile == "" {
		return same, nil
	}
	text, err := texts.ReadFile(f.secretKeyFile)
	if err != nil {
		return nil, fmt.Errorf("--to-secret-key-file: %w", err)
	}
	k, err := keyring.New(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("--to-secret-key-file: %s: %w", f.secretKeyFile, err)
	}
	return k, nil
}

func (v *movedView) text(out io.Writer, other string) (err error) {
	switch v.State {
	case "undone":
		_, err = fmt.Fprintf(out, "%s is here again; %s has only its closed, empty log.\n", v.WorkspaceID, other)
	case "removed":
		_, err = fmt.Fprintf(out, "The data of %s are removed here. Appends stay refused, and readers are still told where it is.\n", v.WorkspaceID)
	default:
		_, err = fmt.Fprintf(out, "%s is at %s, at position %d, chain %s.\nAppends were refused for %.3f s. Rows of its history that were copied afterwards: %d.\n",
			v.WorkspaceID, other, v.Position, v.Chain, v.Refused, v.History)
		if err == nil {
			_, err = fmt.Fprintf(out, "When readers and producers ask there, remove what is left here: ledgerfeed workspace move --id %s --to … --finish\n", v.WorkspaceID)
		}
	}
	return err
}
