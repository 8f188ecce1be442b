package signing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/textfile"
)

func checkCommand(env *cli.Env) *cobra.Command {
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
func read(env *cli.Env, args []string) ([]byte, error) {
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
func chosen(env *cli.Env, keys []string, file string, signed []byte) (*signingkey.Verifiers, error) {
	if len(keys) == 0 && file == "" {
		return Own(env, signed)
	}
	text := ""
	if file != "" {
		b, err := textfile.Read(file)
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
	return signingkey.ParseVerifiers(text + "\n" + strings.Join(keys, "\n"))
}

func of(i, n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" (the %d. of %d)", i+1, n)
}

// Own are the verifier keys that belong to the keys of this process, for the name in the
// first line of the note.
func Own(env *cli.Env, signed []byte) (*signingkey.Verifiers, error) {
	keys, _, err := have(env)
	if err != nil {
		return nil, fmt.Errorf("want --key or --keys: %w", err)
	}
	name, _, _ := strings.Cut(string(signed), "\n")
	list, err := keys.Verifiers(name)
	if err != nil {
		return nil, errors.New("it is no signed note: its first line is not the name of a key")
	}
	return signingkey.ParseVerifiers(strings.Join(list, "\n"))
}
