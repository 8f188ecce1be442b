package answer

import (
	"bytes"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// The rows of the read tables are JSON that this program wrote, without white space between tokens.
// The functions below only find where its values end.

var errForm = errors.New("it is not compact JSON")

// cutString cuts a string off, with its quotation marks.
func cutString(json []byte) (text, rest []byte, err error) {
	if len(json) == 0 || json[0] != '"' {
		return nil, nil, errForm
	}
	for i := 1; ; {
		mark := bytes.IndexByte(json[i:], '"')
		if mark < 0 {
			return nil, nil, errForm
		}
		// Most strings have no backslash.
		escape := bytes.IndexByte(json[i:i+mark], '\\')
		if escape < 0 {
			return json[:i+mark+1], json[i+mark+1:], nil
		}
		if i += escape + 2; i > len(json) {
			return nil, nil, errForm
		}
	}
}

// cutValue cuts any value off.
func cutValue(json []byte) (value, rest []byte, err error) {
	rest, depth := json, 0
	for len(rest) > 0 {
		switch rest[0] {
		case '"':
			if _, rest, err = cutString(rest); err != nil {
				return nil, nil, err
			}
		case '{', '[':
			depth++
			rest = rest[1:]
			continue
		case '}', ']':
			depth--
			rest = rest[1:]
		case ',', ':':
			rest = rest[1:]
			continue
		default:
			n := 1
			for n < len(rest) && !isPunctuation(rest[n]) {
				n++
			}
			rest = rest[n:]
		}
		if depth <= 0 {
			break
		}
	}
	if depth != 0 || len(rest) == len(json) {
		return nil, nil, errForm
	}
	return json[:len(json)-len(rest)], rest, nil
}

func isPunctuation(c byte) bool {
	switch c {
	case ',', ':', '{', '}', '[', ']', '"':
		return true
	}
	return false
}

// appendText appends the text of a string that cutString has cut off.
func appendText(b, quoted []byte) ([]byte, error) {
	text := quoted[1 : len(quoted)-1]
	for {
		n := bytes.IndexByte(text, '\\')
		if n < 0 {
			return append(b, text...), nil
		}
		b, text = append(b, text[:n]...), text[n+1:]
		if len(text) == 0 {
			return b, errForm
		}
		escape := text[0]
		text = text[1:]
		switch escape {
		case '"', '\\', '/':
			b = append(b, escape)
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			var c rune
			if c, text = cutCode(text); c < 0 {
				return b, errForm
			}
			b = utf8.AppendRune(b, c)
		default:
			return b, errForm
		}
	}
}

// cutCode reads the digits of an escaped character, and the second half of a surrogate pair. c is
// below 0 if the digits are missing or wrong.
func cutCode(text []byte) (c rune, rest []byte) {
	c, rest = cutHex(text)
	if !utf16.IsSurrogate(c) || len(rest) < 2 || rest[0] != '\\' || rest[1] != 'u' {
		return c, rest
	}
	low, after := cutHex(rest[2:])
	if pair := utf16.DecodeRune(c, low); pair != utf8.RuneError {
		return pair, after
	}
	return c, rest
}

func cutHex(text []byte) (c rune, rest []byte) {
	if len(text) < 4 {
		return -1, text
	}
	for _, d := range text[:4] {
		switch {
		case '0' <= d && d <= '9':
			c = c<<4 | rune(d-'0')
		case 'a' <= d|0x20 && d|0x20 <= 'f':
			c = c<<4 | rune(d|0x20-'a'+10)
		default:
			return -1, text
		}
	}
	return c, text[4:]
}
