package witness

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// algorithm is the byte for cosignature/v1 with Ed25519 before a key
// (https://c2sp.org/signed-note, "Signature types").
const algorithm = 4

// maxName bounds a key's name, in bytes.
const maxName = 255

// Key is what a witness signs with.
type Key struct {
	name    string
	private ed25519.PrivateKey
}

// NewKey makes a key under a name, which should be an address without its scheme, such as
// witness.example.com/w1: at least one character, without white space and plus.
func NewKey(random io.Reader, name string) (*Key, error) {
	if !validName(name) {
		return nil, fmt.Errorf("%.80q is no name of a key: want an address without its scheme, such as witness.example.com/w1, without white space and +, of at most %d bytes", name, maxName)
	}
	_, private, err := ed25519.GenerateKey(random)
	if err != nil {
		return nil, fmt.Errorf("make a witness's key: %w", err)
	}
	return &Key{name, private}, nil
}

func validName(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name) && !strings.Contains(name, "+") &&
		strings.IndexFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) < 0
}

// errKey says what a key's text is not. It does not repeat the text, which may be secret.
var errKey = errors.New("it is no witness's key, or was changed or cut short: want PRIVATE+KEY+NAME+HASH+KEY, as ledgerfeed witness key new writes it")

// ParseKey reads what Text writes.
func ParseKey(text string) (*Key, error) {
	rest, isKey := strings.CutPrefix(strings.TrimSpace(text), "PRIVATE+KEY+")
	parts := strings.SplitN(rest, "+", 3) // the last may have a plus in it
	if !isKey || len(parts) != 3 || !validName(parts[0]) {
		return nil, errKey
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(parts[2])
	if err != nil || len(raw) != 1+ed25519.SeedSize || raw[0] != algorithm {
		return nil, errKey
	}
	k := &Key{parts[0], ed25519.NewKeyFromSeed(raw[1:])}
	if parts[1] != hexHash(k.KeyHash()) {
		return nil, errKey
	}
	return k, nil
}

// Text is the key, secret part and all, in the form of a note's signer.
func (k *Key) Text() string {
	return "PRIVATE+KEY+" + k.name + "+" + hexHash(k.KeyHash()) + "+" + encoded(k.private.Seed())
}

// VerifierKey is what others check cosignatures with: NAME+HASH+KEY, with the algorithm byte
// 4 for cosignature/v1.
func (k *Key) VerifierKey() string {
	return k.name + "+" + hexHash(k.KeyHash()) + "+" + encoded(k.public())
}

// Name is the key's name.
func (k *Key) Name() string { return k.name }

// KeyHash names the key together with its name.
func (k *Key) KeyHash() uint32 { return keyHash(k.name, k.public()) }

// Verifier checks the key's cosignatures.
func (k *Key) Verifier() *Verifier { return &Verifier{k.name, k.public()} }

func (k *Key) public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

func keyHash(name string, public ed25519.PublicKey) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n\x04"), public...))
	return binary.BigEndian.Uint32(sum[:])
}

func hexHash(hash uint32) string { return fmt.Sprintf("%08x", hash) }

func encoded(key []byte) string {
	return base64.StdEncoding.EncodeToString(append([]byte{algorithm}, key...))
}

// Verifier checks the cosignatures of a witness (note.Verifier).
type Verifier struct {
	name   string
	public ed25519.PublicKey
}

// ParseVerifier reads a witness's verifier key, as VerifierKey writes it.
func ParseVerifier(text string) (*Verifier, error) {
	if strings.HasPrefix(text, "PRIVATE+KEY+") {
		return nil, errors.New("this is a witness's secret key: want the verifier key, as ledgerfeed witness key show prints it")
	}
	parts := strings.SplitN(text, "+", 3)
	if len(parts) == 3 && validName(parts[0]) {
		raw, err := base64.StdEncoding.Strict().DecodeString(parts[2])
		if err == nil && len(raw) > 0 && raw[0] != algorithm {
			return nil, fmt.Errorf("the verifier key of %s is of another kind (%d): want one for cosignature/v1 with Ed25519 (%d)", parts[0], raw[0], algorithm)
		}
		if err == nil && len(raw) == 1+ed25519.PublicKeySize {
			if v := (&Verifier{parts[0], raw[1:]}); parts[1] == hexHash(v.KeyHash()) {
				return v, nil
			}
		}
	}
	return nil, fmt.Errorf("%.80q is no verifier key of a witness, or was changed or cut short: want NAME+HASH+KEY, as ledgerfeed witness key show prints it", text)
}

// Name is the key's name.
func (v *Verifier) Name() string { return v.name }

// KeyHash names the key together with its name.
func (v *Verifier) KeyHash() uint32 { return keyHash(v.name, v.public) }

// Verify checks the signature of a note's text, as a note has it after the key's hash.
func (v *Verifier) Verify(text, signature []byte) bool {
	at, rest, ok := cutTime(signature)
	return ok && len(rest) == ed25519.SignatureSize && ed25519.Verify(v.public, signed(at, text), rest)
}

// signed is what a cosignature is of (https://c2sp.org/tlog-cosignature).
func signed(at int64, text []byte) []byte {
	return append([]byte("cosignature/v1\ntime "+strconv.FormatInt(at, 10)+"\n"), text...)
}

// timeSize is the length of the time before a signature, in bytes.
const timeSize = 8

// cutTime cuts the time, in seconds since 1970, from a cosignature.
func cutTime(signature []byte) (at int64, rest []byte, ok bool) {
	if len(signature) < timeSize {
		return 0, nil, false
	}
	at = int64(binary.BigEndian.Uint64(signature))
	return at, signature[timeSize:], at > 0
}

// cosigner signs as of a time (note.Signer).
type cosigner struct {
	*Key
	at int64 // seconds since 1970
}

// Sign cosigns a note's text.
func (c cosigner) Sign(text []byte) ([]byte, error) {
	return append(binary.BigEndian.AppendUint64(nil, uint64(c.at)), ed25519.Sign(c.private, signed(c.at, text))...), nil
}
