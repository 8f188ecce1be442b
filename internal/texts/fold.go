package texts

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// Fold returns a text without capitals, accents and double spaces, and with plain apostrophes and
// hyphens. Two texts are alike if this is the same: people take them for the same when they search.
func Fold(text string) string { return strings.Join(strings.Fields(folded(text)), " ") }

// folded is Fold with the spaces of the text.
func folded(text string) string {
	plain, _, err := transform.String(transform.Chain(norm.NFKD, runes.Remove(runes.In(unicode.Mn)), cases.Fold(), runes.Map(punctuation), norm.NFC), text)
	if err != nil {
		return text // not reached: none of them refuses a text
	}
	return plain
}

func punctuation(r rune) rune {
	switch r {
	case '‘', '’', 'ʼ', '´', '`':
		return '\''
	case '‐', '‑', '‒', '–', '—', '−':
		return '-'
	}
	return r
}

// Pattern returns a regular expression of PostgreSQL that finds texts with something like text in them.
// It says itself which letters are alike, because a database's locale may know those of ASCII alone.
func Pattern(text string) string {
	alike := alike()
	var b strings.Builder
	literal := func(r rune) {
		if r < utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	for _, r := range Fold(text) {
		if r == ' ' {
			b.WriteString(` +`)
			continue
		}
		if len(alike[r]) > 1 {
			b.WriteByte('[')
			for _, one := range alike[r] {
				literal(one)
			}
			b.WriteByte(']')
		} else {
			literal(r)
		}
		b.WriteString(accents)
	}
	return b.String()
}

// accents matches the accents of a letter that are characters of their own.
const accents = `[\u0300-\u036f]*`

// alike returns the characters that are alike, by what Fold makes of them: those of the alphabets that
// have capitals or accents.
func alike() map[rune][]rune {
	var (
		characters []rune
		text       strings.Builder
	)
	for _, block := range []struct{ first, last rune }{
		{'!', 'ʼ'},       // Latin
		{0x370, 0x52f},   // Greek, Cyrillic
		{0x531, 0x587},   // Armenian
		{0x1e00, 0x1fff}, // more of Latin and Greek
		{'‐', '−'},       // punctuation
		{'！', '～'},       // of full width
	} {
		for r := block.first; r <= block.last; r++ {
			characters = append(characters, r)
			text.WriteRune(r)
			text.WriteByte(0)
		}
	}
	all := map[rune][]rune{}
	for i, one := range strings.Split(strings.TrimSuffix(folded(text.String()), "\x00"), "\x00") { // at once, because each call costs
		if plain, size := utf8.DecodeRuneInString(one); size > 0 && size == len(one) && !unicode.IsSpace(plain) {
			all[plain] = append(all[plain], characters[i])
		}
	}
	return all
}
