package answer

import "strings"

// Form is the format of the answer to a list of rows.
type Form int

// The forms. JSON is a page; the others are the whole list.
const (
	JSON Form = iota
	NDJSON
	CSV
)

// Media types of the forms that are the whole list.
const (
	TypeNDJSON = "application/x-ndjson"
	TypeCSV    = "text/csv"
)

// ContentType returns the value of Content-Type.
func (f Form) ContentType() string {
	switch f {
	case NDJSON:
		return TypeNDJSON
	case CSV:
		return TypeCSV + "; charset=utf-8; header=present"
	case JSON:
	}
	return "application/json"
}

// AcceptedForm reads Accept (RFC 9110, 12.5.1) for a list of rows. The form with the highest weight
// wins. A wildcard stands for JSON alone, so a caller gets a whole list only if it names the form.
// At equal weights a name beats a wildcard, and JSON beats the other forms. A caller that accepts
// none of the forms gets JSON, as it does from all other endpoints.
func AcceptedForm(headers []string) Form {
	var ranges [CSV + 1]mediaRange
	for _, header := range headers {
		for item := range splitQuoted(header, ',') {
			name, weight := parseWeighted(item)
			form, specific := formOf(strings.ToLower(name))
			if specific == 0 || form != JSON && !hasKnownParameters(item) {
				continue
			}
			if r := &ranges[form]; specific > r.specific || specific == r.specific && weight > r.weight {
				*r = mediaRange{specific, weight}
			}
		}
	}
	best := JSON
	for _, form := range [...]Form{NDJSON, CSV} {
		if ranges[form].before(ranges[best]) {
			best = form
		}
	}
	return best
}

// mediaRange is the range in Accept that decides about a form: how specific it is (0: there is
// none) and its weight.
type mediaRange struct {
	specific int
	weight   float64
}

func (r mediaRange) before(other mediaRange) bool {
	if r.weight != other.weight {
		return r.weight > other.weight
	}
	return r.weight > 0 && r.specific > other.specific
}

// formOf returns the form that a media range stands for and how specific the range is; 0: it stands
// for no form.
func formOf(name string) (form Form, specific int) {
	switch name {
	case "*/*":
		return JSON, 1
	case "application/*":
		return JSON, 2
	case "application/json":
		return JSON, 3
	case TypeNDJSON:
		return NDJSON, 3
	case TypeCSV:
		return CSV, 3
	}
	return JSON, 0
}

// hasKnownParameters reports whether a range asks for what the service writes: UTF-8, with
// a header row.
func hasKnownParameters(item string) bool {
	_, parameters, _ := strings.Cut(item, ";")
	for p := range splitQuoted(parameters, ';') {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "", "q":
		case "charset":
			if !strings.EqualFold(value, "utf-8") {
				return false
			}
		case "header":
			if !strings.EqualFold(value, "present") {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// splitQuoted splits at a separator outside quoted strings.
func splitQuoted(text string, separator byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		begin, quoted := 0, false
		for i := 0; i < len(text); i++ {
			switch c := text[i]; {
			case c == '"':
				quoted = !quoted
			case quoted && c == '\\':
				i++
			case c == separator && !quoted:
				if !yield(text[begin:i]) {
					return
				}
				begin = i + 1
			}
		}
		yield(text[begin:])
	}
}
