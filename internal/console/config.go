package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/pages"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

// Config configures a Console.
type Config struct {
	Pool     pg.DB            // required; open it with PoolSettings
	LogPool  pg.DB            // reads the log to explain rows; nil: Pool
	Sessions *session.Store   // required
	Audit    *audit.Trail     // required
	Keys     *access.Store    // required
	Webhooks *delivery.Store  // required
	Log      *eventlog.Log    // required; appends the entries that forget somebody
	Mailer   *mail.Mailer     // required; stores test mails, which a delivering process sends
	Feed     *eventlog.Feed   // required; reads from Pool, whose settings bound how long a page waits
	Reader   *readapi.Reader  // required; reads what API callers get, preferably from Pool and with pages.BesideTimeout
	Clock    func() time.Time // required
	Logger   *slog.Logger     // required
	Tracer   trace.Tracer     // starts a span for each request; nil: no spans
	Settings policy.Settings  // the settings of Webhooks, which pages show

	// URL is where browsers reach the console, such as https://console.example.com; required. With
	// https, cookies are Secure and bound to this host (__Host-). Plain http is allowed only on a
	// loopback address.
	URL string

	// EmbedOrigins are the origins of products that may show the console in a frame, with a link
	// that the product's server created (session.Link.Embed). Empty: no product may.
	EmbedOrigins web.List

	// Theme sets the product name, the accent colour and the logo.
	Theme web.Theme

	APIURL string // URL of the API, for the examples on pages; required

	// Signing holds the keys that sign checkpoints of event feeds; nil: nothing is signed.
	Signing *signingkey.Keys

	// Reference has the pages of the API reference, with addresses below ReferencePath; required.
	Reference []*reference.Page

	// Identity configures sign-in with an identity provider; nil: people sign in only with links.
	Identity *session.IdentityConfig

	// BesideTimeout is how long a page waits for its optional parts: the marks in the menu, an
	// event's object, and what the event changed. Default: pages.BesideTimeout.
	BesideTimeout time.Duration

	// TestTimeout is how long "Send test" waits for the receiver's answer. Default: the timeout of
	// an attempt plus 3 s.
	TestTimeout time.Duration
}

// New creates a Console but starts nothing. The error says what is wrong with cfg.
func New(cfg Config) (*Console, error) {
	if cfg.Pool == nil || cfg.Sessions == nil || cfg.Audit == nil || cfg.Keys == nil || cfg.Webhooks == nil || cfg.Log == nil || cfg.Mailer == nil || cfg.Feed == nil || cfg.Reader == nil ||
		cfg.Clock == nil || cfg.Logger == nil || cfg.APIURL == "" {
		return nil, errors.New("console: Config lacks a required field")
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
	if err := pages.ClearScratch(); err != nil {
		cfg.Logger.Warn("cannot remove the temporary files of workbooks", "error", err)
	}
	c := &Console{sessions: cfg.Sessions, trail: cfg.Audit, site: newSite(&cfg, at.Secure), slow: newSlow(pg.Size(cfg.Pool))}
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
	replayer, err := replay.New(replay.Config{Pool: cmp.Or(cfg.LogPool, cfg.Pool), Clock: cfg.Clock})
	if err != nil {
		return nil, err
	}
	c.data = pages.NewData(pages.Data{Reader: cfg.Reader, Replayer: replayer, Log: cfg.Log, Retention: cfg.Settings.Retention, BesideTimeout: cfg.BesideTimeout})
	c.keys = &pages.Keys{Pool: cfg.Pool, Store: cfg.Keys, Counts: counts, APIURL: cfg.APIURL}
	c.webhooks = &pages.Webhooks{
		Pool: cfg.Pool, Data: c.data, Store: cfg.Webhooks, Settings: cfg.Settings, TestTimeout: cfg.TestTimeout, Mail: cfg.Mailer.Enabled(),
	}
	c.events = &pages.Events{Pool: cfg.Pool, Feed: cfg.Feed, Webhooks: cfg.Webhooks, Reader: cfg.Reader, Data: c.data, Replayer: replayer, Anomalies: unusual, Retention: cfg.Settings.Retention, BesideTimeout: cfg.BesideTimeout}
	c.search = &pages.Search{Data: c.data, Events: c.events}
	c.requests = &pages.Requests{Pool: cfg.Pool, Data: c.data, Keys: cfg.Keys, Rollups: counts, Retention: cfg.Settings.Retention, APIURL: cfg.APIURL}
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

// Run reads the identity provider's discovery document, if there is a provider, and returns when
// ctx ends. The console serves pages without waiting for it.
func (c *Console) Run(ctx context.Context) error {
	if c.signIn.Provider == nil {
		<-ctx.Done()
		return nil
	}
	return c.signIn.Provider.Run(ctx)
}

// NewServer creates the HTTP server for a Console.
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
