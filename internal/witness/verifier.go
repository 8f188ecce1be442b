package witness

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// algorithm is the byte before a key that stands for cosignature/v1 with Ed25519
// (https://c2sp.org/signed-note, "Signature types").
const algorithm = 4

// maxName bounds a key's name, in bytes.
const maxName = 255

func validName(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name) && !strings.Contains(name, "+") &&
		strings.IndexFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) < 0
}

func hexHash(hash uint32) string { return fmt.Sprintf("%08x", hash) }

// Verifier checks the cosignatures of a witness (note.Verifier).
type Verifier struct {
	name   string
	public ed25519.PublicKey
}

// ParseVerifier reads a witness's verifier key: NAME+HASH+KEY, with the algorithm byte 4 for
// cosignature/v1.
func ParseVerifier(text string) (*Verifier, error) {
	if strings.HasPrefix(text, "PRIVATE+KEY+") {
		return nil, errors.New("this is a witness's secret key: want the verifier key, which its operator publishes")
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
	return nil, fmt.Errorf("%.80q is no verifier key of a witness, or was changed or cut short: want NAME+HASH+KEY, as the witness's operator publishes it", text)
}

// Name is the key's name.
func (v *Verifier) Name() string { return v.name }

// KeyHash identifies the key together with its name.
func (v *Verifier) KeyHash() uint32 {
	sum := sha256.Sum256(append([]byte(v.name+"\n\x04"), v.public...))
	return binary.BigEndian.Uint32(sum[:])
}

// Verify checks a signature of a note's text. signature is the part after the key's hash.
func (v *Verifier) Verify(text, signature []byte) bool {
	at, rest, ok := cutTime(signature)
	signed := append([]byte("cosignature/v1\ntime "+strconv.FormatInt(at, 10)+"\n"), text...)
	return ok && len(rest) == ed25519.SignatureSize && ed25519.Verify(v.public, signed, rest)
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

// Named is a witness to ask for cosignatures: its key and its address.
type Named struct {
	Key *Verifier
	URL string
}

// ID names the witness's key: its name, a plus and the hash of the key, in hex.
func (n *Named) ID() string { return n.Key.Name() + "+" + hexHash(n.Key.KeyHash()) }

// List is a list of witnesses.
type List []Named

// UnmarshalText reads LEDGERFEED_WITNESSES: witnesses as VERIFIER-KEY=ADDRESS, separated by
// commas. A key may end with an equals sign itself.
func (l *List) UnmarshalText(text []byte) error {
	*l = nil
	known := map[string]bool{}
	for part := range strings.SplitSeq(string(text), ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		at := max(strings.LastIndex(part, "=https://"), strings.LastIndex(part, "=http://"))
		if at < 0 {
			return fmt.Errorf("witness %d: want VERIFIER-KEY=ADDRESS, with an address such as https://witness.example.com", len(*l)+1)
		}
		key, err := ParseVerifier(part[:at])
		if err != nil {
			return fmt.Errorf("witness %d: %w", len(*l)+1, err)
		}
		n := Named{key, part[at+1:]}
		if err := CheckURL(n.URL); err != nil {
			return fmt.Errorf("witness %d: %w", len(*l)+1, err)
		}
		if known[n.ID()] {
			return fmt.Errorf("witness %d: the key %s is given twice", len(*l)+1, n.ID())
		}
		known[n.ID()] = true
		*l = append(*l, n)
	}
	return nil
}
