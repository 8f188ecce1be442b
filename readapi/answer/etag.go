package answer

import "strings"

// etag is the strong ETag of a representation: each encoding of an answer has its
// own.
func etag(tag string, e Encoding) string {
	if e == Identity {
		return `"` + tag + `"`
	}
	return `"` + tag + "-" + e.name() + `"`
}

// matches compares weakly, as If-None-Match requires, with a list of ETags, or *.
func matches(list, current string) bool {
	for list = strings.TrimLeft(list, " \t,"); list != ""; list = strings.TrimLeft(list, " \t,") {
		if list[0] == '*' {
			return true
		}
		list = strings.TrimPrefix(list, "W/")
		if list == "" || list[0] != '"' {
			return false // not a list of ETags
		}
		end := strings.IndexByte(list[1:], '"')
		if end < 0 {
			return false
		}
		if list[:end+2] == current {
			return true
		}
		list = list[end+2:]
	}
	return false
}
