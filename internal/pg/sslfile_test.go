package pg

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSSLFilesOfWindows: the driver reads these files itself, and does not name one that it cannot
// read.
func TestSSLFilesOfWindows(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for name, c := range map[string]struct{ text, want string }{
		"as it is":                       {good, ""},
		"CRLF":                           {strings.ReplaceAll(good, "\n", "\r\n"), ""},
		"text":                           {"of a person\n" + good, ""},
		"a mark":                         {"\ufeff" + good, "it begins with a byte order mark: want PEM without one"},
		"a mark before the first of two": {"\ufeff" + good + good, "it begins with a byte order mark: want PEM without one"},
		"UTF-16":                         {"\xff\xfe-\x00", "it is UTF-16: want UTF-8"},
		"DER":                            {string(server.Certificate().Raw), "it is not PEM"},
		"empty":                          {"", "it is not PEM"},
	} {
		file := filepath.Join(t.TempDir(), "root ca.crt")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, url := range []string{
			"postgres://u:secret@h/d?sslmode=verify-full&sslrootcert=" + strings.ReplaceAll(file, " ", "%20"),
			"host=h user=u password=secret sslmode=verify-full sslrootcert = '" + file + "'",
		} {
			_, err := ParseConfig(url)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case c.want != "" && (err == nil || err.Error() != "DATABASE_URL: sslrootcert, the file "+file+": "+c.want && !strings.HasPrefix(err.Error(), "DATABASE_URL: sslrootcert, the file "+file+": "+c.want+", ")):
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
	}
}
