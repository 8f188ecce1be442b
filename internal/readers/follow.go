// This file is ledgerfeed-reader follow: it follows a workspace's feed over the API, and
// checks it against what the service has signed.

package readers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/follower"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

// flags are the flags of follow.
type flags struct {
	apiFlags

	since            string
	state, out, exec string
	once             bool

	verify          bool
	keys, origin    string
	proofTimeout    time.Duration
	witnesses       []string
	witnessesNeeded int
}

// followCommand is ledgerfeed-reader follow.
func followCommand(env *cli.Env) *cobra.Command {
	f := &flags{}
	c := &cobra.Command{
		Use:   "follow",
		Short: "Follow a workspace's events over the API, and prove that the service signed them",
		Long: `Follow a workspace's events over the API. The command writes one line for each event: to
standard output, to the file --out, or to the standard input of a command (--exec). It
needs no database. It reads the API key from --key-file or from ` + cli.KeyVariable + `.
It takes no key on the command line, because others can see it there.

With --state, the command keeps its place in a file and continues from there. The file
--out then has each event once, whenever you stop the command. Standard output and --exec
get the last page again.

With --verify, the command proves each event before it hands the event on:

  - The event is, byte for byte, in a tree with a signed checkpoint.
  - That tree extends every tree that the command accepted before, in this run and in
    earlier ones.

One line says what the command proved. The exit status is 1 if the service contradicts a
checkpoint that it signed, or withholds signed events for --proof-timeout. Both notes are
then in a folder beside the state.

Get the keys for --verifier-keys from somewhere else than the service. Without this flag,
the command takes the keys that the service names at the first start, and keeps to them.

Give --witness once for each witness. The command then hands on an event only when all
these witnesses have cosigned the checkpoint, or as many as --witnesses-needed says. So
you know that they have seen the same tree. Get their verifier keys from the witnesses
themselves.

docs/proof.md says what this proves, and what it does not.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) error { return f.run(ctx, env) }),
	}
	f.add(c)
	c.Flags().StringVar(&f.since, "since", "", "begin with events published at or after this date-time, such as 2026-10-01T00:00:00Z (default: the oldest event)")
	c.Flags().StringVar(&f.state, "state", "", "keep the place in this file")
	c.Flags().StringVar(&f.out, "out", "", "write to this file; needs --state")
	c.Flags().StringVar(&f.exec, "exec", "", "a shell command that gets each page's lines on its standard input")
	c.Flags().BoolVar(&f.once, "once", false, "end when there are no more events")
	c.Flags().BoolVar(&f.verify, "verify", false, "prove each event; needs --state")
	c.Flags().StringVar(&f.keys, "verifier-keys", "", "a file with verifier keys, one a line, in the form of /docs/keys.txt")
	c.Flags().StringVar(&f.origin, "origin", "", "the tree's name, if its host differs from the host of --url, such as api.example.com/acme/events")
	c.Flags().StringArrayVar(&f.witnesses, "witness", nil, "the verifier key of a witness that must cosign; can be given several times (default: the witnesses in the state)")
	c.Flags().IntVar(&f.witnessesNeeded, "witnesses-needed", 0, "how many of the witnesses must cosign (default: all)")
	c.Flags().DurationVar(&f.proofTimeout, "proof-timeout", time.Minute, "how long a checkpoint may be behind the feed, and the feed behind a checkpoint")
	return c
}

// check checks how the flags go together.
func (f *flags) check() error {
	switch {
	case f.url == "":
		return cli.Usagef("want --url")
	case f.out != "" && f.exec != "":
		return cli.Usagef("want --out or --exec")
	case f.state == "" && f.out != "":
		return cli.Usagef("--out needs --state, which says how far the file was written")
	case f.state == "" && f.verify:
		return cli.Usagef("--verify needs --state, which keeps the checkpoint that the next ones have to extend")
	case !f.verify && (f.keys != "" || f.origin != ""):
		return cli.Usagef("--verifier-keys and --origin need --verify")
	case !f.verify && len(f.witnesses) > 0:
		return cli.Usagef("--witness needs --verify")
	case f.witnessesNeeded != 0 && len(f.witnesses) == 0:
		return cli.Usagef("--witnesses-needed needs --witness, once for each")
	case f.witnessesNeeded < 0 || f.witnessesNeeded > len(f.witnesses):
		return cli.Usagef("--witnesses-needed is %d: want 1 to %d, the number of --witness", f.witnessesNeeded, len(f.witnesses))
	case f.proofTimeout <= 0:
		return cli.Usagef("--proof-timeout is %v: want a time above 0, such as 1m", f.proofTimeout)
	}
	return nil
}

func (f *flags) run(ctx context.Context, env *cli.Env) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	key, err := env.APIKey(f.keyFile)
	if err != nil {
		return err
	}
	client, err := follower.NewClient(follower.ClientConfig{
		URL: f.url, Key: key, HTTP: http.DefaultTransport, Pause: flow.Sleep, Logger: env.Logger, Agent: "ledgerfeed-follow/1",
	})
	if err != nil {
		return cli.Usagef("--url: %w", err)
	}
	cfg := follower.Config{
		Client: client, Place: follower.Place{Name: f.state}, Once: f.once, ProofTimeout: f.proofTimeout,
		Clock: env.Clock, Pause: flow.Sleep, Logger: env.Logger,
	}
	unlock, err := cfg.Place.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if cfg.State, err = f.load(cfg.Place); err != nil {
		return err
	}
	if f.verify {
		if cfg.Tree, err = f.tree(ctx, env, client, cfg.State); err != nil {
			return err
		}
	}
	end, err := f.output(env, &cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if !f.once {
		cfg.Reached = func(r *follower.Report) { _ = f.report(env, r) }
	}
	following := follower.New(cfg)
	err = following.Run(ctx)
	var d *follower.DifferenceError
	if errors.As(err, &d) {
		folder, kerr := cfg.Place.Keep(d, env.Clock().UTC().Format("20060102T150405Z"))
		if kerr != nil {
			return errors.Join(err, fmt.Errorf("what proves it cannot be kept: %w", kerr))
		}
		return fmt.Errorf("%w. What proves it is in %s", err, folder)
	}
	return errors.Join(err, f.report(env, following.Report()))
}

// report says in one line what was proven.
func (f *flags) report(env *cli.Env, r *follower.Report) error {
	if env.JSON {
		// Standard output has the events.
		saying := *env
		saying.Out = env.ErrOut
		return saying.Print(r, nil)
	}
	_, err := fmt.Fprintln(env.ErrOut, r)
	return err
}

// load reads the state, and compares what it is of with the flags.
func (f *flags) load(place follower.Place) (*follower.State, error) {
	s, err := place.Load()
	if err != nil {
		return nil, err
	}
	if s.URL == "" {
		s.URL, s.Since = strings.TrimSuffix(f.url, "/"), f.since
		return s, nil
	}
	switch {
	case s.URL != strings.TrimSuffix(f.url, "/"):
		return nil, cli.Usagef("--url: the state %s is of %s", f.state, s.URL)
	case f.since != "" && f.since != s.Since:
		return nil, cli.Usagef("--since: the state %s began with %q; it goes on from its place", f.state, s.Since)
	case !f.verify && s.Origin != "":
		return nil, cli.Usagef("the state %s was made with --verify: want --verify again, so that its place stays proven", f.state)
	case f.verify && s.Origin == "" && s.Cursor != "":
		return nil, cli.Usagef("the state %s was made without --verify: want another --state, which is proven from the start", f.state)
	}
	return s, nil
}

// output opens what takes the events.
func (f *flags) output(env *cli.Env, cfg *follower.Config) (end func() error, err error) {
	end = func() error { return nil }
	switch {
	case f.out != "":
		file, err := follower.OpenFile(f.out, cfg.State.Output)
		if err != nil {
			return nil, err
		}
		cfg.Output, end = file, file.Close
	case cfg.State.Output != nil:
		return nil, cli.Usagef("the state %s was made with --out: want --out with the same file", f.state)
	case f.exec != "":
		// The command need not know the key.
		without := slices.DeleteFunc(slices.Clone(env.Environment()), func(v string) bool { return strings.HasPrefix(v, cli.KeyVariable+"=") })
		cfg.Output = &follower.Command{Line: f.exec, Env: without, Out: env.Out, ErrOut: env.ErrOut}
	default:
		cfg.Output = follower.Lines{To: env.Out}
	}
	return end, nil
}

// tree makes what proves events, with the keys of the file, else those of the state, else
// those that the service names.
func (f *flags) tree(ctx context.Context, env *cli.Env, client *follower.Client, s *follower.State) (*follower.Tree, error) {
	origin, err := f.originOf(ctx, client)
	if err != nil {
		return nil, err
	}
	if s.Origin == "" {
		s.Origin = origin
	}
	if s.Origin != origin {
		return nil, fmt.Errorf("the state %s is of the tree %s, and this key sees %s: want a key of the same workspace, with or without pay:read as before", f.state, s.Origin, origin)
	}
	switch {
	case f.keys != "":
		text, err := texts.ReadFile(f.keys)
		if err != nil {
			return nil, err
		}
		if s.Keys, err = signingkey.ForName(string(text), origin); err != nil {
			return nil, fmt.Errorf("%s: %w", f.keys, err)
		}
	case len(s.Keys) == 0:
		text, err := client.PublishedKeys(ctx)
		if err != nil {
			return nil, err
		}
		if s.Keys, err = signingkey.ForName(text, origin); err != nil {
			return nil, fmt.Errorf("the keys that the service names at /docs/keys.txt: %w", err)
		}
		fmt.Fprintf(env.ErrOut, "The verifier keys are what the service itself names; compare them with what its operator gave you:\n%s\n", strings.Join(s.Keys, "\n"))
	}
	verifiers, err := signingkey.ParseVerifiers(strings.Join(s.Keys, "\n"))
	if err != nil {
		return nil, fmt.Errorf("the verifier keys of the state: %w", err)
	}
	witnesses, err := f.witnessKeys(s)
	if err != nil {
		return nil, err
	}
	var accepted []byte
	if s.Checkpoint != "" {
		accepted = []byte(s.Checkpoint)
	}
	tree, err := follower.NewTree(origin, verifiers, witnesses, accepted, client.Tile)
	if err != nil {
		return nil, fmt.Errorf("the checkpoint in %s: %w. Where the service has a new key, it signs with both for a while; --verifier-keys names the new one", f.state, err)
	}
	return tree, nil
}

// witnessKeys are the witnesses who must have cosigned: those of the flags, else those of the
// state.
func (f *flags) witnessKeys(s *follower.State) (w follower.Witnesses, err error) {
	if len(f.witnesses) > 0 {
		s.Witnesses, s.Needed = f.witnesses, cmp.Or(f.witnessesNeeded, len(f.witnesses))
	}
	known := map[uint32]bool{}
	for _, text := range s.Witnesses {
		key, err := witness.ParseVerifier(strings.TrimSpace(text))
		if err != nil {
			return w, cli.Usagef("--witness: %w", err)
		}
		if known[key.KeyHash()] {
			return w, cli.Usagef("--witness: the key of %s is given twice", key.Name())
		}
		known[key.KeyHash()] = true
		w.Keys = append(w.Keys, key)
	}
	w.Needed = s.Needed
	return w, nil
}

// originOf is the name of the tree that the key sees.
func (f *flags) originOf(ctx context.Context, client *follower.Client) (string, error) {
	if f.origin != "" {
		return f.origin, nil
	}
	sight, err := client.Sight(ctx)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(f.url)
	if err != nil {
		return "", fmt.Errorf("--url: %w", err)
	}
	name := strings.ToLower(u.Host) + "/" + sight.Workspace + "/events"
	if sight.Pay {
		name += "-with-pay"
	}
	return name, nil
}
