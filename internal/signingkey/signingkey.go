package signingkey

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// maxKeys is how many keys may sign at the same time: one, and the previous one during a rotation.
const maxKeys = 2

// Keys holds the keys that sign, the current one first.
type Keys struct{ list []ed25519.PrivateKey }

// newName is the name in new keys. It has no meaning.
const newName = "ledgerfeed"

// New makes a key, in the form that Parse takes.
func New(random io.Reader) (string, error) {
	text, _, err := note.GenerateKey(random, newName)
	if err != nil {
		return "", fmt.Errorf("make a signing key: %w", err)
	}
	return text, nil
}

// Parse reads LEDGERFEED_SIGNING_KEY: one key in the form of a note's signer,
// PRIVATE+KEY+<name>+<hash>+<base64>, or two separated by a comma, the current one first, which
// then both sign. Any name is accepted. An error does not repeat the text.
func Parse(text string) (*Keys, error) {
	k := &Keys{}
	for part := range strings.SplitSeq(text, ",") {
		key, err := parseOne(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(k.list, func(have ed25519.PrivateKey) bool { return key.Equal(have) }) {
			return nil, errors.New("the same signing key is given twice")
		}
		k.list = append(k.list, key)
	}
	if len(k.list) > maxKeys {
		return nil, fmt.Errorf("there are %d signing keys: want one, or the new one and the one before it", len(k.list))
	}
	return k, nil
}

func parseOne(text string) (ed25519.PrivateKey, error) {
	if strings.HasPrefix(text, "PRIVATE+KEY+") {
		if _, err := note.NewSigner(text); err != nil {
			return nil, fmt.Errorf("cannot read a signing key, which has been changed or cut short: %w", err)
		}
		parts := strings.SplitN(text, "+", 5) // the last may have a plus in it
		if raw, err := base64.StdEncoding.DecodeString(parts[4]); err == nil && len(raw) == 1+ed25519.SeedSize {
			return ed25519.NewKeyFromSeed(raw[1:]), nil
		}
	}
	return nil, errors.New("a signing key begins with PRIVATE+KEY+, as ledgerfeed signing-key new prints it")
}

// Sign signs a text under a name with all keys, and returns the note. The text ends with a
// line feed and begins with the name on a line of its own.
func (k *Keys) Sign(name, text string) ([]byte, error) {
	if !strings.HasPrefix(text, name+"\n") {
		return nil, fmt.Errorf("sign a note: the text does not begin with the line %q", name)
	}
	signers, err := k.Signers(name)
	if err != nil {
		return nil, err
	}
	signed, err := note.Sign(&note.Note{Text: text}, signers...)
	if err != nil {
		return nil, fmt.Errorf("sign a note: %w", err)
	}
	return signed, nil
}

// Signers returns a signer for each key, all under the given name. It fails if the name is not
// valid.
func (k *Keys) Signers(name string) ([]note.Signer, error) {
	list := make([]note.Signer, len(k.list))
	for i, key := range k.list {
		verifier, err := Public{key.Public().(ed25519.PublicKey)}.Verifier(name)
		if err != nil {
			return nil, err
		}
		// A key's hash covers its name and its public part.
		_, rest, _ := strings.Cut(verifier, "+")
		hash, _, _ := strings.Cut(rest, "+")
		private := base64.StdEncoding.EncodeToString(append([]byte{algorithm}, key.Seed()...))
		if list[i], err = note.NewSigner("PRIVATE+KEY+" + name + "+" + hash + "+" + private); err != nil {
			return nil, fmt.Errorf("make a signer for %q: %w", name, err)
		}
	}
	return list, nil
}

// algorithm is the byte that stands for Ed25519 before a key.
const algorithm = 1

// Public returns the public parts of the keys, the current one first.
func (k *Keys) Public() []Public {
	list := make([]Public, len(k.list))
	for i, key := range k.list {
		list[i] = Public{key.Public().(ed25519.PublicKey)}
	}
	return list
}

// Verifiers returns the verifier keys for a name, the current one first.
func (k *Keys) Verifiers(name string) ([]string, error) {
	list := make([]string, len(k.list))
	for i, p := range k.Public() {
		var err error
		if list[i], err = p.Verifier(name); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Public is the public part of a key.
type Public struct{ key ed25519.PublicKey }

// String returns the 32 bytes of the key in base64.
func (p Public) String() string { return base64.StdEncoding.EncodeToString(p.key) }

// PEM returns the key in the form that openssl reads.
func (p Public) PEM() string {
	der, err := x509.MarshalPKIXPublicKey(p.key)
	if err != nil {
		return "" // cannot happen: an Ed25519 key has this form
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// Verifier returns the verifier key for a name, <name>+<hash>+<base64>. The name must have at least
// one character, and neither white space nor a plus sign.
func (p Public) Verifier(name string) (string, error) {
	key, err := note.NewEd25519VerifierKey(name, p.key)
	if err == nil {
		_, err = note.NewVerifier(key)
	}
	if err != nil {
		return "", fmt.Errorf("%q is no name of a key, which has at least one character, and neither white space nor +", name)
	}
	return key, nil
}

// Host returns the name of the service's key, with which all names of notes begin: the host of the
// API's address, with its port if it has one, in lower case.
func Host(baseURL string) (string, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" {
		return "", errors.New("the API's address names no host")
	}
	return strings.ToLower(u.Host), nil
}

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
