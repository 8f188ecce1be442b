package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Config of a Console.
type Config struct {
	Pool     *pgxpool.Pool     // required
	Door     *Door             // required
	Audit    *audit.Trail      // required
	Keys     *access.Store     // required
	Webhooks *delivery.Store   // required
	Feed     *eventlog.Feed    // required
	Clock    func() time.Time  // required
	Logger   *slog.Logger      // required
	Settings delivery.Settings // those of Webhooks, for what pages say about them

	// URL is where people's browsers reach the console, such as
	// https://console.example.com; required. Its scheme decides about the
	// cookies: with https they are Secure and bound to this host (__Host-);
	// plain http is for the machine's own browser, on a loopback address.
	URL string

	APIURL string // the API's address, for the lines to try; required

	// Reference is the description of the API as a page, its style in one <style>
	// element and nothing fetched; required.
	Reference []byte

	// Identity signs people in with an identity provider; nil: with sign-in
	// links alone.
	Identity *IdentityConfig

	// TestPatience is how long "Send test" waits for the receiver's answer.
	// Default: the time limit of an attempt and 3 s.
	TestPatience time.Duration
}

// Console is the web interface, an http.Handler.
type Console struct {
	cfg    Config
	secure bool // cookies are Secure and bound to the host
	pages  *pages
	assets *assets
	// reference is Config.Reference with its style among the assets.
	reference []byte
	history   *history
	identity  *identity // nil: there is none
	handler   http.Handler
}

// New makes a Console; it starts nothing. With an identity provider, it asks
// it for its description. The error says what is wrong with cfg.
func New(ctx context.Context, cfg Config) (*Console, error) {
	if cfg.Pool == nil || cfg.Door == nil || cfg.Audit == nil || cfg.Keys == nil || cfg.Webhooks == nil || cfg.Feed == nil ||
		cfg.Clock == nil || cfg.Logger == nil || cfg.APIURL == "" {
		return nil, errors.New("console: Config needs everything but Identity and TestPatience")
	}
	if cfg.Settings.Retention == 0 {
		cfg.Settings.Retention = 720 * time.Hour
	}
	if cfg.Settings.SecretOverlap == 0 {
		cfg.Settings.SecretOverlap = 24 * time.Hour
	}
	if cfg.Settings.Timeout == 0 {
		cfg.Settings.Timeout = 10 * time.Second
	}
	if cfg.TestPatience == 0 {
		cfg.TestPatience = cfg.Settings.Timeout + 3*time.Second
	}
	secure, err := secureAt(cfg.URL)
	if err != nil {
		return nil, err
	}
	cfg.URL = strings.TrimSuffix(cfg.URL, "/")
	c := &Console{cfg: cfg, secure: secure, history: newHistory(cfg.Pool, cfg.Clock, cfg.Settings.Retention)}
	if c.assets, err = loadAssets(); err != nil {
		return nil, err
	}
	if c.reference, err = loadReference(cfg.Reference, c.assets); err != nil {
		return nil, err
	}
	if c.pages, err = loadPages(c.assets); err != nil {
		return nil, err
	}
	if cfg.Identity != nil {
		if c.identity, err = newIdentity(ctx, *cfg.Identity, cfg.URL+identityReturnPath); err != nil {
			return nil, err
		}
	}
	if c.handler, err = c.chain(); err != nil {
		return nil, err
	}
	return c, nil
}

// secureAt tells whether the console's address is one of https.
func secureAt(address string) (bool, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return false, fmt.Errorf("the console's address is %q: want one such as https://console.example.com", address)
	}
	switch {
	case u.Scheme == "https":
		return true, nil
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		return false, nil
	case u.Scheme == "http":
		return false, fmt.Errorf("the console's address is %q: beyond this machine it has to be https, because its cookie signs people in", address)
	}
	return false, fmt.Errorf("the console's address is %q: want https://…", address)
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// ServeHTTP answers a request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// NewServer makes the server that a Console is served with.
func NewServer(c *Console) *http.Server {
	return &http.Server{
		Handler:           c,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      c.cfg.TestPatience + 30*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(c.cfg.Logger.Handler(), slog.LevelWarn),
	}
}
