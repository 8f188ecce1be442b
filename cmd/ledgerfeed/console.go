package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// consoleConnections is how many pages can be made at once.
const consoleConnections = 6

// consoleSettings are those of the console alone.
type consoleSettings struct {
	URL string `env:"LEDGERFEED_CONSOLE_URL"` // where browsers reach it; default: the address it listens at

	// Sign-in with OpenID Connect; without an issuer, with sign-in links alone.
	Issuer       string   `env:"LEDGERFEED_OIDC_ISSUER"`
	ClientID     string   `env:"LEDGERFEED_OIDC_CLIENT_ID"`
	ClientSecret string   `env:"LEDGERFEED_OIDC_CLIENT_SECRET"`
	Scopes       []string `env:"LEDGERFEED_OIDC_SCOPES"`                    // besides openid, profile, email
	Claim        string   `env:"LEDGERFEED_OIDC_CLAIM" envDefault:"groups"` // decides about workspaces and roles
	Map          string   `env:"LEDGERFEED_OIDC_MAP"`                       // finance=acme:admin;support=*:viewer
}

// identity is the identity provider of the settings; nil: none.
func (s *consoleSettings) identity() (*console.IdentityConfig, error) {
	if s.Issuer == "" {
		return nil, nil //nolint:nilnil // none is no error
	}
	m, err := console.ParseIdentityMap(s.Map)
	if err != nil {
		return nil, usagef("LEDGERFEED_OIDC_MAP: %w", err)
	}
	return &console.IdentityConfig{
		Issuer: s.Issuer, ClientID: s.ClientID, ClientSecret: s.ClientSecret, Scopes: s.Scopes, Claim: s.Claim, Map: m,
	}, nil
}

// consoleURL is where browsers reach the console. A listener beyond this
// machine is taken to stand behind a proxy that speaks https.
func (s *settings) consoleURL() string {
	if s.Console.URL != "" {
		return strings.TrimSuffix(s.Console.URL, "/")
	}
	host, _, err := net.SplitHostPort(s.ConsoleListen)
	ip, ipErr := netip.ParseAddr(host)
	if err == nil && (host == "localhost" || ipErr == nil && ip.IsLoopback()) {
		return "http://" + s.ConsoleListen
	}
	if host == "" {
		return "https://localhost" + s.ConsoleListen
	}
	return "https://" + s.ConsoleListen
}

// prepareConsole makes the web interface and its listener.
func (s *service) prepareConsole(ctx context.Context) error {
	set := &s.program.settings
	pool, err := s.openPool(ctx, pg.Options{MaxConns: consoleConnections})
	if err != nil {
		return err
	}
	format := access.NewFormat(set.Brand)
	keys, err := access.NewStore(access.StoreConfig{Pool: pool, Format: format, Clock: s.program.clock})
	if err != nil {
		return err
	}
	keyring, err := s.program.keyring(ctx, s.database)
	if err != nil {
		return err
	}
	webhooks, err := delivery.NewStore(delivery.StoreConfig{
		Pool: pool, Keyring: keyring, Log: s.log, Notify: s.notifier.Notify, Clock: s.program.clock, Settings: set.delivery(),
	})
	if err != nil {
		return err
	}
	door, err := console.NewDoor(console.DoorConfig{Pool: pool, Clock: s.program.clock})
	if err != nil {
		return err
	}
	identity, err := set.Console.identity()
	if err != nil {
		return err
	}
	url := set.consoleURL()
	if set.Console.URL == "" && strings.HasPrefix(url, "https:") {
		s.logger.WarnContext(ctx, "LEDGERFEED_CONSOLE_URL is not set: the console signs people in over https alone", "expected_at", url)
	}
	reference, err := readapi.DescribePage(set.description())
	if err != nil {
		return err
	}
	c, err := console.New(ctx, console.Config{
		Pool: pool, Door: door, Audit: audit.NewTrail(pool, s.program.clock), Keys: keys, Webhooks: webhooks, Log: s.log,
		Clock: s.program.clock, Logger: s.logger, Settings: set.delivery(), URL: url, APIURL: set.BaseURL, Identity: identity, Reference: reference,
	})
	if err != nil {
		return fmt.Errorf("prepare the console: %w", err)
	}
	return s.listen(ctx, roleConsole, "LEDGERFEED_CONSOLE_LISTEN", set.ConsoleListen, console.NewServer(c))
}

func (p *program) consoleCommand() *cobra.Command {
	return group("console", "Let people into the console", p.consoleLinkCommand())
}

// linkView is a sign-in link in the output of commands.
type linkView struct {
	URL         string `json:"url"`
	WorkspaceID string `json:"workspace_id"`
	Role        string `json:"role"`
	ExpiresAt   string `json:"expires_at"`
}

func (p *program) consoleLinkCommand() *cobra.Command {
	var workspace, role, person string
	c := &cobra.Command{
		Use:   "link",
		Short: "Make a sign-in link; it works once, within 10 minutes",
		Args:  cobra.NoArgs,
	}
	c.Flags().StringVar(&workspace, "workspace", "", "the workspace it opens (required)")
	c.Flags().StringVar(&role, "role", string(console.Admin), "what may be done with it: viewer (look) or admin (change)")
	c.Flags().StringVar(&person, "name", "", "who it is for, as the audit names them")
	c.RunE = p.run(func(ctx context.Context, _ []string) error {
		if workspace == "" {
			return usagef("want --workspace")
		}
		may, ok := console.ParseRole(role)
		if !ok {
			return usagef("--role is %q: want viewer or admin", role)
		}
		return p.withLog(ctx, func(w *workbench) error {
			url, expires, err := p.consoleLink(ctx, w, p.settings.consoleURL(), console.NewLink{WorkspaceID: workspace, Role: may, Person: person})
			if err != nil {
				return err
			}
			v := linkView{URL: url, WorkspaceID: workspace, Role: role, ExpiresAt: domain.FormatTime(expires)}
			return p.print(v, func(out io.Writer) error {
				fmt.Fprintln(p.errOut, "This link works once, until "+v.ExpiresAt+".")
				_, err := fmt.Fprintln(out, v.URL)
				return err
			})
		})
	})
	return c
}

// consoleLink makes a sign-in link to the console at base, and keeps in the
// audit that it was made.
func (p *program) consoleLink(ctx context.Context, w *workbench, base string, n console.NewLink) (url string, expires time.Time, err error) {
	door, err := console.NewDoor(console.DoorConfig{Pool: w.pool, Clock: p.clock})
	if err != nil {
		return "", expires, err
	}
	path, expires, err := door.Link(ctx, n)
	if err != nil {
		return "", expires, err
	}
	if n.Role == "" {
		n.Role = console.Admin
	}
	err = p.audit(ctx, w, audit.Change{WorkspaceID: n.WorkspaceID, Action: audit.LinkCreate, ObjectName: n.Person, Detail: "for the role " + string(n.Role)})
	return base + path, expires, err
}

// audit keeps a change that a command has made.
func (p *program) audit(ctx context.Context, w *workbench, c audit.Change) error {
	c.Via, c.Person = audit.ViaCommand, audit.CommandPerson()
	return audit.NewTrail(w.pool, p.clock).Add(ctx, c)
}
