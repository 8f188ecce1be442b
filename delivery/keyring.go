package delivery

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
)

// keyIDSize is how many bytes name the key of a sealed secret.
const keyIDSize = 8

// minKeyText is the least length of a key's text.
const minKeyText = 16

// Keyring seals the signing secrets for the database: AES-256-GCM, bound to
// the workspace and the webhook they belong to, so that a sealed secret that
// is copied to another row does not open there.
//
// To change the key, put the new one behind the old one everywhere, then
// before it, and, once no secret is sealed under the old one, take the old one
// away. A running Engine seals anew what is under an older key.
type Keyring struct {
	keys []sealingKey // the first seals, all open
}

type sealingKey struct {
	id   [keyIDSize]byte
	aead cipher.AEAD
}

// NewKeyring reads LEDGERFEED_SECRET_KEY: one key, or several separated by
// commas, the first of which seals. A key is any text of at least 16
// characters, best a random one (openssl rand -hex 32).
func NewKeyring(text string) (*Keyring, error) {
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

// errUnknownKey means that none of the keys sealed a secret.
var errUnknownKey = errors.New("the signing secret is sealed under a key that LEDGERFEED_SECRET_KEY does not hold")

func sealedFor(workspaceID, webhookID string) []byte {
	return []byte("webhook\x00" + workspaceID + "\x00" + webhookID)
}

func (k *Keyring) seal(workspaceID, webhookID, secret string) []byte {
	key := &k.keys[0]
	box := make([]byte, keyIDSize+key.aead.NonceSize(), keyIDSize+key.aead.NonceSize()+len(secret)+key.aead.Overhead())
	copy(box, key.id[:])
	nonce := box[keyIDSize:]
	_, _ = rand.Read(nonce) // never fails: the program ends when the system has no randomness
	return key.aead.Seal(box, nonce, []byte(secret), sealedFor(workspaceID, webhookID))
}

func (k *Keyring) open(workspaceID, webhookID string, box []byte) (string, error) {
	for i := range k.keys {
		key := &k.keys[i]
		rest, ok := bytes.CutPrefix(box, key.id[:])
		if !ok || len(rest) < key.aead.NonceSize() {
			continue
		}
		plain, err := key.aead.Open(nil, rest[:key.aead.NonceSize()], rest[key.aead.NonceSize():], sealedFor(workspaceID, webhookID))
		if err != nil {
			return "", fmt.Errorf("the signing secret of %s was altered: %w", webhookID, err)
		}
		return string(plain), nil
	}
	return "", errUnknownKey
}

// current tells whether a sealed secret is under the key that seals.
func (k *Keyring) current(box []byte) bool {
	return bytes.HasPrefix(box, k.keys[0].id[:])
}
