package readapi

import (
	"iter"
	"net/url"
	"strings"
)

// queryPair is one parameter of a query.
type queryPair struct {
	name, value string
	decoded     bool // false: it cannot be decoded, and name is as it came
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
