package readapi

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// isKeyName reports whether a query parameter of this name can only be meant for a
// key (docs/contract/decisions.md, "Requests", 2).
func isKeyName(name string) bool {
	switch strings.ToLower(name) {
	case "api_key", "apikey", "key", "token", "access_token", "auth", "authorization":
		return true
	}
	return false
}

// maxUnescapes is how often a URL is decoded in the search for a key: once as the
// server does, and again for clients and proxies that encode what is already
// encoded.
const maxUnescapes = 3

// keyFinder finds keys in places where they must not be.
type keyFinder struct {
	format access.Format
	brand  string // in lower case; every key begins with it, in upper or lower case
}

// inURL reports whether a URL holds a key: a parameter named like one, or any text in the form of a
// key, however it is encoded.
func (f *keyFinder) inURL(uri, query string) bool {
	for pair := range queryPairs(query) {
		name := pair.name
		if !pair.decoded {
			name = unescapeLoosely(name)
		}
		if isKeyName(name) {
			return true
		}
	}
	return f.inEncoded(uri)
}

// inEncoded is inText for a text that may be encoded, even several times.
func (f *keyFinder) inEncoded(s string) bool {
	for range maxUnescapes {
		if f.inText(s) {
			return true
		}
		decoded := unescapeLoosely(s)
		if decoded == s {
			return false
		}
		s = decoded
	}
	return f.inText(s)
}

// heldKey replaces a text that held a key in the request log.
const heldKey = "[held an API key]"

// bounded returns a caller's text as the request log keeps it: valid UTF-8 without control
// characters, cut to at most limit bytes with an ellipsis. A text that holds a key, or part of the
// request's own key, becomes heldKey. The result shares no memory with s.
func (f *keyFinder) bounded(s string, limit int, own ownKey) string {
	const ellipsis = "…"
	if f.inEncoded(s) || own.in(s) {
		return heldKey
	}
	if len(s) > limit {
		s = s[:limit-len(ellipsis)] + ellipsis
	}
	return strings.Clone(strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '?'
		case unicode.IsControl(r):
			return ' '
		}
		return r
	}, s))
}

// inText reports whether a text holds a key. It looks for the brand first, because searching for
// the form of a key is slower and hardly any text holds the brand.
func (f *keyFinder) inText(s string) bool {
	for i := 0; i+len(f.brand) <= len(s); i++ {
		if s[i]|0x20 == f.brand[0] && strings.EqualFold(s[i:i+len(f.brand)], f.brand) {
			return f.format.LooksLikeKey(s[i:])
		}
	}
	return false
}

// unescapeLoosely decodes the valid escapes and leaves everything else as it is.
func unescapeLoosely(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			b.WriteByte(unhex(s[i+1])<<4 | unhex(s[i+2]))
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// keyInfo is the body of /v1/me (docs/contract/service.md, "Key information").
type keyInfo struct {
	Company struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"company"`
	Key struct {
		Name   string `json:"name"`
		Prefix string `json:"prefix"`
	} `json:"key"`
	Scopes             []string `json:"scopes"`
	RateLimitPerMinute int      `json:"rate_limit_per_minute"`
}

// answerKeyInfo answers with information about the request's key.
func answerKeyInfo(q *request) error {
	var info keyInfo
	info.Company.ID, info.Company.Name = q.key.WorkspaceID, q.key.WorkspaceName
	info.Key.Name, info.Key.Prefix = q.key.Name, q.key.Prefix
	info.Scopes = q.key.Permissions.Strings()
	info.RateLimitPerMinute = q.key.RateLimit
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(info); err != nil {
		return fmt.Errorf("write the key information: %w", err)
	}
	q.rows = 1
	body := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return q.answerWith(body, version{name: "me " + string(body), position: noPosition}) // the body itself is the only sign of a change
}

// answerDocument answers with the OpenAPI document.
func answerDocument(q *request) error {
	return q.answerWith(q.api.document, version{name: "document", position: noPosition})
}

// ownKey finds a request's key in the request's other texts, even encoded, in part, cut into pieces
// or without its brand. The request log keeps those texts, and every viewer can read it.
type ownKey struct{ secret string } // the letters and digits after the prefix, in lower case; empty: there is no key to find

// ownPart is how many consecutive characters of the secret count as a leak. A text with fewer
// leaves the secret too long to guess.
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

// mostSearched is how much of a text is searched, in bytes: several times what the request log
// keeps.
const mostSearched = 2 << 10

// in reports whether the part of a text that may be kept holds the key or a part of it.
func (k ownKey) in(text string) bool {
	return k.secret != "" && k.search(text[:min(len(text), mostSearched)], maxUnescapes)
}

// search looks for the key in the text and in everything that the text may decode to, up to depth
// decodings.
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

// inPlain reports whether a text holds a part of the secret, ignoring everything but letters and
// digits.
func (k ownKey) inPlain(text string) bool {
	text = lettersAndDigits(text)
	for i := 0; i+ownPart <= len(k.secret) && len(text) >= ownPart; i++ {
		if strings.Contains(text, k.secret[i:i+ownPart]) {
			return true
		}
	}
	return false
}

// lettersAndDigits returns the ASCII letters and digits of a text, in lower case.
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

// decodings returns what parts of a text may decode to, as base64 in either alphabet and as
// hexadecimal digits. An encoded text can begin anywhere in a run of such characters.
func decodings(text string) (list []string) {
	for run := range strings.FieldsFuncSeq(text, func(r rune) bool { return !isBase64(r) }) {
		run = strings.NewReplacer("-", "+", "_", "/").Replace(run)
		for begin := 0; begin < 4 && begin+ownPart <= len(run); begin++ {
			part := run[begin:]
			if len(part)%4 == 1 { // base64 never has this length
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
