package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// writeFile writes a file with settings and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledgerfeed.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFilesOfWindows: what editors there write is read, or named.
func TestFilesOfWindows(t *testing.T) {
	t.Parallel()
	utf16 := func(text string) string {
		var b strings.Builder
		for _, c := range []byte(text) {
			b.WriteByte(c)
			b.WriteByte(0)
		}
		return b.String()
	}
	const text = "listen: 0.0.0.0:80\r\nretention: 60d\r\n"
	for name, content := range map[string]string{"CRLF": text, "a mark": "\ufeff" + text, "UTF-16 with a mark": "\xff\xfe" + utf16(text)} {
		f, err := ReadFile(writeFile(t, content))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s, err := Read(nil, f); err != nil || s.Listen != "0.0.0.0:80" || s.Retention != 60*24*time.Hour {
			t.Errorf("%s: %q, %v, %v", name, s.Listen, s.Retention, err)
		}
	}
	_, err := ReadFile(writeFile(t, utf16(text)))
	if want := "ledgerfeed.yaml cannot be read: it is UTF-16: want UTF-8"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("UTF-16 without a mark: %v, want %q", err, want)
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	f, err := ReadFile(writeFile(t, `
# comments are allowed
listen: 0.0.0.0:80
retention: 60d
retry_schedule: [1m, 5m, 1d]
trusted_proxies:
  - 10.0.0.0/8
  - 192.168.0.0/16
secret_key: 0123456789abcdef
oidc_issuer: https://id.example
oidc_client_id: console
oidc_map: ["finance=acme:admin", "support=*:viewer,acme:admin"]
whole_lists: 7
log_level:
`))
	if err != nil {
		t.Fatal(err)
	}
	environ := []string{"LEDGERFEED_LISTEN=:81", "LEDGERFEED_RETENTION=", "LEDGERFEED_AUDIT_EVERY=2d"}
	s, err := Read(environ, f)
	if err != nil {
		t.Fatal(err)
	}
	if s.Listen != ":81" || s.Retention != 60*24*time.Hour || len(s.RetrySchedule) != 3 || s.RetrySchedule[2] != 24*time.Hour || len(s.TrustedProxies) != 2 ||
		len(s.OIDCMap["support"]) != 2 || s.WholeLists != 7 || s.AuditEvery != 48*time.Hour || s.LogLevel != 0 {
		t.Errorf("%+v", s)
	}
	list := s.List(environ, f)
	for variable, want := range map[string]InForce{
		"LEDGERFEED_LISTEN":      {Value: ":81", From: FromEnvironment, Key: "listen"},
		"LEDGERFEED_RETENTION":   {Value: "60d", From: "ledgerfeed.yaml, line 4", Key: "retention"},
		"LEDGERFEED_SECRET_KEY":  {From: "ledgerfeed.yaml, line 9", Key: "secret_key", Secret: true},
		"LEDGERFEED_BASE_URL":    {Value: "http://:81", From: FromDefault, Key: "base_url"},
		"LEDGERFEED_LOG_LEVEL":   {Value: "info", From: FromDefault, Key: "log_level"},
		"DATABASE_URL":           {From: FromDefault, Key: "database_url", Secret: true},
		"LEDGERFEED_AUDIT_EVERY": {Value: "2d", From: FromEnvironment, Key: "audit_every"},
	} {
		want.Variable = variable
		if i := slices.IndexFunc(list, func(s InForce) bool { return s.Variable == variable }); i < 0 || list[i] != want {
			t.Errorf("%s: %+v, want %+v", variable, list[max(i, 0)], want)
		}
	}
	if empty, err := ReadFile(writeFile(t, "# nothing\n")); err != nil || len(empty.values) != 0 {
		t.Errorf("an empty file: %+v, %v", empty, err)
	}
}

// What is wrong in a file is named with its line, all of it at once.
func TestWrongFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"listn: :80\nretention: {a: b}\nmax_connections: 1\nlisten: :1\nlisten: :2": `ledgerfeed.yaml, line 1: there is no setting listn; did you mean listen?
ledgerfeed.yaml, line 2: retention: want a value, or a list of values
ledgerfeed.yaml, line 3: there is no setting max_connections; did you mean connections?
ledgerfeed.yaml, line 5: listen stands in line 4 already`,
		"- listen":         "ledgerfeed.yaml, line 1: want settings such as listen: 127.0.0.1:8080, one a line",
		"listen: [a, [b]]": "ledgerfeed.yaml, line 1: listen: want a value, or a list of values",
	} {
		if _, err := ReadFile(writeFile(t, text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
	if _, err := ReadFile(writeFile(t, "listen: [")); err == nil || !strings.HasPrefix(err.Error(), "ledgerfeed.yaml is no YAML: line 1: ") {
		t.Errorf("no YAML: %v", err)
	}
	if _, err := ReadFile("/absent.yaml"); err == nil || !strings.Contains(err.Error(), "/absent.yaml") {
		t.Errorf("an absent file: %v", err)
	}
	f, err := ReadFile(writeFile(t, "retention: soon\nsecret_key: short"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Read([]string{"LEDGERFEED_AUDIT_EVERY=daily"}, f)
	want := `3 settings are wrong:
  LEDGERFEED_AUDIT_EVERY is "daily": want a time such as 24h, or 0 for no background verification
  LEDGERFEED_RETENTION is "soon" (ledgerfeed.yaml, line 1): want a time above 0, such as 30d or 720h
  LEDGERFEED_SECRET_KEY has a wrong value, which is not shown (ledgerfeed.yaml, line 2): want one key`
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// No file makes the program end without a word.
func FuzzFile(f *testing.F) {
	for _, text := range []string{"listen: :80", "a: &x [1]\nlisten: *x", "? [a]\n: b", "retention: |\n  30d", "\x00", "---\n---\n", "listen: !!binary aGk="} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if file, err := ReadFile(writeFile(t, text)); err == nil {
			_, _ = Read(nil, file)
		}
	})
}
