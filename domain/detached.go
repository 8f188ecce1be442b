package domain

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The fields of an entry that are about people are detached: they are kept next to the log, and the
// stored form, which the chain covers, only commits to them. So they can be forgotten while the log
// stays as it is and proves itself (docs/contract/log.md, "Detached fields").

// Salt makes the commitment to a detached value useless for guessing the value: without the salt,
// not even a short text can be tried out.
type Salt [sha256.Size]byte

// String returns the salt as exports have it: base64url without padding.
func (s Salt) String() string { return base64.RawURLEncoding.EncodeToString(s[:]) }

// IsZero reports whether there is no salt.
func (s Salt) IsZero() bool { return s == Salt{} }

// ParseSalt reads a salt as String writes it.
func ParseSalt(text string) (s Salt, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != len(s) {
		return s, false
	}
	return Salt(b), true
}

// A stored form with a commitment ends with these texts around it.
const (
	commitmentBegin = `,"~":"`
	commitmentEnd   = `"}`
)

var (
	commitmentLength = base64.RawURLEncoding.EncodedLen(sha256.Size)
	commitmentTail   = len(commitmentBegin) + commitmentLength + len(commitmentEnd)
)

// CutCommitment splits a stored form into the data without the detached fields and the commitment
// to these. The commitment is empty if the form has none.
func CutCommitment(stored string) (open, commitment string) {
	at := len(stored) - commitmentTail
	if at < 0 || !strings.HasPrefix(stored[at:], commitmentBegin) || !strings.HasSuffix(stored, commitmentEnd) {
		return stored, ""
	}
	commitment = stored[at+len(commitmentBegin) : len(stored)-len(commitmentEnd)]
	if _, err := base64.RawURLEncoding.DecodeString(commitment); err != nil {
		return stored, ""
	}
	return stored[:at] + "}", commitment
}

// withCommitment is the reverse of CutCommitment.
func withCommitment(open, commitment string) string {
	return strings.TrimSuffix(open, "}") + commitmentBegin + commitment + commitmentEnd
}

// Commitment returns what the stored form must say of the entry's detached value and its salt.
func (e *Entry) Commitment() string {
	b := make([]byte, 0, 128+len(e.Value))
	b = append(append(b, "ledgerfeed/detached/1\n"...), e.Salt[:]...)
	b = append(append(b, e.WorkspaceID...), '\n')
	b = append(append(b, e.ID...), '\n')
	sum := sha256.Sum256(append(b, e.Value...))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Subject returns whom the detached fields of the entry are about, if it has any: client:ID,
// contractor:ID, or both with a space between them. ok is false for an entry that this version cannot
// read.
func (e *Entry) Subject() (subject string, ok bool) {
	c := e.read()
	if c == nil {
		return "", false
	}
	refs := c.refs()
	var about []string
	if refs.ClientID != "" && e.Type != typeContractorRecorded {
		about = append(about, "client:"+refs.ClientID)
	}
	if refs.ContractorID != "" && (e.Type == typeContractorRecorded || e.Type == typeTimeEntryRecorded) {
		about = append(about, "contractor:"+refs.ContractorID)
	}
	return strings.Join(about, " "), true
}

// Forgotten reports whether the entry had detached fields that are not there.
func (e *Entry) Forgotten() bool {
	_, commitment := CutCommitment(e.Data)
	return commitment != "" && e.Value == ""
}

// Whole returns the data in canonical form as it was appended, without the fields that are
// forgotten.
func (e *Entry) Whole() string {
	open, _ := CutCommitment(e.Data)
	if e.Value == "" {
		return open
	}
	if c := e.read(); c != nil {
		return string(c.appendData(make([]byte, 0, len(open)+len(e.Value))))
	}
	// Only the catalogue knows the order of the fields.
	return strings.TrimSuffix(open, "}") + "," + strings.TrimPrefix(e.Value, "{")
}

// Forms returns the forms that the log must have stored for what it stored, by the rules of this
// version: the data without the detached fields, the detached value, and the public form, which is
// empty for internal types. readable is false for an entry that this version cannot read.
func (e *Entry) Forms() (open, value, public string, readable bool) {
	c := e.read()
	if c == nil {
		return "", "", "", false
	}
	b := c.appendOpen(make([]byte, 0, len(e.Data)))
	open = string(b)
	return open, string(c.appendValue(b[:0])), e.PublicEvent(), true
}

// LooksPersonal reports whether a text looks like a name (Ada-Moreau), an email address or a
// telephone number (+49 30 1234567).
func LooksPersonal(text string) bool {
	if strings.Contains(text, "@") {
		return true
	}
	if strings.HasPrefix(text, "+") {
		digits := strings.Trim(text, "+0123456789 ()/.-") == ""
		return digits && len(text) > len("+1234567")
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '-' || r == '_' || r == '.' })
	for _, w := range words {
		if !isProperNoun(w) {
			return false
		}
	}
	return len(words) > 1
}

// isProperNoun reports whether a word is a capital letter and small ones after it.
func isProperNoun(word string) bool {
	for i, r := range word {
		if unicode.IsUpper(r) != (i == 0) || !unicode.IsLetter(r) {
			return false
		}
	}
	return utf8.RuneCountInString(word) > 1
}
