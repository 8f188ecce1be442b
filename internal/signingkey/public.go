package signingkey

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"

	"golang.org/x/mod/sumdb/note"
)

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
