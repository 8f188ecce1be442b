package readapi

import (
	"iter"
	"net/url"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// queryPair is one parameter as a query gives it.
type queryPair struct {
	name, value string
	decoded     bool // false: cannot be decoded; name is as it came
}

// queryPairs splits a query. Unlike url.ParseQuery it leaves nothing out: what
// cannot be decoded is reported, and a semicolon is an ordinary character.
func queryPairs(query string) iter.Seq[queryPair] {
	return func(yield func(queryPair) bool) {
		for part := range strings.SplitSeq(query, "&") {
			if part == "" {
				continue
			}
			rawName, rawValue, _ := strings.Cut(part, "=")
			name, err1 := url.QueryUnescape(rawName)
			value, err2 := url.QueryUnescape(rawValue)
			pair := queryPair{name: name, value: value, decoded: err1 == nil && err2 == nil}
			if !pair.decoded {
				pair.name = rawName
			}
			if !yield(pair) {
				return
			}
		}
	}
}

// isKeyName knows the names of query parameters that nobody would give but to
// send a key (docs/contract/decisions.md, "Requests", 2).
func isKeyName(name string) bool {
	switch strings.ToLower(name) {
	case "api_key", "apikey", "key", "token", "access_token", "auth", "authorization":
		return true
	}
	return false
}

// maxUnescapes is how often an address is decoded in the search for a key: once
// as the server does, and again for clients and proxies that encode what is
// encoded already.
const maxUnescapes = 3

// keyFinder finds keys where they must not be.
type keyFinder struct {
	format access.Format
	brand  string // in small letters; every key begins with it, in some case
}

// inAddress reports whether an address holds a key: a parameter of a telling
// name, or anything in the form of a key, in whatever way it is encoded.
func (f *keyFinder) inAddress(uri, query string) bool {
	for pair := range queryPairs(query) {
		name := pair.name
		if !pair.decoded {
			name = unescapeLoosely(name)
		}
		if isKeyName(name) {
			return true
		}
	}
	for range maxUnescapes {
		if f.inText(uri) {
			return true
		}
		decoded := unescapeLoosely(uri)
		if decoded == uri {
			return false
		}
		uri = decoded
	}
	return f.inText(uri)
}

// inText looks for the brand first, which spares nearly every text the slower
// search for the form.
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
