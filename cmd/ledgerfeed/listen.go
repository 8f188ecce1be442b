package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/delivery"
)

func (p *program) webhookListenCommand() *cobra.Command {
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
		Args: cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			if port < 0 || port > 65535 {
				return usagef("--port is %d: want 0 to 65535", port)
			}
			cfg := delivery.ListenConfig{Addr: "127.0.0.1:" + strconv.Itoa(port), Out: p.out, JSON: p.json, Brand: p.settings.Brand, Clock: p.clock}
			if len(secrets) > 0 {
				cfg.Secrets = func() []string { return secrets }
			}
			l, err := delivery.NewListener(ctx, cfg)
			if err != nil {
				return err
			}
			certificate, err := keepCertificate(p.settings.DataDir, l)
			if err != nil {
				return err
			}
			fmt.Fprintf(p.errOut, "Listening. A webhook for it:  ledgerfeed webhook create --workspace W --url %s\n", l.URL())
			fmt.Fprintf(p.errOut, "Give serve, and that command:  LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8 LEDGERFEED_WEBHOOK_CA_FILE=%s\n", certificate)
			if len(secrets) == 0 {
				fmt.Fprintln(p.errOut, "Without --secret, signatures are not checked.")
			}
			return l.Serve(ctx)
		}),
	}
	c.Flags().IntVar(&port, "port", 4443, "the port to listen on; 0 takes a free one")
	c.Flags().StringArrayVar(&secrets, "secret", nil, "a signing secret whose messages are taken; can be given several times")
	return c
}

// keepCertificate writes a listener's certificate where the service can read
// it, and says where.
func keepCertificate(dir string, l *delivery.Listener) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("keep the receiver's certificate: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("keep the receiver's certificate: %w", err)
	}
	name := filepath.Join(dir, "receiver.pem")
	if err := os.WriteFile(name, l.Certificate(), 0o600); err != nil {
		return "", fmt.Errorf("keep the receiver's certificate: %w", err)
	}
	return name, nil
}
