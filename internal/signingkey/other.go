package signingkey

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// ForName takes verifier keys, one per line, and returns those with which a service signs notes of
// a name, under that name. A service has the same key for all its names, which begin with its host.
// ForName skips keys of other hosts, blank lines and lines that begin with #.
func ForName(text, name string) (list []string, err error) {
	if _, err := ParseVerifiers(text); err != nil {
		return nil, err
	}
	host, _, _ := strings.Cut(name, "/")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := note.NewVerifier(line)
		if err != nil {
			return nil, fmt.Errorf("a verifier key: %w", err)
		}
		if of, _, _ := strings.Cut(key.Name(), "/"); of != host {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(line[len(key.Name())+len("+00000000+"):])
		if err != nil || len(raw) != 1+ed25519.PublicKeySize || raw[0] != algorithm {
			return nil, errors.New("a verifier key is no Ed25519 key")
		}
		renamed, err := Public{ed25519.PublicKey(raw[1:])}.Verifier(name)
		if err != nil {
			return nil, err
		}
		list = append(list, renamed)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("none of the verifier keys is of %s", host)
	}
	return list, nil
}
