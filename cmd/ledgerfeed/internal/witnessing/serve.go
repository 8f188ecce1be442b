package witnessing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

// serveFlags are those of witness serve.
type serveFlags struct {
	listen, state, keyFile, name, logs string
}

func serveCommand(env *cli.Env) *cobra.Command {
	f := &serveFlags{}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Cosign checkpoints of logs, each only if it extends all that were cosigned before",
		Long: `Run a witness in the form of c2sp.org/tlog-witness. POST /add-checkpoint cosigns a
checkpoint (cosignature/v1, Ed25519) of one of the logs in --logs, if its tree extends the
one that was cosigned last. GET /ORIGIN-HASH/checkpoint gives the last one, with both
signatures. It needs no database.

What was cosigned is in the folder --state, one file a log, and is there before it is
answered. Keep the folder as you keep the key: a witness with an older one would cosign a
second tree. Where a log has signed two trees of one size, both notes are kept there, in
a file ORIGIN-HASH.fork-1, and an error is logged.

--logs has verifier keys, one a line; a key's name is the origin of its log. It is read at
the start. It speaks HTTP: for others, put a proxy with TLS before it.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) error { return f.run(ctx, env) }),
	}
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8086", "the address to listen on; port 0 takes a free one")
	c.Flags().StringVar(&f.state, "state", "", "the folder for what was cosigned; made if it is missing (required)")
	c.Flags().StringVar(&f.keyFile, "key-file", "", "the file with the witness's key; made at the first start with --name (required)")
	c.Flags().StringVar(&f.name, "name", "", nameUsage+", for the first start")
	c.Flags().StringVar(&f.logs, "logs", "", "a file with the verifier keys of the logs, one a line (required)")
	return c
}

func (f *serveFlags) run(ctx context.Context, env *cli.Env) (err error) {
	if f.state == "" || f.keyFile == "" || f.logs == "" {
		return cli.Usagef("want --state, --key-file and --logs")
	}
	text, err := os.ReadFile(f.logs)
	if err != nil {
		return err
	}
	logs, err := witness.ParseLogs(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", f.logs, err)
	}
	key, err := f.key()
	if err != nil {
		return err
	}
	dir, err := datadir.Make(f.state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	unlock, err := witness.Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	w, err := witness.New(witness.Config{Dir: dir, Key: key, Logs: logs, Clock: env.Clock, Logger: env.Logger})
	if err != nil {
		return err
	}
	bound, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	env.Logger.InfoContext(ctx, "the witness is listening", "address", bound.Addr().String(), "logs", len(logs), "verifier_key", key.VerifierKey())
	return w.Serve(ctx, bound)
}

// key reads the key, or makes it at the first start.
func (f *serveFlags) key() (*witness.Key, error) {
	key, err := readKey(f.keyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.name == "":
		return nil, cli.Usagef("there is no key in %s: want --name, under which one is made", f.keyFile)
	case errors.Is(err, fs.ErrNotExist):
		return makeKey(f.keyFile, f.name)
	case err != nil:
		return nil, err
	case f.name != "" && f.name != key.Name():
		return nil, cli.Usagef("--name is %s, and the key in %s is called %s", f.name, f.keyFile, key.Name())
	}
	return key, nil
}
