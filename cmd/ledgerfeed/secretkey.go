package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

func secretKeyCommand(env *operate.Env) *cobra.Command {
	return cli.Group("secret-key", "Check and rotate the key that webhooks' secrets are encrypted with", operate.OverCells(secretKeyCheckCommand(env)), operate.OverCells(secretKeyRotateCommand(env), "give-up-lost"))
}

// secretKeyView is a key in the output of check.
type secretKeyView struct {
	Fingerprint string `json:"fingerprint"`
	Held        bool   `json:"held"`    // by this process
	Seals       bool   `json:"seals"`   // new secrets
	Lost        bool   `json:"lost"`    // given up
	Secrets     int    `json:"secrets"` // that are sealed under it
}

type secretKeysView struct {
	Source string          `json:"source"` // of the keys that are held
	Keys   []secretKeyView `json:"keys"`
	OK     bool            `json:"ok"`
	Fault  string          `json:"fault,omitempty"`
}

func viewSecretKeys(source string, s *keyring.State, k *keyring.Keyring, fault error) secretKeysView {
	v := secretKeysView{Source: source, Keys: []secretKeyView{}, OK: true}
	if fault != nil && !s.Unused() {
		v.OK, v.Fault = false, fault.Error()
	}
	keys := map[keyring.Fingerprint]*secretKeyView{}
	of := func(f keyring.Fingerprint) *secretKeyView {
		if keys[f] == nil {
			keys[f] = &secretKeyView{Fingerprint: f.String()}
		}
		return keys[f]
	}
	if k != nil {
		for _, f := range k.Fingerprints() {
			of(f).Held = true
		}
	}
	if s.Sealing != nil {
		of(*s.Sealing).Seals = true
	}
	for _, f := range s.Lost {
		of(f).Lost = true
	}
	for f, n := range s.Secrets {
		of(f).Secrets = n
	}
	for _, f := range slices.SortedFunc(maps.Keys(keys), keyring.Fingerprint.Compare) {
		v.Keys = append(v.Keys, *keys[f])
	}
	return v
}

func secretKeyCheckCommand(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Show which keys the database's secrets need, and whether this process has them",
		Long: `Show which keys encrypt the secrets of the database's webhooks, and whether
LEDGERFEED_SECRET_KEY has them. Without this setting, the command checks the file in the
data directory. The exit status is 1 if a key is missing. The command changes nothing. A
fingerprint tells nothing about its key.`,
		Args: cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			return env.WithDeps(ctx, func(d *operate.Deps) error {
				k, err := env.ReadKeyring(d.Database)
				if err != nil {
					return err
				}
				s, err := keyring.ReadState(ctx, d.Pool, env.Clock())
				if err != nil {
					return err
				}
				source := env.SecretKeySource(d.Database)
				fault := operate.CheckSecretKeys(s, k, source)
				v := viewSecretKeys(source, s, k, fault)
				if err := env.Print(v, func(out io.Writer) error { return writeSecretKeys(out, &v) }); err != nil {
					return err
				}
				if v.OK {
					return nil
				}
				return fault
			})
		}),
	}
}

func writeSecretKeys(out io.Writer, v *secretKeysView) error {
	if len(v.Keys) == 0 {
		_, err := fmt.Fprintln(out, "The database has no key yet, and neither has this process. The first use makes one.")
		return err
	}
	yes := map[bool]string{true: "yes", false: "no"}
	return cli.Table(out, "FINGERPRINT\tIN "+v.Source+"\tENCRYPTS\tSECRETS", v.Keys, func(k *secretKeyView) string {
		encrypts := yes[k.Seals]
		if k.Lost {
			encrypts = "given up as lost"
		}
		return fmt.Sprintf("%s\t%s\t%s\t%d", k.Fingerprint, yes[k.Held], encrypts, k.Secrets)
	})
}

// rotatedView is the output of rotate.
type rotatedView struct {
	Fingerprint string `json:"fingerprint"` // of the key that encrypts now
	Webhooks    int    `json:"webhooks"`    // whose secrets were encrypted again
	Lost        int    `json:"lost"`        // secrets that were given up
}

// giveUp is whether secrets whose key is missing are to be given up.
type giveUp struct {
	lost bool // --give-up-lost
	yes  bool // --yes: without a question
}

// confirm asks the person whether to make so many secrets unreadable.
func (g giveUp) confirm(env *operate.Env, secrets int, missing error) error {
	if g.yes || secrets == 0 {
		return nil
	}
	return env.Confirm(fmt.Sprintf("%v.\n\nSecrets of webhooks that become unreadable for ever: %d. Their receivers hear nothing until each has a new secret.", missing, secrets))
}

func secretKeyRotateCommand(env *operate.Env) *cobra.Command {
	var give giveUp
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Encrypt webhooks' secrets with a new key",
		Long: `Encrypt the secrets of all webhooks with a new key: the first one of
LEDGERFEED_SECRET_KEY. Its other keys decrypt the present secrets. Receivers notice
nothing.

  1. Make a key (openssl rand -hex 32) and restart every process with it before the
     old one: LEDGERFEED_SECRET_KEY=new,old. They go on encrypting with the old one.
  2. Run this command with the same value. It refuses while a delivering process does
     not have the new key.
  3. Restart every process with the new key alone.

Without LEDGERFEED_SECRET_KEY, the command replaces the key in the data directory. It
makes the new key, and asks you to restart the running processes. You can interrupt the
command and run it again.

Older backups of the database need the old key: keep it as long as you keep them. The data
directory keeps its own old key in secret.key.former.

If the old key is lost for good, use --give-up-lost. Nothing can undo this. The command
says how many secrets become unreadable for ever, and asks you, unless you give --yes.
Their webhooks stay silent until you give each a new secret with
ledgerfeed webhook rotate-secret. The command refuses while a delivering process has the
lost key.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) error {
			return env.WithDeps(ctx, func(d *operate.Deps) error { return rotateSecretKey(ctx, env, d, give) })
		}),
	}
	c.Flags().BoolVar(&give.lost, "give-up-lost", false, "go on without lost keys; the secrets that they encrypt are gone")
	c.Flags().BoolVar(&give.yes, "yes", false, "with --give-up-lost: do not ask")
	return c
}

func rotateSecretKey(ctx context.Context, env *operate.Env, d *operate.Deps, give giveUp) error {
	inFile := env.Settings.SecretKey == ""
	if inFile && len(env.Cells) > 0 {
		return cli.Usagef("LEDGERFEED_SECRET_KEY is not set. With LEDGERFEED_CELLS, set it to the new key and the old key; all cells use the same ones")
	}
	if inFile { // from the first look at the file to the last change of it
		unlock, err := env.LockSecretKeys(d.Database)
		if err != nil {
			return err
		}
		defer unlock()
	}
	k, err := env.ReadKeyring(d.Database)
	if err != nil {
		return err
	}
	s, err := keyring.ReadState(ctx, d.Pool, env.Clock())
	if err != nil {
		return err
	}
	v := rotatedView{}
	var lost []keyring.Fingerprint // the keys that the person is asked about
	undo := func() error { return nil }
	if missing := operate.CheckSecretKeys(s, k, env.SecretKeySource(d.Database)); missing != nil {
		if !give.lost {
			return missing
		}
		lost = s.Missing(k)
		for _, f := range lost {
			v.Lost += s.Secrets[f]
		}
		if err := give.confirm(env, v.Lost, missing); err != nil {
			return err
		}
	}
	// A first key that does not seal yet is left from a run that was interrupted.
	if inFile && (k == nil || s.Sealing == nil || *s.Sealing == k.Fingerprints()[0]) {
		if k, undo, err = env.AddSecretKey(d.Database); err != nil {
			return err
		}
	}
	if k == nil {
		return errors.New("there is no key to rotate to")
	}
	if !inFile && s.Sealing != nil && *s.Sealing == k.Fingerprints()[0] && len(s.Missing(k)) == 0 {
		fmt.Fprintln(env.ErrOut, "The first key of LEDGERFEED_SECRET_KEY is the one that encrypts already. To change it, put a new one before it.")
	}
	if err := keyring.Rotate(ctx, d.Pool, k, env.Clock(), lost); err != nil {
		if give.lost { // otherwise the key stays, for processes to be started again with it
			err = errors.Join(err, undo())
		}
		return err
	}
	if v.Webhooks, err = keyring.Reseal(ctx, d.Pool, k, env.Clock()); err != nil {
		return err
	}
	before := "the old key"
	if inFile {
		if k, before, err = keepSecretKey(ctx, env, d, k); err != nil {
			return err
		}
	}
	if !give.lost {
		fmt.Fprintf(env.ErrOut, "Keep %s as long as there are backups of the database from before: their secrets need it.\n", before)
	}
	v.Fingerprint = k.Fingerprints()[0].String()
	return env.Print(v, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "The key %s encrypts now; the secrets of %s were encrypted again.\n", v.Fingerprint, texts.Count(v.Webhooks, "webhook", "webhooks"))
		if v.Lost > 0 && err == nil {
			_, err = fmt.Fprintf(out, "Given up: %s. ledgerfeed webhook rotate-secret gives each of these webhooks a new one.\n", texts.Count(v.Lost, "secret", "secrets"))
		}
		return err
	})
}

// keepSecretKey takes the keys that are former now out of the file, unless a secret still
// needs one: a process of an earlier version may have sealed it meanwhile.
func keepSecretKey(ctx context.Context, env *operate.Env, d *operate.Deps, k *keyring.Keyring) (kept *keyring.Keyring, former string, err error) {
	seals := k.Fingerprints()[0]
	s, err := keyring.ReadState(ctx, d.Pool, env.Clock())
	if err != nil {
		return nil, "", err
	}
	for f, n := range s.Secrets {
		if f != seals && n > 0 && !slices.Contains(s.Lost, f) {
			return nil, "", fmt.Errorf("%s still encrypted with the key %s, which stays in the file: run this again", texts.Count(n, "secret is", "secrets are"), f)
		}
	}
	return env.KeepSecretKey(d.Database, seals)
}
