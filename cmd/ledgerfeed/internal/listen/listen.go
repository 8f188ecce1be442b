// Package listen receives webhooks on this machine, for the command webhook
// listen and for the demo.
package listen

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/delivery/receiver"
	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// Command is ledgerfeed webhook listen.
func Command(env *cli.Env) *cobra.Command {
	var (
		port    int
		secrets []string
	)
	c := &cobra.Command{
		Use:   "listen",
		Short: "Receive webhooks on this machine: check their signatures and print them",
		Long: `Receive webhooks on this machine, check their signatures and print what
arrives. It speaks HTTPS with a certificate of its own. For the service to
reach it, give the service the two settings that are printed at the start.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) error {
			if port < 0 || port > 65535 {
				return cli.Usagef("--port is %d: want 0 to 65535", port)
			}
			cfg := receiver.Config{Addr: "127.0.0.1:" + strconv.Itoa(port), Out: env.Out, JSON: env.JSON, Brand: env.Settings.Brand, Clock: env.Clock}
			if len(secrets) > 0 {
				cfg.Secrets = func() []string { return secrets }
			}
			l, certificate, err := Start(ctx, cfg, env.Settings.DataDir)
			if err != nil {
				return err
			}
			fmt.Fprintf(env.ErrOut, "Listening. A webhook for it:  ledgerfeed webhook create --workspace W --url %s\n", l.URL())
			fmt.Fprintf(env.ErrOut, "Give serve, and that command:  LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8 LEDGERFEED_WEBHOOK_CA_FILE=%s\n", certificate)
			if len(secrets) == 0 {
				fmt.Fprintln(env.ErrOut, "Without --secret, signatures are not checked.")
			}
			return l.Serve(ctx)
		}),
	}
	c.Flags().IntVar(&port, "port", 4443, "the port to listen on; 0 takes a free one")
	c.Flags().StringArrayVar(&secrets, "secret", nil, "a signing secret whose messages are accepted; can be given several times")
	return c
}

// Start starts a receiver and writes its certificate to a file in dir, where
// the service can read it.
func Start(ctx context.Context, cfg receiver.Config, dir string) (l *receiver.Server, certificate string, err error) {
	if l, err = receiver.New(ctx, cfg); err != nil {
		return nil, "", err
	}
	if certificate, err = writeCertificate(dir, l.Certificate()); err != nil {
		return nil, "", fmt.Errorf("cannot write the receiver's certificate: %w", err)
	}
	return l, certificate, nil
}

func writeCertificate(path string, certificate []byte) (string, error) {
	dir, err := datadir.Make(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = dir.Close() }()
	const name = "receiver.pem"
	return filepath.Join(dir.Name(), name), dir.WriteFile(name, certificate)
}
