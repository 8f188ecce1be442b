package relay

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// A key that nothing takes, as nsc writes it.
const testCreds = `-----BEGIN NATS USER JWT-----
eyJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ0ZXN0In0.c2lnbmF0dXJl
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
SUAI7MZYUXPK4N2G7TJEZADDFZCN32YB6XQ2NAIAPHMY3IVTA7FFNBGK6A
------END USER NKEY SEED------
`

// ofWindows are forms that an editor of Windows may give a text.
func ofWindows(text string) map[string]string {
	return map[string]string{
		"as it was": text, "a mark": "\ufeff" + text, "CRLF": strings.ReplaceAll(text, "\n", "\r\n"),
		"a mark and CRLF": "\ufeff" + strings.ReplaceAll(text, "\n", "\r\n"),
	}
}

func fileOf(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestCredentialsOfWindows(t *testing.T) {
	t.Parallel()
	for name, text := range ofWindows(testCreds) {
		var o nats.Options
		if err := credentials(fileOf(t, text))(&o); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if jwt, err := o.UserJWT(); err != nil || jwt != "eyJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ0ZXN0In0.c2lnbmF0dXJl" {
			t.Errorf("%s: the JWT is %q, %v", name, jwt, err)
		}
		if signed, err := o.SignatureCB([]byte("nonce")); err != nil || len(signed) != 64 {
			t.Errorf("%s: the signature has %d bytes, %v", name, len(signed), err)
		}
	}
	for text, want := range map[string]string{"\xff\xfe-\x00": "it is UTF-16: want UTF-8", "something else\n": "want a JWT and a key as nsc writes them"} {
		file := fileOf(t, text)
		if err := credentials(file)(&nats.Options{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v, want %q and the file", text, err, want)
		}
	}
	// The file is read again for each connection.
	var o nats.Options
	file := fileOf(t, testCreds)
	if err := credentials(file)(&o); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(testCreds, "c2lnbmF0dXJl", "YW5vdGhlcg")), 0o600); err != nil {
		t.Fatal(err)
	}
	if jwt, err := o.UserJWT(); err != nil || !strings.HasSuffix(jwt, ".YW5vdGhlcg") {
		t.Error(jwt, err)
	}
}

func TestAuthoritiesOfWindows(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, text := range ofWindows(string(certificate)) {
		var o nats.Options
		if err := authorities(fileOf(t, text))(&o); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if pool, err := o.RootCAsCB(); err != nil || len(pool.Subjects()) != 1 || !o.Secure { //nolint:staticcheck // it is not the system's pool
			t.Errorf("%s: %v", name, err)
		}
	}
	for text, want := range map[string]string{"\xfe\xff\x00-": "it is UTF-16: want UTF-8", "\x30\x82": "it holds no certificate in PEM form"} {
		file := fileOf(t, text)
		if err := authorities(file)(&nats.Options{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v, want %q and the file", text, err, want)
		}
	}
}
