package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caarlos0/env/v11"

	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/ingest"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/standby"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Fault is a setting with a wrong value.
type Fault struct {
	Variable string
	Value    string // empty for a secret one
	Want     string // the form of its values
	Place    string // the file and the line; empty: the environment, or nowhere
	secret   bool
}

func (f Fault) String() string {
	place := ""
	if f.Place != "" {
		place = " (" + f.Place + ")"
	}
	if f.secret {
		return f.Variable + " has a wrong value, which is not shown" + place + ": want " + f.Want
	}
	value := f.Value
	if u, err := url.Parse(value); err == nil && u.User != nil {
		value = u.Redacted()
	}
	return fmt.Sprintf("%s is %q%s: want %s", f.Variable, value, place, f.Want)
}

// Error lists all wrong settings, ordered by variable.
type Error struct{ Faults []Fault }

func (e *Error) Error() string {
	if len(e.Faults) == 1 {
		return e.Faults[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d settings are wrong:", len(e.Faults))
	for _, f := range e.Faults {
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

// Read reads the settings from an environment of NAME=value, such as os.Environ returns, and from a
// file, which may be nil. The environment takes precedence. Empty values count as unset. The error
// is an *Error.
func Read(environ []string, f *File) (Settings, error) {
	environment := env.ToMap(environ)
	variables := f.variables(environment)
	var s Settings
	wrong, err := parse(&s, variables)
	if err != nil {
		return s, err
	}
	wrong = append(wrong, s.check()...)
	if len(wrong) > 0 {
		list := faults(wrong, variables)
		for i := range list {
			list[i].Place = f.place(list[i].Variable, environment)
		}
		return s, &Error{list}
	}
	s.setDefaults()
	return s, nil
}

// parse fills in the fields and returns the variables whose values their types reject.
func parse(s *Settings, variables map[string]string) (wrong []string, err error) {
	err = env.ParseWithOptions(s, env.Options{Environment: variables, FuncMap: map[reflect.Type]env.ParserFunc{
		reflect.TypeFor[time.Duration](): func(text string) (any, error) { return texts.ParseDuration(text) },
	}})
	var all env.AggregateError
	switch {
	case err == nil:
		return nil, nil
	case !errors.As(err, &all):
		return nil, fmt.Errorf("cannot read the settings: %w", err)
	}
	for _, one := range all.Errors {
		var field env.ParseError
		if !errors.As(one, &field) {
			return nil, fmt.Errorf("cannot read the settings: %w", one)
		}
		f, _ := reflect.TypeFor[Settings]().FieldByName(field.Name) // the name comes from this type
		wrong = append(wrong, f.Tag.Get("env"))
	}
	return wrong, nil
}

// maxWholeLists is the most whole lists that a process can read at the same time; each uses a
// connection to the database.
const maxWholeLists = 1000

// check returns the variables whose values are wrong although their types accept them. It may
// repeat what parse has found.
func (s *Settings) check() (wrong []string) {
	_, secretKey := keyring.New(s.SecretKey)
	_, signingKey := signingkey.Parse(s.SigningKey)
	_, consoleURL := web.ParseOrigin(s.ConsoleURL)
	mailURL, mailFrom := s.Mail().Check()
	for _, c := range []struct {
		variable string
		ok       bool
	}{
		{"LEDGERFEED_POOLER", s.Pooler == "" || s.DatabaseURL != ""},
		{"LEDGERFEED_READ_DATABASE_URL", s.ReadURL == "" || s.DatabaseURL != "" && standby.ValidURL(s.ReadURL)},
		{"LEDGERFEED_PROJECT_COMMIT", s.ProjectCommit == "on" || s.ProjectCommit == "remote_apply"},
		{"LEDGERFEED_LISTEN", isListenAddress(s.Listen)},
		{"LEDGERFEED_CONSOLE_LISTEN", isListenAddress(s.ConsoleListen)},
		{"LEDGERFEED_ADMIN_LISTEN", isListenAddress(s.AdminListen)},
		{"LEDGERFEED_TLS_CERT", s.TLSCert != "" || s.TLSKey == ""},
		{"LEDGERFEED_TLS_KEY", s.TLSKey != "" || s.TLSCert == ""},
		{"LEDGERFEED_BASE_URL", s.BaseURL == "" || isAddress(s.BaseURL)},
		{"LEDGERFEED_DOCS_URL", s.DocsURL == "" || isAddress(s.DocsURL)},
		{"LEDGERFEED_CONSOLE_URL", s.ConsoleURL == "" || consoleURL == nil},
		{"LEDGERFEED_CONSOLE_NAME", utf8.RuneCountInString(s.ConsoleName) <= 40 && !strings.ContainsFunc(s.ConsoleName, unicode.IsControl)},
		{"LEDGERFEED_WHOLE_LISTS", s.WholeLists >= 1 && s.WholeLists <= maxWholeLists},
		{"LEDGERFEED_WHOLE_LIST_TIMEOUT", s.WholeListTimeout > 0},
		{"LEDGERFEED_WHOLE_LIST_STALL", s.WholeListStall > 0},
		{"LEDGERFEED_RETENTION", s.Retention > 0},
		{"LEDGERFEED_SECRET_KEY", s.SecretKey == "" || secretKey == nil},
		{"LEDGERFEED_SIGNING_KEY", s.SigningKey == "" || signingKey == nil},
		{"LEDGERFEED_TURN_OFF_AFTER", s.TurnOffAfter > 0},
		{"LEDGERFEED_SECRET_OVERLAP", s.SecretOverlap > 0},
		{"LEDGERFEED_WEBHOOK_TIMEOUT", s.WebhookTimeout > 0},
		{"LEDGERFEED_SMTP_URL", mailURL},
		{"LEDGERFEED_MAIL_FROM", mailFrom},
		{"LEDGERFEED_OIDC_ISSUER", isAddress(s.OIDCIssuer) || s.OIDCIssuer == "" && s.OIDCClientID == "" && s.OIDCClientSecret == ""},
		{"LEDGERFEED_OIDC_CLIENT_ID", s.OIDCIssuer == "" || s.OIDCClientID != ""},
		{"LEDGERFEED_DRAIN_DELAY", s.DrainDelay >= 0},
		{"LEDGERFEED_AUDIT_EVERY", s.AuditEvery >= 0},
		{"LEDGERFEED_RELAY_URL", s.RelayURL == "" || isBroker(s.RelayURL)},
		{"LEDGERFEED_INGEST_URL", s.IngestURL == "" || isSource(s.IngestURL)},
		{"LEDGERFEED_INGEST_LISTEN", s.IngestListen == "" || isListenAddress(s.IngestListen)},
		{"LEDGERFEED_INGEST_IN_FLIGHT", s.IngestInFlight >= 32 && s.IngestInFlight <= 4096},
		{"LEDGERFEED_LOG_FORMAT", s.LogFormat == "text" || s.LogFormat == "json"},
	} {
		if !c.ok {
			wrong = append(wrong, c.variable)
		}
	}
	return wrong
}

// faults describes the wrong variables, each once.
func faults(wrong []string, variables map[string]string) []Fault {
	var list []Fault
	for field := range reflect.TypeFor[Settings]().Fields() {
		tag := field.Tag
		name := tag.Get("env")
		if !slices.Contains(wrong, name) {
			continue
		}
		f := Fault{Variable: name, Value: variables[name], Want: tag.Get("want"), secret: tag.Get("secret") != ""}
		if f.secret {
			f.Value = ""
		}
		list = append(list, f)
	}
	slices.SortStableFunc(list, func(x, y Fault) int { return cmp.Compare(x.Variable, y.Variable) })
	return list
}

// isListenAddress reports whether text has the form of an address to listen on.
func isListenAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535
}

func isAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// isBroker reports whether text is the address of a broker for a relay.
func isBroker(text string) bool {
	_, address, err := relay.CutOptions(text)
	if err != nil {
		return false
	}
	_, err = relay.ParseTarget(address)
	return err == nil
}

// isSource reports whether text is the address of a source for ingest.
func isSource(text string) bool {
	rules, address, err := ingest.CutRules(text)
	if err != nil {
		return false
	}
	_, stream := relay.ParseTarget(address)
	_, table := ingest.ParseTarget(address)
	return stream == nil || table == nil && rules.Token == 0 // an outbox has no subjects
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
			return fmt.Errorf("cannot read a CIDR: %w", err)
		}
		*p = append(*p, prefix.Masked())
	}
	return nil
}
