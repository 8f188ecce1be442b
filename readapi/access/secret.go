package access

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"regexp"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
)

// errMalformed means that a text is not a key: it has another form, or its
// checksum is wrong, as after a mistyped character. The error does not say which.
var errMalformed = errors.New("the text is not an API key")

const (
	digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	prefixLength   = 8
	secretLength   = 32 // 190 bits, made; longer ones are read
	checksumLength = 6  // 62^6 > 2^32, so a CRC-32 fits
	maxKeyLength   = 256
	hidden         = "[redacted]"
)

// Format is how the keys of one brand are written (docs/contract/decisions.md, "Keys"):
//
//	<brand lower-case>_<8 characters prefix>_<32 or more characters secret><6 characters checksum>
//
// all but the brand in base62 (0-9, A-Z, a-z). The checksum is the CRC-32 (IEEE)
// of everything before it, in base62, highest digit first. It finds every mistyped
// character; it proves nothing, because anybody can compute it. A Format comes from
// NewFormat and may be used by any number of goroutines.
type Format struct {
	brand  string
	anyKey *regexp.Regexp
}

// NewFormat returns the format of a brand's keys. The brand's case does not
// matter.
func NewFormat(name brand.Brand) Format {
	prefix := name.KeyPrefix()
	// Redaction finds more than parse accepts: the brand in any case, and underscores as
	// a URL may encode them.
	const underscore = `(?:_|%5[Ff])`
	// What follows without a gap is redacted too: it may be the next key.
	pattern := fmt.Sprintf(`((?i:%s)%s[0-9A-Za-z]{%d}%s)[0-9A-Za-z]{%d}(?:[0-9A-Za-z_-]|%%5[Ff])*`,
		regexp.QuoteMeta(prefix), underscore, prefixLength, underscore, secretLength+checksumLength)
	return Format{brand: prefix, anyKey: regexp.MustCompile(pattern)}
}

// Generate makes a new secret from random, which must be a cryptographic source
// such as crypto/rand.Reader. The error is random's.
func (f Format) Generate(random io.Reader) (Secret, error) {
	characters := make([]byte, prefixLength+secretLength)
	if err := fillBase62(characters, random); err != nil {
		return Secret{}, fmt.Errorf("make a key: %w", err)
	}
	body := f.brand + "_" + string(characters[:prefixLength]) + "_" + string(characters[prefixLength:])
	return f.secretOf(body + checksum(body)), nil
}

// parse reads the text of a key. The error is errMalformed, for every reason.
func (f Format) parse(text string) (Secret, error) {
	body, ok := f.cut(text)
	if !ok || text[len(body):] != checksum(body) {
		return Secret{}, errMalformed
	}
	return f.secretOf(text), nil
}

// cut returns what the checksum is of, if text has the form of a key.
func (f Format) cut(text string) (body string, ok bool) {
	if len(text) > maxKeyLength {
		return "", false
	}
	rest, ok := strings.CutPrefix(text, f.brand+"_")
	if !ok || len(rest) < prefixLength+1+secretLength+checksumLength || rest[prefixLength] != '_' {
		return "", false
	}
	if !isBase62(rest[:prefixLength]) || !isBase62(rest[prefixLength+1:]) {
		return "", false
	}
	return text[:len(text)-checksumLength], true
}

// LooksLikeKey reports whether a part of text has the form of a key, whether or not the
// checksum is right. It is for refusing keys in URLs (docs/contract/decisions.md,
// "Requests", 2): pass it decoded query values and path segments.
func (f Format) LooksLikeKey(text string) bool {
	return f.mayHoldKey(text) && f.anyKey.MatchString(text)
}

// Redact replaces the secret of everything in text that has the form of a key by
// "[redacted]". Brand and public prefix stay, so that a log still says which key it
// was.
func (f Format) Redact(text string) string {
	if !f.mayHoldKey(text) {
		return text
	}
	return f.anyKey.ReplaceAllString(text, "${1}"+hidden)
}

// mayHoldKey rules out texts that are shorter than a key, which nearly all are, without
// the regular expression. The zero Format finds nothing.
func (f Format) mayHoldKey(text string) bool {
	return f.anyKey != nil && len(text) >= len(f.brand)+1+prefixLength+1+secretLength+checksumLength
}

// Secret is the full text of a key. When it is printed or logged it shows only its
// public part; Reveal returns the text.
type Secret struct {
	text         string
	prefixLength int
}

func (f Format) secretOf(text string) Secret {
	return Secret{text: text, prefixLength: len(f.brand) + 1 + prefixLength}
}

// Reveal returns the full text, for the one time that it is shown to the user.
func (s Secret) Reveal() string { return s.text }

// Prefix is the public beginning: brand, underscore and 8 characters.
func (s Secret) Prefix() string { return s.text[:s.prefixLength] }

// Hash is the SHA-256 of the full text, the only form that is stored.
func (s Secret) Hash() [sha256.Size]byte { return sha256.Sum256([]byte(s.text)) }

// String shows the prefix alone.
func (s Secret) String() string { return s.Prefix() + "_" + hidden }

// GoString keeps %#v from showing the text.
func (s Secret) GoString() string { return "access.Secret(" + s.String() + ")" }

// MarshalText keeps JSON and structured logs from showing the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// checksum is the CRC-32 of body in base62.
func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	var out [checksumLength]byte
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = digits[sum%62]
		sum /= 62
	}
	return string(out[:])
}

// fillBase62 makes every digit equally likely: it drops bytes of 248 and more, because
// 248 is the highest multiple of 62 in a byte.
func fillBase62(dst []byte, random io.Reader) error {
	buf := make([]byte, len(dst)+len(dst)/4)
	for filled := 0; filled < len(dst); {
		if _, err := io.ReadFull(random, buf); err != nil {
			return fmt.Errorf("read random bytes: %w", err)
		}
		for _, b := range buf {
			if b < 248 && filled < len(dst) {
				dst[filled] = digits[b%62]
				filled++
			}
		}
	}
	return nil
}

func isBase62(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
