package readapi

import (
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

// inURL reports whether a URL holds a key: a parameter with a name for one, or
// anything in the form of a key, however it is encoded.
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

// inEncoded is inText for a text that may be encoded, also more than once.
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

// heldKey stands in the request log for a text that held a key.
const heldKey = "[held an API key]"

// bounded returns a text of the caller's as the request log keeps it: at most limit
// bytes of valid UTF-8 without control characters, of which a longer one ends with an
// ellipsis, and nothing of a text that holds a key, or a part of that of the request. The result
// shares no memory with s.
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

// inText looks for the brand first, because searching for the form of a key is
// slower and nearly no text holds the brand.
func (f *keyFinder) inText(s string) bool {
	for i := 0; i+len(f.brand) <= len(s); i++ {
		if s[i]|0x20 == f.brand[0] && strings.EqualFold(s[i:i+len(f.brand)], f.brand) {
			return f.format.LooksLikeKey(s[i:])
		}
	}
	return false
}

// unescapeLoosely decodes what can be decoded and leaves the rest.
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
