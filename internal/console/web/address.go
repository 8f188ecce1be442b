package web

import (
	"net/url"
	"strings"
)

// Local returns an address of this console as it is, and "/" for any other, so
// that a link cannot redirect to another site.
func Local(address string) string {
	if !strings.HasPrefix(address, "/") || strings.HasPrefix(address, "//") || strings.ContainsAny(address, "\\\r\n\t") {
		return "/"
	}
	return address
}

// Address is a path with those parameters that have a value: name, value, name,
// value, and so on.
func Address(path string, parameters ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(parameters); i += 2 {
		if parameters[i+1] != "" {
			v.Set(parameters[i], parameters[i+1])
		}
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// Pager is the addresses of the pages around one of a list; empty where there is
// none.
type Pager struct {
	Newest, Newer, Older string

	Showing string // which of the list the page has, such as "1–25 of 10,000+"; empty: not told
}

// Pair is a name and a value in a list.
type Pair struct{ Name, Value string }
