package pg

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// sslFile is a file for TLS that a connection string names, by a word of libpq.
var sslFile = regexp.MustCompile(`(?:^|\s)(sslrootcert|sslcert|sslkey)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))`)

// sslFiles are the files for TLS that a URL or connection string names, or else the environment.
func sslFiles(text string) map[string]string {
	files := map[string]string{}
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		files[name] = os.Getenv("PG" + strings.ToUpper(name))
	}
	if u, err := url.Parse(text); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		for name := range files {
			if file := u.Query().Get(name); file != "" {
				files[name] = file
			}
		}
		return files
	}
	for _, found := range sslFile.FindAllStringSubmatch(text, -1) {
		files[found[1]] = found[2] + found[3]
	}
	return files
}

var (
	errMarked = errors.New("it begins with a byte order mark: want PEM without one, as from tail -c +4")
	errNoPEM  = errors.New("it is not PEM")
)

// checkSSLFiles looks for files whose beginning the driver cannot read. It passes over such a
// certificate among others, and does not name the file. A file that cannot be read is the driver's
// to tell.
func checkSSLFiles(text string) error {
	for name, file := range sslFiles(text) {
		content, err := os.ReadFile(file) //nolint:gosec // the operator names it
		if err != nil {
			continue
		}
		plain, err := texts.Plain(content)
		switch block, _ := pem.Decode(plain); {
		case err != nil:
		case block == nil:
			err = errNoPEM
		case !bytes.Equal(plain, content):
			err = errMarked
		}
		if err != nil {
			return fmt.Errorf("DATABASE_URL: %s, the file %s: %w", name, file, err)
		}
	}
	return nil
}
