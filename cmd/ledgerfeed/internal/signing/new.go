package signing

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
)

func newCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "new",
		Short: "Make a key for LEDGERFEED_SIGNING_KEY",
		Long: `Make a key for LEDGERFEED_SIGNING_KEY and print it. It is secret: who has it can sign in
the name of the service. Nothing is stored, and nothing is changed.

To replace a key, put the new one before the old one, LEDGERFEED_SIGNING_KEY=new,old, and
restart every process: both sign. Take the old one away once everybody checks with the
new one. What the old one signed is checked with its verifier key for ever: keep that.

With the program's own PostgreSQL and without the setting, the key is in the file
signing.key of the data directory, in the same form.`,
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
			return env.Print(made, func(out io.Writer) error {
				fmt.Fprintf(env.ErrOut, "The key is secret. Others check what it signs with %s\n", list[0].VerifierKey[name])
				_, err := fmt.Fprintln(out, text)
				return err
			})
		}),
	}
}
