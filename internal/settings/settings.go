// Package settings reads and checks the settings of the commands, from the environment and from a
// file. Every setting is checked here, once, for every command and role; all faults are reported
// together.
package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

// Settings holds all settings, with defaults filled in. README lists them for operators, and a test
// compares. The tag want describes the form of a value, for the error about a wrong one. Values
// tagged secret are not shown.
type Settings struct {
	DatabaseURL string      `env:"DATABASE_URL" secret:"true"`                                                                   // empty: the program's own PostgreSQL
	Cells       string      `env:"LEDGERFEED_CELLS"`                                                                             // a file that names several databases; empty: there is one
	Connections connections `env:"LEDGERFEED_CONNECTIONS" want:"a number of connections to the database, 4 or more, such as 40"` // 0: some more than the roles need
	Pooler      pooler      `env:"LEDGERFEED_POOLER" want:"transaction, where DATABASE_URL is the address of a pooler in that mode"`
	ListenURL   string      `env:"LEDGERFEED_LISTEN_DATABASE_URL" secret:"true"` // bypasses the pooler; empty: nothing bypasses it
	ReadURL     string      `env:"LEDGERFEED_READ_DATABASE_URL" secret:"true" want:"the address of standbys of the database at DATABASE_URL, such as postgres://user:password@standby:5432/name"`

	// ProjectCommit is PostgreSQL's synchronous_commit for the projector's commits.
	ProjectCommit string `env:"LEDGERFEED_PROJECT_COMMIT" envDefault:"on" want:"remote_apply, or on"`

	DataDir string `env:"LEDGERFEED_DATA_DIR" envDefault:".ledgerfeed"` // of the program's own PostgreSQL

	Listen        string `env:"LEDGERFEED_LISTEN" envDefault:"127.0.0.1:8080" want:"host:port, such as 127.0.0.1:8080"`
	ConsoleListen string `env:"LEDGERFEED_CONSOLE_LISTEN" envDefault:"127.0.0.1:8081" want:"host:port, such as 127.0.0.1:8081"`
	AdminListen   string `env:"LEDGERFEED_ADMIN_LISTEN" envDefault:"127.0.0.1:9090" want:"host:port, such as 127.0.0.1:9090"`

	// TLS of the API and the console. If it is not set, a proxy has to add TLS.
	TLSCert string `env:"LEDGERFEED_TLS_CERT" want:"a file with a certificate (PEM), such as /etc/ledgerfeed/tls.crt, and LEDGERFEED_TLS_KEY with its key"`
	TLSKey  string `env:"LEDGERFEED_TLS_KEY" want:"a file with the key of LEDGERFEED_TLS_CERT (PEM), such as /etc/ledgerfeed/tls.key"`

	Brand      brand.Brand `env:"LEDGERFEED_BRAND" want:"a letter, then at most 31 letters, digits or hyphens, such as ACME"`
	BaseURL    string      `env:"LEDGERFEED_BASE_URL" want:"an address such as https://api.example.com"`                                      // default: http:// or https:// and Listen
	DocsURL    string      `env:"LEDGERFEED_DOCS_URL" want:"an address such as https://api.example.com/docs"`                                 // default: BaseURL and /docs
	ConsoleURL string      `env:"LEDGERFEED_CONSOLE_URL" want:"an address such as https://console.example.com; http:// only on this machine"` // default: see ConsoleAddress

	// The console embedded in a product, and how it looks.
	ConsoleEmbedOrigins web.List   `env:"LEDGERFEED_CONSOLE_EMBED_ORIGINS" want:"at most 20 origins such as https://app.example.com, separated by commas; http:// only on this machine"`
	ConsoleName         string     `env:"LEDGERFEED_CONSOLE_NAME" envDefault:"Ledgerfeed" want:"a name of at most 40 characters, such as Acme"`
	ConsoleAccent       web.Colour `env:"LEDGERFEED_CONSOLE_ACCENT" want:"a colour such as #1d4ed8"`
	ConsoleLogo         string     `env:"LEDGERFEED_CONSOLE_LOGO"` // a file

	TrustedProxies prefixes `env:"LEDGERFEED_TRUSTED_PROXIES" want:"CIDRs such as 10.0.0.0/8, separated by commas"`

	// Whole lists (docs/contract/decisions.md, "Responses").
	WholeLists       int           `env:"LEDGERFEED_WHOLE_LISTS" envDefault:"4" want:"a number of lists from 1 to 1000, such as 4"`
	WholeListTimeout time.Duration `env:"LEDGERFEED_WHOLE_LIST_TIMEOUT" envDefault:"15m" want:"a time above 0, such as 15m"`
	WholeListStall   time.Duration `env:"LEDGERFEED_WHOLE_LIST_STALL" envDefault:"1m" want:"a time above 0, such as 1m"`

	Retention time.Duration `env:"LEDGERFEED_RETENTION" envDefault:"720h" want:"a time above 0, such as 30d or 720h"`

	// Webhooks (docs/contract/decisions.md, "Webhooks").
	SecretKey      string          `env:"LEDGERFEED_SECRET_KEY" secret:"true" want:"one key or several separated by commas, each of at least 16 characters, best from: openssl rand -hex 32"` // empty: a key in the data directory
	SigningKey     string          `env:"LEDGERFEED_SIGNING_KEY" secret:"true" want:"keys from ledgerfeed signing-key new: one, or two separated by a comma, the newer first"`                // empty: with the program's own PostgreSQL, a key in the data directory
	Witnesses      witness.List    `env:"LEDGERFEED_WITNESSES" want:"verifier keys with addresses, separated by commas, such as w1+248cda26+BAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB=https://w1.example.com"`
	RetrySchedule  policy.Schedule `env:"LEDGERFEED_RETRY_SCHEDULE" envDefault:"1m,5m,30m,2h,6h,12h,24h" want:"at most 30 waits above 0, such as 30s, 5m, 2h or 1d, separated by commas"`
	TurnOffAfter   time.Duration   `env:"LEDGERFEED_TURN_OFF_AFTER" envDefault:"72h" want:"a time above 0, such as 3d or 72h"`
	SecretOverlap  time.Duration   `env:"LEDGERFEED_SECRET_OVERLAP" envDefault:"24h" want:"a time above 0, such as 1d or 24h"`
	WebhookTimeout time.Duration   `env:"LEDGERFEED_WEBHOOK_TIMEOUT" envDefault:"10s" want:"a time above 0, such as 10s"`
	WebhookAllow   prefixes        `env:"LEDGERFEED_WEBHOOK_ALLOW" want:"CIDRs such as 10.0.0.0/8, separated by commas"`
	WebhookCAFile  string          `env:"LEDGERFEED_WEBHOOK_CA_FILE"` // read by the processes that deliver
	SMTPURL        string          `env:"LEDGERFEED_SMTP_URL" secret:"true" want:"an address such as smtp://user:password@mail.example.com:587, or smtps://…"`
	MailFrom       string          `env:"LEDGERFEED_MAIL_FROM" want:"a mail address such as ledgerfeed@example.com, which LEDGERFEED_SMTP_URL needs"`

	// Sign-in with OpenID Connect; without an issuer, only sign-in links work.
	OIDCIssuer       string      `env:"LEDGERFEED_OIDC_ISSUER" want:"an address such as https://accounts.example.com, which LEDGERFEED_OIDC_CLIENT_ID and its secret need"`
	OIDCClientID     string      `env:"LEDGERFEED_OIDC_CLIENT_ID" want:"the id of this client at the provider, such as ledgerfeed-console, which LEDGERFEED_OIDC_ISSUER needs"`
	OIDCClientSecret string      `env:"LEDGERFEED_OIDC_CLIENT_SECRET" secret:"true"`
	OIDCScopes       []string    `env:"LEDGERFEED_OIDC_SCOPES"`                    // in addition to openid, profile and email
	OIDCClaim        string      `env:"LEDGERFEED_OIDC_CLAIM" envDefault:"groups"` // decides about workspaces and roles
	OIDCMap          session.Map `env:"LEDGERFEED_OIDC_MAP" list:";" want:"values of the claim with their roles, such as finance=acme:admin;support=*:viewer,acme:admin"`

	// DrainDelay is how long serve keeps serving after /readyz says "not ready".
	DrainDelay time.Duration `env:"LEDGERFEED_DRAIN_DELAY" envDefault:"2s" want:"a time such as 2s, or 0 to stop at once"`
	AuditEvery time.Duration `env:"LEDGERFEED_AUDIT_EVERY" envDefault:"24h" want:"a time such as 24h, or 0 for no background verification"`

	// The relay (docs/operations/relay.md), for processes with the role relay.
	RelayURL string `env:"LEDGERFEED_RELAY_URL" secret:"true" want:"an address such as nats://n1.example.com:4222,n2.example.com:4222/?replicas=3, perhaps with name=, form= and envelope= (docs/operations/relay.md)"`

	// Ingest (docs/operations/ingest.md), for processes with the role ingest.
	IngestURL string `env:"LEDGERFEED_INGEST_URL" secret:"true" want:"an address such as nats://n1.example.com:4222/?stream=ENTRIES&subject=entries, postgres://user:password@shop.example.com/shop?topic=ledgerfeed, or mysql://user:password@shop.example.com/shop?topic=ledgerfeed&tls=true; of a stream perhaps with trust=relay, and with workspace=acme or workspace_token=1 (docs/operations/ingest.md)"`

	// Ingest over HTTP (docs/operations/ingest-api.md), for processes with the role ingest-api.
	IngestListen   string `env:"LEDGERFEED_INGEST_LISTEN" want:"host:port, such as 127.0.0.1:8082"`
	IngestInFlight int    `env:"LEDGERFEED_INGEST_IN_FLIGHT" envDefault:"64" want:"a number of MiB from 32 to 4096, such as 64"`

	// CreateWorkspaces lets append and ingest create workspaces that do not exist yet.
	CreateWorkspaces bool `env:"LEDGERFEED_CREATE_WORKSPACES" envDefault:"false" want:"true or false"`

	// PProf offers profiles of the process on the admin listener.
	PProf bool `env:"LEDGERFEED_PPROF" envDefault:"false" want:"true or false"`

	// Traces have no settings here, because package tracing reads OpenTelemetry's own variables.

	LogFormat string     `env:"LEDGERFEED_LOG_FORMAT" envDefault:"text" want:"text or json"`
	LogLevel  slog.Level `env:"LEDGERFEED_LOG_LEVEL" envDefault:"info" want:"debug, info, warn or error"`
}

// setDefaults fills in the defaults that follow from other settings.
func (s *Settings) setDefaults() {
	if s.BaseURL == "" {
		s.BaseURL = s.scheme() + s.Listen
	}
	s.BaseURL = strings.TrimSuffix(s.BaseURL, "/")
	if s.DocsURL == "" {
		s.DocsURL = s.BaseURL + "/docs"
	}
	s.DocsURL = strings.TrimSuffix(s.DocsURL, "/")
	s.ConsoleURL = strings.TrimSuffix(s.ConsoleURL, "/")
}

func (s *Settings) scheme() string {
	if s.TLSCert != "" {
		return "https://"
	}
	return "http://"
}

// ConsoleAddress returns the address at which browsers reach the console. Without ConsoleURL, a
// listener beyond this machine is assumed to be behind a proxy that speaks https.
func (s *Settings) ConsoleAddress() string {
	if s.ConsoleURL != "" {
		return s.ConsoleURL
	}
	host, _, err := net.SplitHostPort(s.ConsoleListen)
	ip, ipErr := netip.ParseAddr(host)
	if err == nil && (host == "localhost" || ipErr == nil && ip.IsLoopback()) {
		return s.scheme() + s.ConsoleListen
	}
	if host == "" {
		return "https://localhost" + s.ConsoleListen
	}
	return "https://" + s.ConsoleListen
}

// Delivery returns the settings of webhooks.
func (s *Settings) Delivery() policy.Settings {
	return policy.Settings{
		Brand: s.Brand, Schedule: s.RetrySchedule, TurnOffAfter: s.TurnOffAfter, SecretOverlap: s.SecretOverlap,
		Timeout: s.WebhookTimeout, Retention: s.Retention, Allow: s.WebhookAllow, CAFile: s.WebhookCAFile,
	}
}

// Mail returns the settings of mail.
func (s *Settings) Mail() mail.Settings {
	return mail.Settings{URL: s.SMTPURL, From: s.MailFrom}
}

// Identity returns the identity provider; nil without one.
func (s *Settings) Identity() *session.IdentityConfig {
	if s.OIDCIssuer == "" {
		return nil
	}
	return &session.IdentityConfig{
		Issuer: s.OIDCIssuer, ClientID: s.OIDCClientID, ClientSecret: s.OIDCClientSecret, Scopes: s.OIDCScopes, Claim: s.OIDCClaim, Map: s.OIDCMap,
	}
}

// Theme reads the look of the console. The error names the setting.
func (s *Settings) Theme() (web.Theme, error) {
	t := web.Theme{Name: s.ConsoleName, Accent: s.ConsoleAccent}
	if s.ConsoleLogo == "" {
		return t, nil
	}
	logo, err := web.ReadLogo(s.ConsoleLogo)
	if err != nil {
		return t, fmt.Errorf("LEDGERFEED_CONSOLE_LOGO: %w", err)
	}
	t.Logo = logo
	return t, nil
}

// connections is a number of connections to the database.
type connections int

// UnmarshalText reads the number.
func (c *connections) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < pg.LeastConns {
		return fmt.Errorf("want a number from %d on", pg.LeastConns)
	}
	*c = connections(n)
	return nil
}

// pooler is the mode of the connection pooler in front of the database.
type pooler string

// UnmarshalText reads the mode.
func (p *pooler) UnmarshalText(text []byte) error {
	if *p = pooler(text); *p != pg.PoolerTransaction {
		return errors.New("want " + pg.PoolerTransaction)
	}
	return nil
}
