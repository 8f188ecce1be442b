package settings

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wrongValues are three values of each setting that it refuses by their form; nil: it
// takes every text.
var wrongValues = map[string][]string{
	"DATABASE_URL":                     nil, // the driver checks it, and the errors of a connection name it
	"LEDGERFEED_CONNECTIONS":           {"3", "many", "0"},
	"LEDGERFEED_POOLER":                {"session", "pgbouncer", "true"},
	"LEDGERFEED_LISTEN_DATABASE_URL":   nil,
	"LEDGERFEED_CELLS":                 nil,
	"LEDGERFEED_READ_DATABASE_URL":     {"standby1:5432", "postgres://a:hunter2@r1:port/x", "postgres://a:hunter2@r1/x postgres://b@r1/x"},
	"LEDGERFEED_PROJECT_COMMIT":        {"local", "off", "true"},
	"LEDGERFEED_DATA_DIR":              nil,
	"LEDGERFEED_LISTEN":                {"8080", "localhost", "http://127.0.0.1:99"},
	"LEDGERFEED_CONSOLE_LISTEN":        {"8081", "127.0.0.1:99999", "::1:8081"},
	"LEDGERFEED_ADMIN_LISTEN":          {"9090", "127.0.0.1:", "127.0.0.1:http"},
	"LEDGERFEED_TLS_CERT":              {""},
	"LEDGERFEED_TLS_KEY":               {""},
	"LEDGERFEED_BRAND":                 {"9x", "two words", strings.Repeat("a", 33)},
	"LEDGERFEED_BASE_URL":              {"api.acme.example", "ftp://acme.example", "https://acme.example/?a=b"},
	"LEDGERFEED_DOCS_URL":              {"docs.acme.example", "/docs", "https://acme.example/#top"},
	"LEDGERFEED_CONSOLE_URL":           {"console.acme.example", "http://console.acme.example", "https://acme.example/console"},
	"LEDGERFEED_CONSOLE_EMBED_ORIGINS": {"app.acme.example", "https://*.acme.example", "https://acme.example/app", "http://app.acme.example", "https://acme.example;x"},
	"LEDGERFEED_CONSOLE_NAME":          {strings.Repeat("n", 41), strings.Repeat("é", 41)},
	"LEDGERFEED_CONSOLE_ACCENT":        {"blue", "1d4ed8", "#1d4"},
	"LEDGERFEED_CONSOLE_LOGO":          nil,
	"LEDGERFEED_TRUSTED_PROXIES":       {"127.0.0.1", "all", "172.16.0.0/99"},
	"LEDGERFEED_RETENTION":             {"30", "a month", "-1h"},
	"LEDGERFEED_SECRET_KEY":            {"hunter2", "0123456789abcdef,hunter2", ",hunter2hunter2hunter2"},
	"LEDGERFEED_SIGNING_KEY":           {"hunter2", "PRIVATE+KEY+x+00000000+hunter2", ",hunter2hunter2hunter2"},
	"LEDGERFEED_WITNESSES":             {"https://w1.example.com", "w1+00000000+BAEB=https://w1.example.com", "w1=ftp://w1.example.com"},
	"LEDGERFEED_RETRY_SCHEDULE":        {"5", "0s", "1m;2m", "7m,soon"},
	"LEDGERFEED_TURN_OFF_AFTER":        {"72", "never", "0"},
	"LEDGERFEED_SECRET_OVERLAP":        {"24", "a day", "-3h"},
	"LEDGERFEED_WEBHOOK_TIMEOUT":       {"20", "fast", "0s"},
	"LEDGERFEED_WEBHOOK_ALLOW":         {"192.168.0.1", "private", "192.168.0.0-192.168.0.9"},
	"LEDGERFEED_WEBHOOK_CA_FILE":       nil,
	"LEDGERFEED_SMTP_URL":              {"hunter2.example", "https://a:hunter2@mail.acme.example", "smtp://", "smtp://a:hunter2@mail.acme.example?tls=no", "smtp://mail.acme.example?starttls=1"},
	"LEDGERFEED_MAIL_FROM":             {"nobody", "two@three@four", "billing at acme"},
	"LEDGERFEED_OIDC_ISSUER":           {"", "accounts", "ldap://id.acme.example", "https://id.acme.example/?tenant=7"},
	"LEDGERFEED_OIDC_CLIENT_ID":        {""},
	"LEDGERFEED_OIDC_CLIENT_SECRET":    nil,
	"LEDGERFEED_OIDC_SCOPES":           nil,
	"LEDGERFEED_OIDC_CLAIM":            nil,
	"LEDGERFEED_OIDC_MAP":              {"finance", "finance=acme", "finance=acme:boss"},
	"LEDGERFEED_DRAIN_DELAY":           {"5", "soon", "-7s"},
	"LEDGERFEED_AUDIT_EVERY":           {"6", "daily", "-1h"},
	"LEDGERFEED_RELAY_URL":             {"hunter2.example:4222", "redis://u:hunter2@n1:6379", "nats://u:hunter2@n1:4222/?replicas=9", "nats://", "nats://u:hunter2@n1/?name=a.b", "nats://u:hunter2@n1/?form=whole", "nats://u:hunter2@n1/?envelope=avro"},
	"LEDGERFEED_PPROF":                 {"yes", "on", "2"},
	"LEDGERFEED_LOG_FORMAT":            {"xml", "JSON", "logfmt"},
	"LEDGERFEED_LOG_LEVEL":             {"trace", "5", "loud"},
	"LEDGERFEED_WHOLE_LISTS":           {"0", "all", "1001"},
	"LEDGERFEED_WHOLE_LIST_TIMEOUT":    {"15", "0s", "long"},
	"LEDGERFEED_WHOLE_LIST_STALL":      {"60", "0s", "-7m"},
	"LEDGERFEED_INGEST_LISTEN":         {"8082", "localhost", "127.0.0.1:99999"},
	"LEDGERFEED_INGEST_IN_FLIGHT":      {"31", "4097", "many"},
	"LEDGERFEED_INGEST_URL":            {"hunter2.example:5432", "mysql://u:hunter2@x/y?sslmode=require", "mysql://u:hunter2@x/", "mysql://u:hunter2@x/y?workspace_token=1", "postgres://u:hunter2@x/y?topic=a-b", "nats://u:hunter2@n1/?trust=everybody", "postgres://u:hunter2@x/y?workspace_token=1", "nats://u:hunter2@n1/?workspace=a&workspace_token=1", "nats://u:hunter2@n1/?name=two+words"},
	"LEDGERFEED_CREATE_WORKSPACES":     {"yes", "on", "2"},
}

// partners are settings that have to be set with others, so that one fault remains.
var partners = map[string]string{
	"LEDGERFEED_POOLER": "DATABASE_URL=postgres://db", "LEDGERFEED_READ_DATABASE_URL": "DATABASE_URL=postgres://db",
	"LEDGERFEED_TLS_CERT": "LEDGERFEED_TLS_KEY=/key.pem", "LEDGERFEED_TLS_KEY": "LEDGERFEED_TLS_CERT=/cert.pem",
	"LEDGERFEED_SMTP_URL": "LEDGERFEED_MAIL_FROM=billing@acme.example", "LEDGERFEED_MAIL_FROM": "LEDGERFEED_SMTP_URL=smtp://mail.acme.example",
	"LEDGERFEED_OIDC_ISSUER": "LEDGERFEED_OIDC_CLIENT_ID=console", "LEDGERFEED_OIDC_CLIENT_ID": "LEDGERFEED_OIDC_ISSUER=https://id.acme.example",
}

// exampleIn is the example of a form: what stands after "such as", or the first of the
// values that are all there are.
func exampleIn(want string) string {
	if _, after, ok := strings.Cut(want, "such as "); ok {
		want = after
	}
	return strings.TrimRight(regexp.MustCompile(`^\S+`).FindString(want), ",;")
}

// TestEverySettingsMessage goes through all settings: a wrong value is answered in one
// line that has the variable, the value (of a secret one not) and an example, each
// once; and the example is right.
func TestEverySettingsMessage(t *testing.T) {
	t.Parallel()
	fields := reflect.TypeFor[Settings]()
	for i := range fields.NumField() {
		tag := fields.Field(i).Tag
		variable, want, secret := tag.Get("env"), tag.Get("want"), tag.Get("secret") != ""
		values, listed := wrongValues[variable]
		if !listed || (want == "") != (values == nil) {
			t.Errorf("%s: want three wrong values here and a form in its tag, or neither", variable)
			continue
		}
		example := exampleIn(want)
		for _, value := range values {
			_, err := Read([]string{variable + "=" + value, partners[variable]}, nil)
			if err == nil {
				t.Errorf("%s=%s is taken", variable, value)
				continue
			}
			text := err.Error()
			shown, times := `"`+value+`"`, 1
			if secret {
				shown, times = "hunter2", 0
			}
			if strings.Contains(text, "\n") || strings.Count(text, variable) != 1 || strings.Count(text, shown) != times || !strings.HasSuffix(text, ": want "+want) || strings.Count(text, example) != 1 {
				t.Errorf("%s=%s: want one line with the variable, the value and the example %s, each once:\n%s", variable, value, example, text)
			}
		}
		if values == nil || variable == "LEDGERFEED_SECRET_KEY" || variable == "LEDGERFEED_SIGNING_KEY" { // whose examples make one
			continue
		}
		if _, err := Read([]string{variable + "=" + example, partners[variable]}, nil); err != nil {
			t.Errorf("the example of %s: %v", variable, err)
		}
	}
}

// A password in an address is not shown either.
func TestPasswordsInAddresses(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"LEDGERFEED_BASE_URL", "LEDGERFEED_DOCS_URL", "LEDGERFEED_CONSOLE_URL", "LEDGERFEED_OIDC_ISSUER"} {
		_, err := Read([]string{variable + "=https://me:hunter2@acme.example", partners[variable]}, nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.HasPrefix(err.Error(), variable+` is "https://me:xxxxx@acme.example": want `) {
			t.Errorf("%s: %v", variable, err)
		}
	}
}

// A variable that looks like a setting is reported with the setting that may be meant. Variables that
// a cluster sets for a service called ledgerfeed are not reported.
func TestMistyped(t *testing.T) {
	t.Parallel()
	got := Mistyped([]string{
		"LEDGERFEED_LISEN=:80", "LEDGERFEED_SECRETKEY=hunter2", "LEDGERFEED_LISTEN=:80", "PATH=/bin", "LISEN=x",
		"LEDGERFEED_PORT=tcp://10.0.0.1:80", "LEDGERFEED_SERVICE_HOST=10.0.0.1", "LEDGERFEED_SERVICE_PORT=80", "LEDGERFEED_PORT_8080_TCP_ADDR=10.0.0.1", "LEDGERFEED_TEST_ROLE=x",
	})
	want := []string{
		"there is no setting LEDGERFEED_LISEN; did you mean LEDGERFEED_LISTEN?",
		"there is no setting LEDGERFEED_SECRETKEY; did you mean LEDGERFEED_SECRET_KEY?",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
