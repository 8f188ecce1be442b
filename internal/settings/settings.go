// Package settings reads the settings of the commands from the environment.
package settings

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/console/identity"
)

// Settings come from the environment. README lists them all.
type Settings struct {
	DatabaseURL   string      `env:"DATABASE_URL"`
	DataDir       string      `env:"LEDGERFEED_DATA_DIR" envDefault:".ledgerfeed"`
	Listen        string      `env:"LEDGERFEED_LISTEN" envDefault:"127.0.0.1:8080"`
	ConsoleListen string      `env:"LEDGERFEED_CONSOLE_LISTEN" envDefault:"127.0.0.1:8081"`
	AdminListen   string      `env:"LEDGERFEED_ADMIN_LISTEN" envDefault:"127.0.0.1:9090"`
	Brand         brand.Brand `env:"LEDGERFEED_BRAND"`
	BaseURL       string      `env:"LEDGERFEED_BASE_URL"`
	DocsURL       string      `env:"LEDGERFEED_DOCS_URL"`
	LogFormat     string      `env:"LEDGERFEED_LOG_FORMAT" envDefault:"text"`
	LogLevel      slog.Level  `env:"LEDGERFEED_LOG_LEVEL" envDefault:"info"`

	// DrainDelay is for how long serve goes on serving after it has said that it
	// is not ready any more.
	DrainDelay time.Duration `env:"LEDGERFEED_DRAIN_DELAY" envDefault:"2s"`

	TrustedProxies prefixes      `env:"LEDGERFEED_TRUSTED_PROXIES"`
	Retention      time.Duration `env:"LEDGERFEED_RETENTION" envDefault:"720h"`

	SecretKey string `env:"LEDGERFEED_SECRET_KEY"` // seals webhooks' secrets
	Webhooks  policy.Settings
	Mail      mail.Settings
	Console   ConsoleSettings

	AuditEvery time.Duration `env:"LEDGERFEED_AUDIT_EVERY" envDefault:"24h"` // 0: no background audit
	AuditRate  int           `env:"LEDGERFEED_AUDIT_RATE" envDefault:"5000"` // entries and rows a second
}

// ConsoleSettings are those of the console alone.
type ConsoleSettings struct {
	URL string `env:"LEDGERFEED_CONSOLE_URL"` // where browsers reach it; default: the address it listens at

	// Sign-in with OpenID Connect; without an issuer, with sign-in links alone.
	Issuer       string   `env:"LEDGERFEED_OIDC_ISSUER"`
	ClientID     string   `env:"LEDGERFEED_OIDC_CLIENT_ID"`
	ClientSecret string   `env:"LEDGERFEED_OIDC_CLIENT_SECRET"`
	Scopes       []string `env:"LEDGERFEED_OIDC_SCOPES"`                    // besides openid, profile, email
	Claim        string   `env:"LEDGERFEED_OIDC_CLAIM" envDefault:"groups"` // decides about workspaces and roles
	Map          string   `env:"LEDGERFEED_OIDC_MAP"`                       // finance=acme:admin;support=*:viewer
}

// Delivery returns the settings of webhooks.
func (s *Settings) Delivery() policy.Settings {
	d := s.Webhooks
	d.Brand, d.Retention = s.Brand, s.Retention
	return d
}

// Identity returns the identity provider; nil without one.
func (s *ConsoleSettings) Identity() (*identity.Config, error) {
	if s.Issuer == "" {
		return nil, nil //nolint:nilnil // none is no error
	}
	m, err := identity.ParseMap(s.Map)
	if err != nil {
		return nil, fmt.Errorf("LEDGERFEED_OIDC_MAP: %w", err)
	}
	return &identity.Config{
		Issuer: s.Issuer, ClientID: s.ClientID, ClientSecret: s.ClientSecret, Scopes: s.Scopes, Claim: s.Claim, Map: m,
	}, nil
}

// ConsoleURL is where browsers reach the console. A listener beyond this
// machine is taken to stand behind a proxy that speaks https.
func (s *Settings) ConsoleURL() string {
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

// prefixes is a list of CIDRs, separated by commas.
type prefixes []netip.Prefix

// UnmarshalText reads the list.
func (p *prefixes) UnmarshalText(text []byte) error {
	for part := range strings.SplitSeq(string(text), ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			return fmt.Errorf("want CIDRs such as 10.0.0.0/8, separated by commas: %w", err)
		}
		*p = append(*p, prefix.Masked())
	}
	return nil
}

// Read reads and checks the settings.
func Read() (Settings, error) {
	s, err := env.ParseAs[Settings]()
	if err != nil {
		return s, err
	}
	if s.BaseURL == "" {
		s.BaseURL = "http://" + s.Listen
	}
	if s.DocsURL == "" {
		s.DocsURL = s.BaseURL + "/docs"
	}
	for _, u := range []struct{ name, value string }{
		{"LEDGERFEED_BASE_URL", s.BaseURL}, {"LEDGERFEED_DOCS_URL", s.DocsURL},
	} {
		parsed, err := url.Parse(u.value)
		if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
			return s, fmt.Errorf("%s is %q: want an address such as https://api.example.com", u.name, u.value)
		}
	}
	s.BaseURL, s.DocsURL = strings.TrimSuffix(s.BaseURL, "/"), strings.TrimSuffix(s.DocsURL, "/")
	if s.Retention <= 0 {
		return s, fmt.Errorf("LEDGERFEED_RETENTION is %s: want a time above 0, such as 720h", s.Retention)
	}
	if s.DrainDelay < 0 {
		return s, fmt.Errorf("LEDGERFEED_DRAIN_DELAY is %s: want a time such as 2s, or 0 to stop at once", s.DrainDelay)
	}
	if s.AuditEvery < 0 {
		return s, fmt.Errorf("LEDGERFEED_AUDIT_EVERY is %s: want a time such as 24h, or 0 for no background audit", s.AuditEvery)
	}
	if s.AuditRate < 1 {
		return s, fmt.Errorf("LEDGERFEED_AUDIT_RATE is %d: want entries and rows a second, 1 or more", s.AuditRate)
	}
	if s.LogFormat != "text" && s.LogFormat != "json" {
		return s, fmt.Errorf("LEDGERFEED_LOG_FORMAT is %q: want text or json", s.LogFormat)
	}
	return s, nil
}

// Logger makes the logger that the settings ask for.
func (s *Settings) Logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.LogLevel}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
