package signingkey

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Verifiers holds the verifier keys to check notes with.
type Verifiers struct{ list []note.Verifier }

// ParseVerifiers reads verifier keys, one per line, as in /docs/keys.txt. It skips blank lines and
// lines that begin with #. The error names the line.
func ParseVerifiers(text string) (*Verifiers, error) {
	v := &Verifiers{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "PRIVATE+KEY+") {
			return nil, fmt.Errorf("line %d is a signing key, which is secret: want the verifier key that belongs to it", n)
		}
		key, err := note.NewVerifier(line)
		if err != nil {
			return nil, fmt.Errorf("line %d is no verifier key (%w): want NAME+HASH+KEY, as on /docs/keys", n, err)
		}
		// Repeated keys count once.
		if !slices.ContainsFunc(v.list, func(have note.Verifier) bool { return have.Name() == key.Name() && have.KeyHash() == key.KeyHash() }) {
			v.list = append(v.list, key)
		}
	}
	if len(v.list) == 0 {
		return nil, errors.New("there is no verifier key: want NAME+HASH+KEY, as on /docs/keys")
	}
	return v, nil
}

// Checked is a note with a valid signature.
type Checked struct {
	Name string // of the keys that signed it
	Text string
	By   []string // the keys among the Verifiers that signed it: <name>+<hash>
}

// MaxNote bounds a note, in bytes.
const MaxNote = 1_000_000

// ReadNote reads a note that a Windows editor may have saved. It removes a byte order mark and
// turns CR LF into LF, which is safe because notes have no control characters except LF.
func ReadNote(in io.Reader) ([]byte, error) {
	signed, err := io.ReadAll(texts.NewReader(io.LimitReader(in, MaxNote+1)))
	if err != nil {
		return nil, fmt.Errorf("cannot read the note: %w", err)
	}
	return bytes.ReplaceAll(signed, []byte("\r\n"), []byte("\n")), nil
}

// Check checks that at least one of the keys signed a note and that the text begins with that key's
// name. It ignores signatures of other keys, as it has to.
func (v *Verifiers) Check(signed []byte) (*Checked, error) {
	if len(signed) > MaxNote {
		return nil, fmt.Errorf("the note is too long: %d bytes, of at most %d", len(signed), MaxNote)
	}
	n, err := note.Open(signed, note.VerifierList(v.list...))
	var (
		invalid    *note.InvalidSignatureError
		unverified *note.UnverifiedNoteError
	)
	switch {
	case errors.As(err, &invalid):
		return nil, fmt.Errorf("the signature of %s+%08x is wrong: the note is not what was signed", invalid.Name, invalid.Hash)
	case errors.As(err, &unverified):
		return nil, fmt.Errorf("none of the keys signed the note; it says that these did: %s", signatures(unverified.Note.UnverifiedSigs))
	case err != nil:
		return nil, fmt.Errorf("it is no signed note: %w", err)
	}
	c := &Checked{Text: n.Text}
	for _, s := range n.Sigs {
		// Package note also accepts other base64 forms of the same bytes.
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil {
			return nil, fmt.Errorf("the signature of %s+%08x has been changed", s.Name, s.Hash)
		}
		if !strings.HasPrefix(n.Text, s.Name+"\n") {
			return nil, fmt.Errorf("the note is signed by %s, and its first line is not that name", s.Name)
		}
		c.Name = s.Name
		c.By = append(c.By, fmt.Sprintf("%s+%08x", s.Name, s.Hash))
	}
	return c, nil
}

func signatures(list []note.Signature) string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = fmt.Sprintf("%s+%08x", s.Name, s.Hash)
	}
	return strings.Join(names, ", ")
}
