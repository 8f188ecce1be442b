package signing

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
)

func showCommand(env *cli.Env) *cobra.Command {
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
func have(env *cli.Env) (keys *signingkey.Keys, source string, err error) {
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
