package readapi

import (
	"math"
	"strconv"
	"strings"
)

// maxPrefer is the longest wait that a request may prefer, in seconds
// (docs/contract/decisions.md, "Waiting"). A longer one counts as this.
const maxPrefer = 30

// preferredWait reads wait=N of Prefer (RFC 7240), in seconds; 0: there is none. Only the
// first counts, and one of another form counts as none, as the RFC demands.
func preferredWait(headers []string) int {
	for _, header := range headers {
		for preference := range strings.SplitSeq(header, ",") {
			preference, _, _ = strings.Cut(preference, ";") // its parameters
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value = strings.TrimSpace(value)
			if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
				value = value[1 : len(value)-1]
			}
			seconds, ok := parsePosition(value)
			if !ok {
				return 0
			}
			return int(min(seconds, maxPrefer))
		}
	}
	return 0
}

// positionForm is the form of Log-Position-At-Least, for its callers.
const positionForm = "must be one position of the log: a whole number from 0 to 9223372036854775807, such as the Log-Position of an answer"

// requiredPosition reads Log-Position-At-Least; false: it has another form, or is given
// more than once. Without one it is 0, which every answer reaches.
func requiredPosition(headers []string) (int64, bool) {
	switch len(headers) {
	case 0:
		return 0, true
	case 1:
		return parsePosition(headers[0])
	}
	return 0, false
}

// parsePosition reads a whole number of 0 or more: digits alone, without leading zeros.
func parsePosition(s string) (int64, bool) {
	if s == "" || len(s) > len(strconv.Itoa(math.MaxInt64)) || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
