package eventlog

import (
	"encoding/json"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// leastDigits is how many digits of a phone number a search needs: fewer are found in too many.
const leastDigits = 5

// searchFor returns a function that says whether a text is in a detached value: in one of its texts, or
// in the first and last name of a contact together. It does not search in the database, whose locale may
// know letters of ASCII alone.
func searchFor(text string) func(value string) bool {
	plain, digits := texts.Fold(text), digitsOf(text)
	isPhone := len(digits) >= leastDigits && strings.Trim(text, "0123456789+-/.() ") == ""
	return func(value string) bool {
		var members map[string]json.RawMessage
		if json.Unmarshal([]byte(value), &members) != nil {
			return false // the database accepts nothing else
		}
		for _, one := range textsOf(members) {
			if strings.Contains(texts.Fold(one), plain) || isPhone && strings.Contains(digitsOf(one), digits) {
				return true
			}
		}
		return false
	}
}

// textsOf returns the texts of an object and of the objects in it, without the names of members.
func textsOf(object map[string]json.RawMessage) (all []string) {
	member := func(name string) (text string) {
		_ = json.Unmarshal(object[name], &text) // empty: it is no text
		return text
	}
	for name, value := range object {
		var list []map[string]json.RawMessage
		if text := member(name); text != "" {
			all = append(all, text)
		} else if json.Unmarshal(value, &list) == nil {
			for _, one := range list {
				all = append(all, textsOf(one)...)
			}
		}
	}
	if first, last := member("first_name"), member("last_name"); first != "" && last != "" {
		all = append(all, first+" "+last, last+" "+first)
	}
	return all
}

func digitsOf(text string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, text)
}
