// Package signing is ledgerfeed signing-key: it makes the key that checkpoints are signed
// with, shows the keys that others check with, and checks signed notes.
package signing

import (
	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
)

// Command is ledgerfeed signing-key.
func Command(env *cli.Env) *cobra.Command {
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
