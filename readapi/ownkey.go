package readapi

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// ownKey finds the key of a request in other texts of it, also without its brand, in part, cut into
// pieces, or encoded. The request log keeps such texts, and every viewer reads it.
type ownKey struct{ secret string } // the letters and digits behind the prefix, in lower case; empty: there are none

// ownPart is how many characters of the secret in a row a text must not have. What is left of a
// secret without them is still too long to be guessed.
const ownPart = 16

// newOwnKey reads the key from a request's header.
func newOwnKey(authorization []string) ownKey {
	text := bearerToken(authorization)
	secret := lettersAndDigits(text[strings.LastIndexByte(text, '_')+1:])
	if len(secret) < ownPart {
		return ownKey{}
	}
	return ownKey{secret}
}

// mostSearched is how much of a text is searched, in bytes: several times what the request log keeps.
const mostSearched = 2 << 10

// in reports whether what may be kept of a text holds the key or a part of it.
func (k ownKey) in(text string) bool {
	return k.secret != "" && k.search(text[:min(len(text), mostSearched)], maxUnescapes)
}

// search looks at the text as it is and at everything that it may be an encoding of.
func (k ownKey) search(text string, depth int) bool {
	if k.inPlain(text) {
		return true
	}
	if depth == 0 {
		return false
	}
	if decoded := unescapeLoosely(text); decoded != text && k.search(decoded, depth-1) {
		return true
	}
	for _, decoded := range decodings(text) {
		if k.search(decoded, depth-1) {
			return true
		}
	}
	return false
}

// inPlain looks for a part of the secret, whatever stands between its characters.
func (k ownKey) inPlain(text string) bool {
	text = lettersAndDigits(text)
	for i := 0; i+ownPart <= len(k.secret) && len(text) >= ownPart; i++ {
		if strings.Contains(text, k.secret[i:i+ownPart]) {
			return true
		}
	}
	return false
}

// lettersAndDigits is what is left of a text without all else, in lower case.
func lettersAndDigits(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, text)
}

// decodings are what the parts of a text may be encodings of: of base64, in either alphabet, which can
// begin anywhere in a run of its characters, and of hexadecimal digits.
func decodings(text string) (list []string) {
	for run := range strings.FieldsFuncSeq(text, func(r rune) bool { return !isBase64(r) }) {
		run = strings.NewReplacer("-", "+", "_", "/").Replace(run)
		for begin := 0; begin < 4 && begin+ownPart <= len(run); begin++ {
			part := run[begin:]
			if len(part)%4 == 1 { // as much as no text has
				part = part[:len(part)-1]
			}
			if decoded, err := base64.RawStdEncoding.DecodeString(part); err == nil {
				list = append(list, string(decoded))
			}
		}
	}
	for run := range strings.FieldsFuncSeq(text, func(r rune) bool { return r > 'f' || !isHex(byte(r)) }) {
		for begin := 0; begin < 2 && begin+2*ownPart <= len(run); begin++ {
			part := run[begin:]
			if decoded, err := hex.DecodeString(part[:len(part)&^1]); err == nil {
				list = append(list, string(decoded))
			}
		}
	}
	return list
}

// isBase64 reports whether a character occurs in base64.
func isBase64(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '+', r == '/', r == '-', r == '_':
		return true
	}
	return false
}
