package reference

import (
	"fmt"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
)

// KeysPath is the path of the page about signing keys, and KeysTextPath the path of its plain-text
// form, both below the API's address. They belong to this service and do not move with its
// documentation.
const (
	KeysPath     = "/docs/keys"
	KeysTextPath = "/docs/keys.txt"
)

// keysPage is the data of the page about signing keys.
type keysPage struct {
	Host    string // name of the keys; all names of notes begin with it
	BaseURL string
	Text    string // address of the plain-text form
	Keys    []publicKey
}

// Rotating reports whether a key is being replaced.
func (p *keysPage) Rotating() bool { return len(p.Keys) > 1 }

// publicKey is a key that others check signatures with.
type publicKey struct {
	Verifier string
	Public   string // base64
	PEM      string
}

func newKeysPage(info openapi.Info, keys *signingkey.Keys) (*keysPage, error) {
	host, err := signingkey.Host(info.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("the page about keys: %w", err)
	}
	p := &keysPage{Host: host, BaseURL: info.BaseURL, Text: info.BaseURL + KeysTextPath}
	if keys == nil {
		return p, nil
	}
	for _, public := range keys.Public() {
		verifier, err := public.Verifier(host)
		if err != nil {
			return nil, fmt.Errorf("the page about keys: %w", err)
		}
		p.Keys = append(p.Keys, publicKey{verifier, public.String(), public.PEM()})
	}
	return p, nil
}

// KeysText writes the verifier keys, one per line, the current one first. Lines that begin with #
// are comments.
func KeysText(info openapi.Info, keys *signingkey.Keys) ([]byte, error) {
	shown, err := newKeysPage(info, keys)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Verifier keys of %s, explained at %s%s. The present one comes first.\n", shown.Host, info.BaseURL, KeysPath)
	fmt.Fprintf(&b, "# They sign checkpoints, under the names %s/<workspace>/events and %s/<workspace>/events-with-pay.\n", shown.Host, shown.Host)
	if len(shown.Keys) == 0 {
		b.WriteString("# There are none: this service signs nothing.\n")
	}
	for _, k := range shown.Keys {
		fmt.Fprintf(&b, "# Public key (Ed25519): %s\n%s\n", k.Public, k.Verifier)
	}
	return []byte(b.String()), nil
}
