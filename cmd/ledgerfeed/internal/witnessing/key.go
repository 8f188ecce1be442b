package witnessing

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

const nameUsage = "the key's name, an address without its scheme, such as witness.example.com/w1"

func keyNewCommand(env *cli.Env) *cobra.Command {
	var file, name string
	c := &cobra.Command{
		Use:   "new",
		Short: "Make a witness's key, in a file that only you can read",
		Long: `Make a witness's key in the file --key-file, which only your account can read, and print
the verifier key that belongs to it. A file that exists stays as it is.

The key is secret, and for one witness alone: whoever has it can cosign in its name.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(context.Context, []string) error {
			if file == "" || name == "" {
				return cli.Usagef("want --key-file and --name")
			}
			key, err := makeKey(file, name)
			if err != nil {
				return err
			}
			return show(env, key)
		}),
	}
	c.Flags().StringVar(&file, "key-file", "", "the file for the key (required)")
	c.Flags().StringVar(&name, "name", "", nameUsage+" (required)")
	return c
}

func keyShowCommand(env *cli.Env) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "show",
		Short: "Print the verifier key that a witness's cosignatures are checked with",
		Long: `Print the verifier key that belongs to the key in --key-file, in the form
NAME+HASH+KEY of c2sp.org/signed-note for cosignature/v1 (Ed25519). It is not secret.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(context.Context, []string) error {
			if file == "" {
				return cli.Usagef("want --key-file")
			}
			key, err := readKey(file)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("there is no key in %s: ledgerfeed witness key new makes one", file)
			}
			if err != nil {
				return err
			}
			return show(env, key)
		}),
	}
	c.Flags().StringVar(&file, "key-file", "", "the file with the key (required)")
	return c
}

// show prints what is not secret.
func show(env *cli.Env, key *witness.Key) error {
	shown := struct {
		Name        string `json:"name"`
		VerifierKey string `json:"verifier_key"`
	}{key.Name(), key.VerifierKey()}
	return env.Print(shown, func(out io.Writer) error {
		_, err := fmt.Fprintln(out, shown.VerifierKey)
		return err
	})
}

// readKey reads a key from a file that others cannot read; fs.ErrNotExist: there is none.
func readKey(file string) (*witness.Key, error) {
	if _, err := os.Stat(file); err != nil {
		return nil, err
	}
	dir, err := datadir.Make(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	text, err := dir.ReadFile(filepath.Base(file))
	if err != nil {
		return nil, err
	}
	key, err := witness.ParseKey(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

// makeKey makes a key in a file, which must not be there yet.
func makeKey(file, name string) (*witness.Key, error) {
	key, err := witness.NewKey(rand.Reader, name)
	if err != nil {
		return nil, cli.Usagef("--name: %w", err)
	}
	dir, err := datadir.Make(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	err = dir.CreateFile(filepath.Base(file), []byte(key.Text()+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s exists, and is left as it is: want another file for another key", file)
	}
	if err != nil {
		return nil, fmt.Errorf("write the key: %w", err)
	}
	return key, nil
}
