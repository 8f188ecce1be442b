package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/pages"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

// Config of a Console.
type Config struct {
	Pool     *pgxpool.Pool    // required; open it with PoolSettings
	Sessions *session.Store   // required
	Audit    *audit.Trail     // required
	Keys     *access.Store    // required
	Webhooks *delivery.Store  // required
	Mailer   *mail.Mailer     // stores test mails, which a process that delivers sends; required
	Feed     *eventlog.Feed   // required; of Pool, whose settings bound how long a page waits
	Reader   *readapi.Reader  // what readers of the API get; required, best of Pool and with pages.BesideTimeout
	Clock    func() time.Time // required
	Logger   *slog.Logger     // required
	Tracer   trace.Tracer     // makes a span of each request; nil: none
	Settings policy.Settings  // those of Webhooks; pages show them

	// URL is where people's browsers reach the console, such as
	// https://console.example.com; required. With https, cookies are Secure and
	// bound to this host (__Host-). Plain http is allowed on a loopback address
	// only.
	URL string

	// EmbedOrigins are the products that may show the console in a frame, with a link of
	// their own server (session.Link.Embed); none: nobody may.
	EmbedOrigins web.List

	// Theme is how the console looks, besides its own style.
	Theme web.Theme

	APIURL string // the API's address, for the examples on pages; required

	// Signing are the keys that checkpoints of event feeds are signed with; nil: there are none.
	Signing *signingkey.Keys

	// Reference is the API's description as a page, with its style in one <style>
	// element and nothing to fetch; required.
	Reference []byte

	// Identity signs people in with an identity provider; nil: only sign-in links
	// do.
	Identity *session.IdentityConfig

	// BesideTimeout is how long a page waits for what it shows beside its subject: the marks of
	// the menu, an event's object, and what the event changed. Default: pages.BesideTimeout.
	BesideTimeout time.Duration

	// TestTimeout is how long "Send test" waits for the receiver's answer. Default:
	// the timeout of an attempt and 3 s.
	TestTimeout time.Duration
}

// New makes a Console; it starts nothing. The error names what is wrong with cfg.
func New(cfg Config) (*Console, error) {
	if cfg.Pool == nil || cfg.Sessions == nil || cfg.Audit == nil || cfg.Keys == nil || cfg.Webhooks == nil || cfg.Mailer == nil || cfg.Feed == nil || cfg.Reader == nil ||
		cfg.Clock == nil || cfg.Logger == nil || cfg.APIURL == "" {
		return nil, errors.New("console: Config needs everything but Identity, Signing and timeouts")
	}
	var err error
	if cfg.Settings, err = cfg.Settings.WithDefaults(); err != nil {
		return nil, err
	}
	if cfg.TestTimeout == 0 {
		cfg.TestTimeout = cfg.Settings.Timeout + 3*time.Second
	}
	if cfg.BesideTimeout == 0 {
		cfg.BesideTimeout = pages.BesideTimeout
	}
	host, err := signingkey.Host(cfg.APIURL)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	at, err := web.ParseOrigin(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("the console's address is %q: %w", cfg.URL, err)
	}
	c := &Console{sessions: cfg.Sessions, trail: cfg.Audit, site: newSite(&cfg, at.Secure), slow: newSlow(cfg.Pool.Config().MaxConns)}
	if c.assets, err = web.LoadAssets(); err != nil {
		return nil, err
	}
	if err := c.assets.Apply(&cfg.Theme); err != nil {
		return nil, err
	}
	if c.reference, err = loadReference(cfg.Reference, c.assets); err != nil {
		return nil, err
	}
	unusual := anomaly.NewStore(cfg.Pool, cfg.Clock)
	c.anomalies = pages.New(unusual, cfg.BesideTimeout)
	counts := rollup.NewReader(cfg.Pool)
	workspaces := eventlog.NewWorkspaces(cfg.Pool, cfg.Clock)
	c.overview = &pages.Overview{
		Pool: cfg.Pool, Webhooks: cfg.Webhooks, Keys: cfg.Keys, Counts: counts, Workspaces: workspaces, Mail: cfg.Mailer.Enabled(),
		BesideTimeout: cfg.BesideTimeout,
	}
	c.site.AnomaliesWait, c.site.NeedsAttention = c.anomalies.Wait, c.overview.NeedsAttention
	if err := c.site.LoadPages(c.assets); err != nil {
		return nil, err
	}
	c.signIn = &pages.SignIn{Sessions: cfg.Sessions}
	if cfg.Identity != nil {
		if c.signIn.Provider, err = session.NewProvider(*cfg.Identity, at.URL+pages.IdentityReturnPath, cfg.Logger); err != nil {
			return nil, err
		}
	}
	c.keys = &pages.Keys{Pool: cfg.Pool, Store: cfg.Keys, Counts: counts, APIURL: cfg.APIURL}
	c.webhooks = &pages.Webhooks{
		Pool: cfg.Pool, Store: cfg.Webhooks, Settings: cfg.Settings, TestTimeout: cfg.TestTimeout,
	}
	replayer, err := replay.New(replay.Config{Pool: cfg.Pool, Clock: cfg.Clock})
	if err != nil {
		return nil, err
	}
	c.events = &pages.Events{Pool: cfg.Pool, Feed: cfg.Feed, Webhooks: cfg.Webhooks, Reader: cfg.Reader, Replayer: replayer, Anomalies: unusual, Retention: cfg.Settings.Retention, BesideTimeout: cfg.BesideTimeout}
	c.data = &pages.Data{Reader: cfg.Reader}
	c.requests = &pages.Requests{Pool: cfg.Pool, Keys: cfg.Keys, Rollups: counts, Retention: cfg.Settings.Retention, APIURL: cfg.APIURL}
	c.settings = &pages.Settings{Pool: cfg.Pool, Workspaces: workspaces, Mailer: cfg.Mailer, Signing: cfg.Signing, Host: host, KeysURL: cfg.APIURL + reference.KeysPath}
	if c.handler, err = c.router(); err != nil {
		return nil, err
	}
	return c, nil
}

func newSite(cfg *Config, secure bool) *web.Site {
	s := &web.Site{
		Clock: cfg.Clock, Logger: cfg.Logger, Tracer: cfg.Tracer, Secure: secure,
		EmbedOrigins: cfg.EmbedOrigins, Name: cmp.Or(cfg.Theme.Name, "Ledgerfeed"), Logo: "icon.svg",
	}
	if cfg.Theme.Logo.Type != "" {
		s.Logo = "logo" + cfg.Theme.Logo.Type
	}
	return s
}

// Run looks for the identity provider, if there is one, and returns when ctx ends.
// The pages are served all the while.
func (c *Console) Run(ctx context.Context) error {
	if c.signIn.Provider == nil {
		<-ctx.Done()
		return nil
	}
	return c.signIn.Provider.Run(ctx)
}

// NewServer makes the server that a Console is served with.
func NewServer(c *Console) *http.Server {
	server := &http.Server{
		Handler:           c,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      c.webhooks.TestTimeout + 30*time.Second, // "Send test" waits for the receiver
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(c.site.Logger.Handler(), slog.LevelWarn),
	}
	c.data.Reader.ServeFiles(server)
	return server
}
