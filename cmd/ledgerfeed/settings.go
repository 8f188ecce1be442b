package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
)

// settings come from the environment. README lists them all.
type settings struct {
	DatabaseURL   string      `env:"DATABASE_URL"`
	DataDir       string      `env:"LEDGERFEED_DATA_DIR" envDefault:".ledgerfeed"`
	Listen        string      `env:"LEDGERFEED_LISTEN" envDefault:"127.0.0.1:8080"`
	ConsoleListen string      `env:"LEDGERFEED_CONSOLE_LISTEN" envDefault:"127.0.0.1:8081"`
	AdminListen   string      `env:"LEDGERFEED_ADMIN_LISTEN" envDefault:"127.0.0.1:9090"`
	Brand         brand.Brand `env:"LEDGERFEED_BRAND"`
	BaseURL       string      `env:"LEDGERFEED_BASE_URL"`
	DocsURL       string      `env:"LEDGERFEED_DOCS_URL"`
	LogFormat     string      `env:"LEDGERFEED_LOG_FORMAT" envDefault:"text"`
	LogLevel      string      `env:"LEDGERFEED_LOG_LEVEL" envDefault:"info"`

	// DrainDelay is for how long serve goes on serving after it has said that it
	// is not ready any more.
	DrainDelay time.Duration `env:"LEDGERFEED_DRAIN_DELAY" envDefault:"2s"`

	TrustedProxies prefixes      `env:"LEDGERFEED_TRUSTED_PROXIES"`
	Retention      time.Duration `env:"LEDGERFEED_RETENTION" envDefault:"720h"`

	SecretKey string `env:"LEDGERFEED_SECRET_KEY"` // seals webhooks' secrets
	Webhooks  delivery.Settings
	Mail      delivery.MailSettings
	Console   consoleSettings

	AuditEvery time.Duration `env:"LEDGERFEED_AUDIT_EVERY" envDefault:"24h"` // 0: no background audit
	AuditRate  int           `env:"LEDGERFEED_AUDIT_RATE" envDefault:"5000"` // entries and rows a second
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

func readSettings() (settings, error) {
	s, err := env.ParseAs[settings]()
	if err != nil {
		return s, usagef("%w", err)
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
			return s, usagef("%s is %q: want an address such as https://api.example.com", u.name, u.value)
		}
	}
	s.BaseURL, s.DocsURL = strings.TrimSuffix(s.BaseURL, "/"), strings.TrimSuffix(s.DocsURL, "/")
	if s.Retention <= 0 {
		return s, usagef("LEDGERFEED_RETENTION is %s: want a time above 0, such as 720h", s.Retention)
	}
	if s.DrainDelay < 0 {
		return s, usagef("LEDGERFEED_DRAIN_DELAY is %s: want a time such as 2s, or 0 to stop at once", s.DrainDelay)
	}
	if s.AuditEvery < 0 {
		return s, usagef("LEDGERFEED_AUDIT_EVERY is %s: want a time such as 24h, or 0 for no background audit", s.AuditEvery)
	}
	if s.AuditRate < 1 {
		return s, usagef("LEDGERFEED_AUDIT_RATE is %d: want entries and rows a second, 1 or more", s.AuditRate)
	}
	if s.LogFormat != "text" && s.LogFormat != "json" {
		return s, usagef("LEDGERFEED_LOG_FORMAT is %q: want text or json", s.LogFormat)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return s, usagef("LEDGERFEED_LOG_LEVEL is %q: want debug, info, warn or error", s.LogLevel)
	}
	return s, nil
}

func (s *settings) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.LogLevel)) // readSettings has checked it
	options := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
