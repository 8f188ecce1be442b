// Package proof is ledgerfeed signing-key: it makes the key that checkpoints are signed
// with, shows the keys that others check with, and checks signed notes.
package proof

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// SigningKeyCommand is ledgerfeed signing-key.
func SigningKeyCommand(env *operate.Env) *cobra.Command {
	c := cli.Group("signing-key", "Make and show the key that signs checkpoints, and check signed notes", newCommand(env), showCommand(env), checkCommand(env))
	c.Long = `Make and show the key that signs the checkpoints of event feeds, and check signed notes.

A checkpoint is a text that people and programs read, with its signature below it
(a signed note, https://c2sp.org/signed-note). Others check it with the verifier key
that the service shows at /docs/keys.

The name in a verifier key begins with the host of LEDGERFEED_BASE_URL. Set it to the same
value here as for serve.`
	return c
}

// keyView is a key in the output. It has no secret.
type keyView struct {
	PublicKey   string            `json:"public_key"` // base64
	PEM         string            `json:"pem"`        // the same for openssl
	VerifierKey map[string]string `json:"verifier_keys"`
}

// viewOf shows keys with their verifier keys for names.
func viewOf(keys *signingkey.Keys, names []string) ([]keyView, error) {
	var list []keyView
	for _, p := range keys.Public() {
		v := keyView{PublicKey: p.String(), PEM: p.PEM(), VerifierKey: map[string]string{}}
		for _, name := range names {
			verifier, err := p.Verifier(name)
			if err != nil {
				return nil, &cli.UsageError{Err: err}
			}
			v.VerifierKey[name] = verifier
		}
		list = append(list, v)
	}
	return list, nil
}

// fileName is the file in the data directory that holds the key that signs, or two
// as LEDGERFEED_SIGNING_KEY does.
const fileName = "signing.key"

// ErrNoKey means that nothing can be signed.
var ErrNoKey = errors.New("there is no key to sign with: ledgerfeed signing-key new makes one for LEDGERFEED_SIGNING_KEY, which every process needs that serves this database")

// Keys has the keys that notes are signed with. They are in LEDGERFEED_SIGNING_KEY, or
// without it, with the program's own PostgreSQL, in a file of the data directory, which is
// made at the first use. Nil: there are none. With a DATABASE_URL none is made,
// because other processes may serve the same database, and each would sign with its own.
func Keys(ctx context.Context, e *operate.Env) (*signingkey.Keys, error) {
	k, err := ReadKeys(e)
	if k != nil || err != nil || e.Settings.DatabaseURL != "" {
		return k, err
	}
	text, err := signingkey.New(rand.Reader)
	if err != nil {
		return nil, err
	}
	path, err := file(e)
	if err != nil {
		return nil, err
	}
	dir, err := datadir.Make(filepath.Dir(path))
	if err == nil {
		err = errors.Join(dir.CreateFile(fileName, []byte(text)), dir.Close())
	}
	switch {
	case errors.Is(err, fs.ErrExist): // a process beside this one was faster
	case err != nil:
		return nil, fmt.Errorf("cannot make a key to sign with: %w", err)
	default:
		e.Logger.InfoContext(ctx, "made a key that signs checkpoints", "file", path)
	}
	return ReadKeys(e)
}

// ReadKeys is Keys without making any.
func ReadKeys(e *operate.Env) (*signingkey.Keys, error) {
	text := e.Settings.SigningKey
	if text == "" && e.Settings.DatabaseURL == "" {
		path, err := file(e)
		if err == nil {
			text, err = operate.ReadKeyFile(path, "to have another one made")
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the key that signs: %w", err)
		}
	}
	if text == "" {
		return nil, nil
	}
	k, err := signingkey.Parse(text)
	if err != nil {
		source, _ := Source(e)
		return nil, fmt.Errorf("cannot use the key that signs from %s: %w", source, err)
	}
	return k, nil
}

// Source says where the keys that sign are, or would be: the variable, or the
// file's path.
func Source(e *operate.Env) (string, error) {
	if e.Settings.SigningKey != "" || e.Settings.DatabaseURL != "" {
		return "LEDGERFEED_SIGNING_KEY", nil
	}
	return file(e)
}

func file(e *operate.Env) (string, error) {
	dir, err := localpg.Directory(e.Settings.DataDir)
	if err != nil {
		return "", fmt.Errorf("LEDGERFEED_DATA_DIR or --data-dir, which is %q: %w", e.Settings.DataDir, err)
	}
	return filepath.Join(dir, fileName), nil
}

func newCommand(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "new",
		Short: "Make a key for LEDGERFEED_SIGNING_KEY",
		Long: `Make a key for LEDGERFEED_SIGNING_KEY and print it. Keep it secret: anyone with this key
can sign in the name of the service. The command stores nothing and changes nothing.

To replace a key:

  1. Put the new key before the old one: LEDGERFEED_SIGNING_KEY=new,old.
  2. Restart every process. From then on, both keys sign.
  3. Take the old key away once everybody checks with the new one.

Keep the verifier key of the old key for ever: it checks every note that the old key
signed.

If the program runs its own PostgreSQL and LEDGERFEED_SIGNING_KEY is not set, the key is
in the file signing.key of the data directory, in the same form.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(context.Context, []string) error {
			text, err := signingkey.New(rand.Reader)
			if err != nil {
				return err
			}
			keys, err := signingkey.Parse(text)
			if err != nil {
				return err
			}
			name, err := signingkey.Host(env.Settings.BaseURL)
			if err != nil {
				return err
			}
			list, err := viewOf(keys, []string{name})
			if err != nil {
				return err
			}
			made := struct {
				Key string `json:"key"` // secret
				keyView
			}{text, list[0]}
			return env.Print(made, env.Line(text, "The key is secret. Others check what it signs with "+list[0].VerifierKey[name]))
		}),
	}
}

func showCommand(env *operate.Env) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "show",
		Short: "Show the verifier keys of the signing key",
		Long: `Show the public part of the signing keys. The command reads LEDGERFEED_SIGNING_KEY. If the
program runs its own PostgreSQL and this setting is missing, the command reads the file
signing.key in the data directory, which serve makes. The first key is the present one. A
second key is the previous one.

The command prints a verifier key for each signing key, under the host of
LEDGERFEED_BASE_URL or under the name in --name. The last lines of a note say which name
signed it. With --json, the output also has the public key in base64 and in PEM. The
output has no secrets.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(context.Context, []string) error {
			keys, source, err := have(env)
			if err != nil {
				return err
			}
			if name == "" {
				if name, err = signingkey.Host(env.Settings.BaseURL); err != nil {
					return err
				}
			}
			list, err := viewOf(keys, []string{name})
			if err != nil {
				return err
			}
			shown := struct {
				Source string    `json:"source"`
				Keys   []keyView `json:"keys"`
			}{source, list}
			return env.Print(shown, func(out io.Writer) error {
				for _, k := range list {
					if _, err := fmt.Fprintln(out, k.VerifierKey[name]); err != nil {
						return err
					}
				}
				return nil
			})
		}),
	}
	c.Flags().StringVar(&name, "name", "", "show the verifier keys for another name, such as api.example.com/acme/events")
	return c
}

// have returns the keys that there are, and where they come from.
func have(env *operate.Env) (keys *signingkey.Keys, source string, err error) {
	keys, err = ReadKeys(env)
	if err == nil {
		source, err = Source(env)
	}
	switch {
	case err != nil:
		return nil, "", err
	case keys == nil && env.Settings.DatabaseURL == "":
		return nil, "", fmt.Errorf("there is no file %s yet, which ledgerfeed serve or demo makes, and LEDGERFEED_SIGNING_KEY is not set", source)
	case keys == nil:
		return nil, "", ErrNoKey
	}
	return keys, source, nil
}

func checkCommand(env *operate.Env) *cobra.Command {
	var keys []string
	var file string
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a signed note, such as a checkpoint, without a database",
		Long: `Check a signed note from a FILE or from standard input, and print its text. The exit
status is 1 if none of the keys signed the note, or if its text is not the signed text.
The command needs no database and no network.

Give verifier keys with --key, or name a file with --keys, in the form of /docs/keys.txt.
Without both, the command uses the verifier keys of LEDGERFEED_SIGNING_KEY. Get the keys
once in a way that you trust, and keep them with the notes.`,
		Args: cobra.MaximumNArgs(1),
		RunE: env.Run(func(_ context.Context, args []string) error {
			signed, err := read(env, args)
			if err != nil {
				return err
			}
			verifiers, err := chosen(env, keys, file, signed)
			if err != nil {
				return err
			}
			checked, err := verifiers.Check(signed)
			if err != nil {
				return err
			}
			shown := struct {
				Name string   `json:"name"`
				By   []string `json:"signed_by"`
				Text string   `json:"text"`
			}{checked.Name, checked.By, checked.Text}
			return env.Print(shown, func(out io.Writer) error {
				fmt.Fprintf(env.ErrOut, "Signed by %s.\n", strings.Join(checked.By, " and "))
				_, err := fmt.Fprint(out, checked.Text)
				return err
			})
		}),
	}
	c.Flags().StringArrayVar(&keys, "key", nil, "a verifier key, NAME+HASH+KEY; can be given several times")
	c.Flags().StringVar(&file, "keys", "", "a file with verifier keys, one a line")
	return c
}

// read reads the note.
func read(env *operate.Env, args []string) ([]byte, error) {
	in, name := env.In, "standard input"
	if len(args) > 0 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in, name = f, args[0]
	}
	signed, err := signingkey.ReadNote(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return signed, nil
}

// chosen are the keys to check with.
func chosen(env *operate.Env, keys []string, file string, signed []byte) (*signingkey.Verifiers, error) {
	if len(keys) == 0 && file == "" {
		return Own(env, signed)
	}
	text := ""
	if file != "" {
		b, err := texts.ReadFile(file)
		if err != nil {
			return nil, err
		}
		text = string(b)
		if _, err := signingkey.ParseVerifiers(text); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	for i, key := range keys {
		if _, err := signingkey.ParseVerifiers(key); err != nil || strings.Contains(key, "\n") {
			return nil, cli.Usagef("--key: want a verifier key, NAME+HASH+KEY, as on /docs/keys%s", of(i, len(keys)))
		}
	}
	text += "\n" + strings.Join(keys, "\n")
	// A service has one key for all its names, and publishes it under its host.
	if named, err := signingkey.ForName(text, firstLine(signed)); err == nil {
		text += "\n" + strings.Join(named, "\n")
	}
	return signingkey.ParseVerifiers(text)
}

func of(i, n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" (the %d. of %d)", i+1, n)
}

// firstLine returns the name that signed a note.
func firstLine(signed []byte) string {
	name, _, _ := strings.Cut(string(signed), "\n")
	return name
}

// Own are the verifier keys that belong to the keys of this process, for the name in the
// first line of the note.
func Own(env *operate.Env, signed []byte) (*signingkey.Verifiers, error) {
	keys, _, err := have(env)
	if err != nil {
		return nil, fmt.Errorf("want --key or --keys: %w", err)
	}
	list, err := keys.Verifiers(firstLine(signed))
	if err != nil {
		return nil, errors.New("it is no signed note: its first line is not the name of a key")
	}
	return signingkey.ParseVerifiers(strings.Join(list, "\n"))
}
