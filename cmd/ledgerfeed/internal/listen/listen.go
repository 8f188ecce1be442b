// Package listen receives webhooks on this machine, for the command webhook
// listen and for the demo.
package listen

import (
	"context"
	"errors"
	"fmt"
	"os"
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
		file    string
	)
	c := &cobra.Command{
		Use:   "listen",
		Short: "Receive webhooks on this machine: check their signatures and print them",
		Long: `Receive webhooks on this machine, check their signatures and print what
arrives. It speaks HTTPS with a certificate of its own. For the service to
reach it, give the service the two settings that are printed at the start.

Everybody may read the file with the certificate; its key stays in memory. A service
that runs under another account cannot enter the data directory of yours: for it,
--certificate names a file in a directory that it can read.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) error {
			if port < 0 || port > 65535 {
				return cli.Usagef("--port is %d: want 0 to 65535", port)
			}
			cfg := receiver.Config{Addr: "127.0.0.1:" + strconv.Itoa(port), Out: env.Out, JSON: env.JSON, Brand: env.Settings.Brand, Clock: env.Clock}
			if len(secrets) > 0 {
				cfg.Secrets = func() []string { return secrets }
			}
			l, certificate, err := Start(ctx, cfg, env.Settings.DataDir, file)
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
	c.Flags().StringVar(&file, "certificate", "", "the file for the certificate (default receiver.pem in the data directory)")
	c.Flags().StringArrayVar(&secrets, "secret", nil, "a signing secret whose messages are accepted; can be given several times")
	return c
}

// Start starts a receiver and writes its certificate to a file that everybody may read;
// an empty one is receiver.pem in the data directory dir.
func Start(ctx context.Context, cfg receiver.Config, dir, file string) (l *receiver.Server, certificate string, err error) {
	if l, err = receiver.New(ctx, cfg); err != nil {
		return nil, "", err
	}
	if certificate, err = writeCertificate(dir, file, l.Certificate()); err != nil {
		return nil, "", fmt.Errorf("cannot write the receiver's certificate: %w", err)
	}
	return l, certificate, nil
}

func writeCertificate(dataDir, file string, certificate []byte) (string, error) {
	const readable = 0o644 // whatever the umask is
	if file != "" {
		if err := os.WriteFile(file, certificate, readable); err != nil {
			return "", err
		}
		return file, os.Chmod(file, readable)
	}
	dir, err := datadir.Make(dataDir)
	if err != nil {
		return "", err
	}
	defer func() { _ = dir.Close() }()
	const name = "receiver.pem"
	return filepath.Join(dir.Name(), name), errors.Join(dir.WriteFile(name, certificate), dir.Chmod(name, readable))
}
