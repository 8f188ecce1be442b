// This file is ledgerfeed-reader witness: it has other people's witnesses cosign checkpoints.

package readers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/follower"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

// witnessCommand is ledgerfeed-reader witness.
func witnessCommand(env *cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "witness",
		Short: "Have a witness of transparency logs cosign a checkpoint",
		Args:  cli.NoSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(submitCommand(env))
	return c
}

// submitFlags are the flags of witness submit.
type submitFlags struct {
	state, keyFile, witness, verifier string
}

func submitCommand(env *cli.Env) *cobra.Command {
	f := &submitFlags{}
	c := &cobra.Command{
		Use:   "submit",
		Short: "Have a witness cosign the checkpoint that ledgerfeed-reader follow --verify has kept",
		Long: `Have a witness cosign the checkpoint in the state of ledgerfeed-reader follow --verify. The
command checks the witness's signature and prints the note with it.

From the service's tiles, the command makes the proof that the tree extends the one that
the witness cosigned last. So it needs the API key, as follow does, in --key-file or
` + cli.KeyVariable + `. It only reads the state.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) error { return f.run(ctx, env) }),
	}
	c.Flags().StringVar(&f.state, "state", "", "the state of ledgerfeed-reader follow --verify (required)")
	c.Flags().StringVar(&f.witness, "witness", "", "the witness's address, such as https://witness.example.com (required)")
	c.Flags().StringVar(&f.verifier, "witness-key", "", "the witness's verifier key, which its operator publishes (required)")
	c.Flags().StringVar(&f.keyFile, "key-file", "", "a file with the API key (default: "+cli.KeyVariable+")")
	return c
}

func (f *submitFlags) run(ctx context.Context, env *cli.Env) error {
	if f.state == "" || f.witness == "" || f.verifier == "" {
		return cli.Usagef("want --state, --witness and --witness-key")
	}
	if err := witness.CheckURL(f.witness); err != nil {
		return cli.Usagef("--witness: %w", err)
	}
	verifier, err := witness.ParseVerifier(f.verifier)
	if err != nil {
		return cli.Usagef("--witness-key: %w", err)
	}
	tree, signed, err := f.tree(env)
	if err != nil {
		return err
	}
	cosigned, at, err := witness.Submit(ctx, &witness.Submission{
		URL: f.witness, Key: verifier, HTTP: http.DefaultTransport, Agent: "ledgerfeed-witness-submit/1", Note: signed, Prove: tree.Prove,
	})
	if err != nil {
		return err
	}
	shown := struct {
		Witness string    `json:"witness"`
		At      time.Time `json:"cosigned_at"`
		Note    string    `json:"note"`
	}{verifier.Name(), at, string(cosigned)}
	return env.Print(shown, func(out io.Writer) error {
		fmt.Fprintf(env.ErrOut, "Cosigned by %s at %s.\n", verifier.Name(), at.Format(time.RFC3339))
		_, err := out.Write(cosigned)
		return err
	})
}

// tree is the tree that the state is of, and the checkpoint that it has kept.
func (f *submitFlags) tree(env *cli.Env) (*follower.Tree, []byte, error) {
	if _, err := os.Stat(f.state); err != nil {
		return nil, nil, err
	}
	state, err := follower.Place{Name: f.state}.Load()
	if err != nil {
		return nil, nil, err
	}
	if state.Checkpoint == "" {
		return nil, nil, fmt.Errorf("%s has no checkpoint: want the state of ledgerfeed-reader follow --verify", f.state)
	}
	key, err := env.APIKey(f.keyFile)
	if err != nil {
		return nil, nil, err
	}
	client, err := follower.NewClient(follower.ClientConfig{
		URL: state.URL, Key: key, HTTP: http.DefaultTransport, Pause: flow.Sleep, Logger: env.Logger, Agent: "ledgerfeed-witness-submit/1",
	})
	if err != nil {
		return nil, nil, fmt.Errorf("the address in %s: %w", f.state, err)
	}
	verifiers, err := signingkey.ParseVerifiers(strings.Join(state.Keys, "\n"))
	if err != nil {
		return nil, nil, fmt.Errorf("the verifier keys in %s: %w", f.state, err)
	}
	tree, err := follower.NewTree(state.Origin, verifiers, follower.Witnesses{}, []byte(state.Checkpoint), client.Tile)
	if err != nil {
		return nil, nil, fmt.Errorf("the checkpoint in %s: %w", f.state, err)
	}
	return tree, []byte(state.Checkpoint), nil
}
