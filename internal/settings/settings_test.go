package settings

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	s, err := Read([]string{"LEDGERFEED_BRAND=", "LEDGERFEED_RETRY_SCHEDULE="}, nil) // empty: as if not there
	if err != nil {
		t.Fatal(err)
	}
	if s.DataDir != ".ledgerfeed" || s.BaseURL != "http://127.0.0.1:8080" || s.DocsURL != "http://127.0.0.1:8080/docs" || s.ConsoleAddress() != "http://127.0.0.1:8081" ||
		s.Brand.String() != "SERVICE" || len(s.RetrySchedule) != 7 || s.Retention != 720*time.Hour || s.Identity() != nil {
		t.Errorf("%+v", s)
	}
	filled, err := s.Delivery().WithDefaults()
	if err != nil || !reflect.DeepEqual(filled, s.Delivery()) {
		t.Errorf("the defaults of webhooks are %+v here, %+v there (%v)", s.Delivery(), filled, err)
	}
}

func TestEverySettingIsRead(t *testing.T) {
	t.Parallel()
	s, err := Read([]string{
		"DATABASE_URL=postgres://db", "LEDGERFEED_CONNECTIONS=30", "LEDGERFEED_POOLER=transaction", "LEDGERFEED_LISTEN_DATABASE_URL=postgres://direct", "LEDGERFEED_CELLS=cells.yaml", "LEDGERFEED_READ_DATABASE_URL=postgres://standbys/x", "LEDGERFEED_PROJECT_COMMIT=remote_apply", "LEDGERFEED_DATA_DIR=/data", "LEDGERFEED_LISTEN=:80", "LEDGERFEED_CONSOLE_LISTEN=0.0.0.0:81", "LEDGERFEED_ADMIN_LISTEN=[::1]:82",
		"LEDGERFEED_BRAND=ACME", "LEDGERFEED_BASE_URL=https://api.acme.example/", "LEDGERFEED_DOCS_URL=https://docs.acme.example/", "LEDGERFEED_CONSOLE_URL=https://console.acme.example/",
		"LEDGERFEED_TRUSTED_PROXIES=10.1.2.3/8, ::1/128", "LEDGERFEED_RETENTION=48h", "LEDGERFEED_SECRET_KEY=0123456789abcdef,fedcba9876543210",
		"LEDGERFEED_SIGNING_KEY=PRIVATE+KEY+ledgerfeed+0b28140f+AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB, PRIVATE+KEY+ledgerfeed+593cbc6f+AQICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIC",
		"LEDGERFEED_WITNESSES=w1+248cda26+BAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB=https://w1.example.com",
		"LEDGERFEED_RETRY_SCHEDULE=1s,2m", "LEDGERFEED_TURN_OFF_AFTER=3s", "LEDGERFEED_SECRET_OVERLAP=1h", "LEDGERFEED_WEBHOOK_TIMEOUT=2s",
		"LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8,::1/128", "LEDGERFEED_WEBHOOK_CA_FILE=/x.pem", "LEDGERFEED_SMTP_URL=smtp://u:p@mail.acme.example:25?tls=required", "LEDGERFEED_MAIL_FROM=billing@acme.example",
		"LEDGERFEED_OIDC_ISSUER=https://id.acme.example", "LEDGERFEED_OIDC_CLIENT_ID=console", "LEDGERFEED_OIDC_CLIENT_SECRET=shh", "LEDGERFEED_OIDC_SCOPES=groups,roles",
		"LEDGERFEED_OIDC_CLAIM=roles", "LEDGERFEED_OIDC_MAP=finance=acme:admin", "LEDGERFEED_DRAIN_DELAY=0s", "LEDGERFEED_AUDIT_EVERY=0",
		"LEDGERFEED_LOG_FORMAT=json", "LEDGERFEED_LOG_LEVEL=error", "LEDGERFEED_PPROF=true",
		"LEDGERFEED_CONSOLE_EMBED_ORIGINS=https://App.acme.example:8443/, http://localhost:3000", "LEDGERFEED_CONSOLE_NAME=Acme", "LEDGERFEED_CONSOLE_ACCENT=#1d4ed8", "LEDGERFEED_CONSOLE_LOGO=/logo.svg",
		"LEDGERFEED_WHOLE_LISTS=7", "LEDGERFEED_WHOLE_LIST_TIMEOUT=1h", "LEDGERFEED_WHOLE_LIST_STALL=7s",
		"LEDGERFEED_TLS_CERT=/cert.pem", "LEDGERFEED_TLS_KEY=/key.pem",
		"LEDGERFEED_RELAY_URL=nats://u:p@n1:4222,n2:4222/?stream=BILLING&name=east&form=entries&envelope=cloudevents",
		"LEDGERFEED_INGEST_URL=postgres://u:p@shop.example/shop?topic=billing&name=shop", "LEDGERFEED_INGEST_LISTEN=:8082", "LEDGERFEED_INGEST_IN_FLIGHT=128", "LEDGERFEED_CREATE_WORKSPACES=true",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := reflect.ValueOf(s); true {
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "DrainDelay" && name != "AuditEvery" {
				t.Errorf("%s was not read", name)
			}
		}
	}
	if !slices.Equal(s.ConsoleEmbedOrigins, []string{"https://app.acme.example:8443", "http://localhost:3000"}) {
		t.Errorf("the origins are %v", s.ConsoleEmbedOrigins)
	}
	if _, err := s.Theme(); err == nil || !strings.Contains(err.Error(), "LEDGERFEED_CONSOLE_LOGO") || !strings.Contains(err.Error(), "/logo.svg") {
		t.Errorf("a logo that is not there: %v", err)
	}
	d := s.Delivery()
	if d.Brand.String() != "ACME" || !slices.Equal(d.Schedule, []time.Duration{time.Second, 2 * time.Minute}) || d.TurnOffAfter != 3*time.Second ||
		d.SecretOverlap != time.Hour || d.Timeout != 2*time.Second || d.Retention != 48*time.Hour || d.CAFile != "/x.pem" ||
		!slices.Equal(d.Allow, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}) {
		t.Errorf("webhooks: %+v", d)
	}
	if s.BaseURL != "https://api.acme.example" || s.DocsURL != "https://docs.acme.example" || s.ConsoleAddress() != "https://console.acme.example" {
		t.Errorf("a slash at the end stays: %s %s %s", s.BaseURL, s.DocsURL, s.ConsoleAddress())
	}
	if s.TrustedProxies[0].String() != "10.0.0.0/8" || s.Mail().From != "billing@acme.example" || s.Identity().Map["finance"][0].Role != "admin" {
		t.Errorf("%+v", s)
	}
	var out bytes.Buffer
	logger := cli.NewLogger(&out, s.LogFormat, s.LogLevel)
	logger.Warn("dropped")
	logger.Error("written")
	if text := out.String(); !strings.HasPrefix(text, "{") || strings.Contains(text, "dropped") {
		t.Errorf("logged %s", text)
	}
}

func TestConsoleAddress(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:8081": "http://127.0.0.1:8081", "[::1]:81": "http://[::1]:81", "localhost:81": "http://localhost:81",
		":8081": "https://localhost:8081", "0.0.0.0:8081": "https://0.0.0.0:8081", "console.example:81": "https://console.example:81",
	} {
		s, err := Read([]string{"LEDGERFEED_CONSOLE_LISTEN=" + listen}, nil)
		if err != nil || s.ConsoleAddress() != want {
			t.Errorf("listening at %s: %s, %v; want %s", listen, s.ConsoleAddress(), err, want)
		}
	}
}

// With a certificate, both are reached over https.
func TestAddressesWithTLS(t *testing.T) {
	t.Parallel()
	s, err := Read([]string{"LEDGERFEED_TLS_CERT=cert.pem", "LEDGERFEED_TLS_KEY=key.pem"}, nil)
	if err != nil || s.BaseURL != "https://127.0.0.1:8080" || s.ConsoleAddress() != "https://127.0.0.1:8081" {
		t.Errorf("%s, %s, %v", s.BaseURL, s.ConsoleAddress(), err)
	}
}

// A wrong value of any setting is refused, with the variable, the value and the
// form wanted, and in no words of Go's parsers.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	for _, c := range []string{
		"LEDGERFEED_LISTEN=8080", "LEDGERFEED_CONSOLE_LISTEN=localhost", "LEDGERFEED_ADMIN_LISTEN=127.0.0.1:99999",
		"LEDGERFEED_BRAND=9x", "LEDGERFEED_BASE_URL=api.example.com", "LEDGERFEED_DOCS_URL=ftp://x", "LEDGERFEED_CONSOLE_URL=http://console.example.com",
		"LEDGERFEED_TRUSTED_PROXIES=127.0.0.1", "LEDGERFEED_RETENTION=0", "LEDGERFEED_RETENTION=30 days",
		"LEDGERFEED_RETRY_SCHEDULE=soon", "LEDGERFEED_TURN_OFF_AFTER=-1s", "LEDGERFEED_SECRET_OVERLAP=0s", "LEDGERFEED_WEBHOOK_TIMEOUT=10", "LEDGERFEED_WEBHOOK_ALLOW=all",
		"LEDGERFEED_OIDC_ISSUER=accounts", "LEDGERFEED_OIDC_MAP=finance", "LEDGERFEED_DRAIN_DELAY=-1s", "LEDGERFEED_AUDIT_EVERY=daily",
		"LEDGERFEED_WHOLE_LISTS=0", "LEDGERFEED_WHOLE_LISTS=all", "LEDGERFEED_LOG_FORMAT=xml", "LEDGERFEED_LOG_LEVEL=loud",
	} {
		_, err := Read([]string{"LEDGERFEED_OIDC_ISSUER=https://id.example", "LEDGERFEED_OIDC_CLIENT_ID=console", c}, nil)
		variable, value, _ := strings.Cut(c, "=")
		if err == nil || !strings.HasPrefix(err.Error(), variable+` is "`+value+`": want `) || strings.Contains(err.Error(), "\n") || strings.HasSuffix(err.Error(), "want ") {
			t.Errorf("%s: %v", c, err)
		}
	}
	for _, c := range []string{"LEDGERFEED_SECRET_KEY=tooshort", "LEDGERFEED_SMTP_URL=mail:hunter2@x"} {
		_, err := Read([]string{c, "LEDGERFEED_MAIL_FROM=a@b.example"}, nil)
		variable, value, _ := strings.Cut(c, "=")
		if err == nil || !strings.HasPrefix(err.Error(), variable+" has a wrong value, which is not shown: want ") || strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", c, err)
		}
	}
	for set, want := range map[string]string{
		"LEDGERFEED_SMTP_URL=smtp://mail.example": `LEDGERFEED_MAIL_FROM is "": want a mail address`, "LEDGERFEED_OIDC_ISSUER=https://id.example": `LEDGERFEED_OIDC_CLIENT_ID is "": want the id`,
		"LEDGERFEED_OIDC_CLIENT_ID=console": `LEDGERFEED_OIDC_ISSUER is "": want an address`, "LEDGERFEED_OIDC_CLIENT_SECRET=hunter2": `LEDGERFEED_OIDC_ISSUER is "": want an address`,
		"LEDGERFEED_TLS_CERT=cert.pem": `LEDGERFEED_TLS_KEY is "": want a file`, "LEDGERFEED_TLS_KEY=key.pem": `LEDGERFEED_TLS_CERT is "": want a file`,
	} {
		if _, err := Read([]string{set}, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s alone: %v", set, err)
		}
	}
}

// All faults are reported at once, each once.
func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Read([]string{"LEDGERFEED_RETENTION=soon", "LEDGERFEED_BRAND=9x", "LEDGERFEED_WHOLE_LISTS=0", "LEDGERFEED_LOG_LEVEL=loud"}, nil)
	want := `4 settings are wrong:
  LEDGERFEED_BRAND is "9x": want a letter, then at most 31 letters, digits or hyphens, such as ACME
  LEDGERFEED_LOG_LEVEL is "loud": want debug, info, warn or error
  LEDGERFEED_RETENTION is "soon": want a time above 0, such as 30d or 720h
  LEDGERFEED_WHOLE_LISTS is "0": want a number of lists from 1 to 1000, such as 4`
	var wrong *Error
	if !errors.As(err, &wrong) || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// The list of settings for operators has every one with its default.
func TestListHasEverySetting(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	fields := reflect.TypeFor[Settings]()
	for i := range fields.NumField() {
		variable, def := fields.Field(i).Tag.Get("env"), fields.Field(i).Tag.Get("envDefault")
		var row string
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "`"+variable+"`") {
				row = line
				break
			}
		}
		if row == "" || !strings.Contains(row, "`"+def+"`") && def != "" {
			t.Errorf("docs/operations/settings.md does not have %s with its default %s: %s", variable, def, row)
		}
	}
}

// The page about a second machine says of each setting, once, whether it has to be equal.
func TestSecondMachineHasEverySetting(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations/second-machine.md")
	if err != nil {
		t.Fatal(err)
	}
	fields := reflect.TypeFor[Settings]()
	for i := range fields.NumField() {
		variable, n := fields.Field(i).Tag.Get("env"), 0
		for line := range strings.Lines(string(text)) {
			names, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
			if strings.HasPrefix(line, "|") && strings.Contains(names, "`"+variable+"`") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s is in %d rows of docs/operations/second-machine.md", variable, n)
		}
	}
}
