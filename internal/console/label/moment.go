package label

import (
	"regexp"
	"time"
)

// Part is a piece of a text: words, or a moment.
type Part struct {
	Text string
	At   time.Time // zero: it is words
}

var momentPattern = regexp.MustCompile(`\d{1,2} [A-Z][a-z]+ \d{4}, \d\d:\d\d UTC|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z`)

// Moments splits a text, so that the moments in it can be shown in the reader's zone.
func Moments(text string) []Part {
	var parts []Part
	done := 0
	for _, found := range momentPattern.FindAllStringIndex(text, -1) {
		at := moment(text[found[0]:found[1]])
		if at.IsZero() {
			continue // it only looks like one
		}
		if found[0] > done {
			parts = append(parts, Part{Text: text[done:found[0]]})
		}
		parts, done = append(parts, Part{At: at}), found[1]
	}
	if done < len(text) {
		parts = append(parts, Part{Text: text[done:]})
	}
	return parts
}

// moment reads a moment as the notices of webhooks and the audit trail write it; zero:
// it is none.
func moment(text string) time.Time {
	for _, layout := range []string{"2 January 2006, 15:04 UTC", time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	return time.Time{}
}
