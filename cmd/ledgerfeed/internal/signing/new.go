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
			return env.Print(made, func(out io.Writer) error {
				fmt.Fprintf(env.ErrOut, "The key is secret. Others check what it signs with %s\n", list[0].VerifierKey[name])
				_, err := fmt.Fprintln(out, text)
				return err
			})
		}),
	}
}
