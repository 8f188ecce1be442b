// Package keyring encrypts the signing secrets of webhooks for the database
// (docs/contract/decisions.md, "Signing secrets are stored encrypted").
package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// keyIDSize is the length in bytes of the key id with which a sealed secret begins.
const keyIDSize = 8

// Fingerprint identifies a key without revealing anything about it. It is the key id with which a
// sealed secret begins.
type Fingerprint [keyIDSize]byte

// String returns the fingerprint in hexadecimal digits.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// minKeyText is the minimum length of a key's text, in characters.
const minKeyText = 16

// Compare orders fingerprints.
func (f Fingerprint) Compare(other Fingerprint) int { return bytes.Compare(f[:], other[:]) }

// Keyring encrypts ("seals") secrets with AES-256-GCM. The workspace and the webhook are associated
// data, so a sealed secret that is copied to another row cannot be opened there.
//
// The database records which of the keys seals (see State), so that all processes agree.
type Keyring struct {
	keys []sealingKey // the first one seals, all of them open
}

type sealingKey struct {
	id   Fingerprint
	aead cipher.AEAD
}

// New reads LEDGERFEED_SECRET_KEY: one key, or several separated by commas. A key is any text of at
// least 16 characters, preferably a random one (openssl rand -hex 32).
func New(text string) (*Keyring, error) {
	k := &Keyring{}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if len(part) < minKeyText {
			return nil, fmt.Errorf("a secret key has at least %d characters, best from: openssl rand -hex 32", minKeyText)
		}
		key, err := newSealingKey(part)
		if err != nil {
			return nil, err
		}
		k.keys = append(k.keys, key)
	}
	return k, nil
}

func newSealingKey(text string) (sealingKey, error) {
	var key sealingKey
	material, err := hkdf.Key(sha256.New, []byte(text), nil, "ledgerfeed webhook secrets", 32+keyIDSize)
	if err != nil {
		return key, fmt.Errorf("derive a secret key: %w", err)
	}
	copy(key.id[:], material[32:])
	block, err := aes.NewCipher(material[:32])
	if err != nil {
		return key, fmt.Errorf("prepare a secret key: %w", err)
	}
	key.aead, err = cipher.NewGCM(block)
	if err != nil {
		return key, fmt.Errorf("prepare a secret key: %w", err)
	}
	return key, nil
}

// ErrUnknownKey means that a secret is sealed under a key that is not in the
// keyring.
var ErrUnknownKey = errors.New("the signing secret is sealed under a key that this process does not have; ledgerfeed secret-key check tells which")

// associatedData binds a sealed secret to its row.
func associatedData(workspaceID, webhookID string) []byte {
	return []byte("webhook\x00" + workspaceID + "\x00" + webhookID)
}

// Seal encrypts a secret for the row of a webhook, under the first key.
func (k *Keyring) Seal(workspaceID, webhookID, secret string) []byte {
	key := &k.keys[0]
	box := make([]byte, keyIDSize+key.aead.NonceSize(), keyIDSize+key.aead.NonceSize()+len(secret)+key.aead.Overhead())
	copy(box, key.id[:])
	nonce := box[keyIDSize:]
	_, _ = rand.Read(nonce) // never fails: the runtime ends the program when the system has no randomness
	return key.aead.Seal(box, nonce, []byte(secret), associatedData(workspaceID, webhookID))
}

// Open decrypts a secret. The error is ErrUnknownKey, or says that the sealed
// secret was altered.
func (k *Keyring) Open(workspaceID, webhookID string, box []byte) (string, error) {
	for i := range k.keys {
		key := &k.keys[i]
		rest, ok := bytes.CutPrefix(box, key.id[:])
		if !ok || len(rest) < key.aead.NonceSize() {
			continue
		}
		plain, err := key.aead.Open(nil, rest[:key.aead.NonceSize()], rest[key.aead.NonceSize():], associatedData(workspaceID, webhookID))
		if err != nil {
			return "", fmt.Errorf("the signing secret of %s was altered: %w", webhookID, err)
		}
		return string(plain), nil
	}
	return "", ErrUnknownKey
}

// Fingerprints returns the keys' fingerprints, in the order of the keys.
func (k *Keyring) Fingerprints() []Fingerprint {
	list := make([]Fingerprint, len(k.keys))
	for i := range k.keys {
		list[i] = k.keys[i].id
	}
	return list
}

// Under returns a keyring with the same keys that seals under the key f; false if it does not have
// that key.
func (k *Keyring) Under(f Fingerprint) (*Keyring, bool) {
	i := slices.IndexFunc(k.keys, func(key sealingKey) bool { return key.id == f })
	if i < 0 {
		return nil, false
	}
	keys := slices.Clone(k.keys)
	keys[0], keys[i] = keys[i], keys[0]
	return &Keyring{keys: keys}, true
}

// Current reports whether a secret is sealed under the first key.
func (k *Keyring) Current(box []byte) bool {
	return bytes.HasPrefix(box, k.keys[0].id[:])
}
