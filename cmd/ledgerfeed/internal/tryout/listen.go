package tryout

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/receiver"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

// listenFlags are the flags of webhook listen.
type listenFlags struct {
	port        int
	secrets     []string
	certificate string
	forwardTo   string
	workspace   string
	events      []string
}

// ListenCommand is ledgerfeed webhook listen.
func ListenCommand(env *operate.Env) *cobra.Command {
	f := &listenFlags{}
	c := &cobra.Command{
		Use:   "listen",
		Short: "Receive webhooks on this machine: check their signatures, print them, forward them",
		Long: `Receive webhooks on this machine, check their signatures and print what arrives. The
command speaks HTTPS with its own certificate. With --forward-to, it also forwards each
message unchanged to the program that you develop, and returns that program's answer.

With --workspace, the command adds its own webhook, sends it a test.ping, and deletes it
at the end. If the command is killed, its webhook stays. The next run on the same port
deletes it. The command prints the secret for the program that you develop. The demo
reaches the command at once. Any other service needs the two settings that the command
prints.

Everybody may read the certificate file. But a service that runs under another account
cannot enter your data directory. For such a service, use --certificate to name a file in
a directory that the service can read.`,
		Args: cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			cfg, err := f.config(env)
			if err != nil {
				return err
			}
			if f.workspace == "" {
				return f.listen(ctx, env, cfg)
			}
			return f.listenFor(ctx, env, cfg)
		}),
	}
	c.Flags().IntVar(&f.port, "port", 4443, "the port to listen on; 0 takes a free one")
	c.Flags().StringVar(&f.certificate, "certificate", "", "the file for the certificate (default receiver.pem in the data directory)")
	c.Flags().StringArrayVar(&f.secrets, "secret", nil, "accept messages signed with this secret; can be given several times")
	c.Flags().StringVar(&f.forwardTo, "forward-to", "", "forward messages to this address, such as http://localhost:3000/hook")
	c.Flags().StringVar(&f.workspace, "workspace", "", "add a webhook to this workspace while the command runs")
	c.Flags().StringSliceVar(&f.events, "events", []string{delivery.AllEvents}, "with --workspace: event types, separated by commas, or all: "+strings.Join(domain.PublicTypes(), ", "))
	return c
}

// config checks the flags.
func (f *listenFlags) config(env *operate.Env) (receiver.Config, error) {
	cfg := receiver.Config{Addr: "127.0.0.1:" + strconv.Itoa(f.port), Out: env.Out, JSON: env.JSON, Brand: env.Settings.Brand, Clock: env.Clock}
	if f.port < 0 || f.port > 65535 {
		return cfg, cli.Usagef("--port is %d: want 0 to 65535", f.port)
	}
	if f.workspace != "" && len(f.secrets) > 0 {
		return cfg, cli.Usagef("--secret is for an existing webhook, and --workspace adds a new one: want one of them")
	}
	if f.forwardTo != "" {
		to, err := url.Parse(f.forwardTo)
		if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
			return cfg, cli.Usagef("--forward-to: want an address such as http://localhost:3000/hook")
		}
		cfg.Forward = to
	}
	if len(f.secrets) > 0 {
		cfg.Secrets = func() []string { return f.secrets }
	}
	return cfg, nil
}

// loopback are the addresses at which receivers listen.
const loopback = "127.0.0.0/8"

// settingsFor says which settings a service needs to reach a receiver.
func settingsFor(certificate string) string {
	return "LEDGERFEED_WEBHOOK_ALLOW=" + loopback + " LEDGERFEED_WEBHOOK_CA_FILE=" + certificate
}

// listen receives for a webhook that is added by hand.
func (f *listenFlags) listen(ctx context.Context, env *operate.Env, cfg receiver.Config) error {
	l, certificate, err := StartReceiver(ctx, cfg, env.Settings.DataDir, f.certificate)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.ErrOut, "Listening. A webhook for it:  ledgerfeed webhook create --workspace W --url %s\n", l.URL())
	fmt.Fprintf(env.ErrOut, "Give serve, and that command:  %s\n", settingsFor(certificate))
	if len(f.secrets) == 0 {
		fmt.Fprintln(env.ErrOut, "Without --secret, signatures are not checked.")
	}
	return l.Serve(ctx)
}

// listenFor receives for a webhook of its own, which it deletes at the end.
func (f *listenFlags) listenFor(ctx context.Context, env *operate.Env, cfg receiver.Config) error {
	AllowLoopback(env)
	return env.WithDeps(ctx, func(d *operate.Deps) (err error) {
		store, err := d.WebhooksWithKey(ctx)
		if err != nil {
			return err
		}
		var made *delivery.WithSecret
		cfg.Secrets = func() []string { return []string{made.Secret} } // nothing is served before there is one
		l, certificate, err := StartReceiver(ctx, cfg, env.Settings.DataDir, f.certificate)
		if err != nil {
			return err
		}
		if err := deleteLeft(ctx, store, f.workspace, l.URL()); err != nil {
			return err
		}
		if made, err = store.Create(ctx, f.workspace, delivery.Definition{URL: l.URL(), Events: f.events, Name: ownName, Standard: true}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Delete(context.WithoutCancel(ctx), made.ID)) }()
		fmt.Fprintf(env.ErrOut, "Listening with the webhook %s, which is deleted at the end. Ctrl-C ends it.\n", made.ID)
		fmt.Fprintf(env.ErrOut, "Its signing secret is %s\n", made.Secret)
		fmt.Fprintf(env.ErrOut, "Where nothing arrives, not even the first test.ping: start the demo, or serve with  %s\n", settingsFor(certificate))
		if _, err := store.Test(ctx, made.ID); err != nil {
			return err
		}
		return l.Serve(ctx)
	})
}

// ownName is the name of webhooks that listenFor adds.
const ownName = "webhook listen"

// deleteLeft deletes the webhooks of earlier runs that were killed. This one has their port,
// so none of them listens any more.
func deleteLeft(ctx context.Context, store *delivery.Store, workspace, address string) error {
	list, err := store.List(ctx, workspace)
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].Name != ownName || list[i].URL != address {
			continue
		}
		if err := store.Delete(ctx, list[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// AllowLoopback changes the settings of this process so that webhooks may be on this machine.
func AllowLoopback(env *operate.Env) {
	env.Settings.WebhookAllow = append(env.Settings.WebhookAllow, netip.MustParsePrefix(loopback))
}

// StartReceiver starts a receiver with the certificate of the data directory dir, or with one for a
// file that everybody may read.
func StartReceiver(ctx context.Context, cfg receiver.Config, dir, file string) (l *receiver.Server, certificate string, err error) {
	certificate = file
	if file == "" {
		cfg.Certificate, certificate, err = keptCertificate(dir, cfg.Clock())
	} else {
		cfg.Certificate, err = ownFile(file, cfg.Clock())
	}
	if err != nil {
		return nil, "", fmt.Errorf("cannot write the receiver's certificate: %w", err)
	}
	if l, err = receiver.New(ctx, cfg); errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w: another receiver may be running; --port 0 takes a free port", err)
	}
	return l, certificate, err
}
