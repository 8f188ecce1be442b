package witness

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/internal/tlogcheckpoint"
)

// maxProof is the most hashes of a proof: a tree of 2^63 leaves needs no more.
const maxProof = 63

// RefusedError is why a checkpoint is not cosigned.
type RefusedError struct {
	Status   int // of HTTP, as the form says
	Sentence string
	Known    int64 // with StatusConflict, the size of the tree that was cosigned last
}

func (e *RefusedError) Error() string { return e.Sentence }

func refuse(status int, format string, args ...any) error {
	return &RefusedError{Status: status, Sentence: fmt.Sprintf(format, args...)}
}

// request is a request to cosign.
type request struct {
	old   int64 // size of the tree that the proof begins with
	proof tlog.TreeProof
	note  []byte
}

// write is the request's text.
func (r *request) write() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "old %d\n", r.old)
	for _, hash := range r.proof {
		b.WriteString(hash.String() + "\n")
	}
	b.WriteByte('\n')
	b.Write(r.note)
	return b.Bytes()
}

// parseRequest reads the body of add-checkpoint: the line "old SIZE", the proof's hashes in
// base64, one a line, an empty line, the note. A RefusedError names the line.
func parseRequest(body []byte) (*request, error) {
	head, signed, found := bytes.Cut(body, []byte("\n\n"))
	if !found {
		return nil, refuse(http.StatusBadRequest, "the request is cut short: want the line \"old SIZE\", the proof's lines, an empty line, and the checkpoint")
	}
	lines := strings.Split(string(head), "\n")
	size, isOld := strings.CutPrefix(lines[0], "old ")
	if !isOld {
		return nil, refuse(http.StatusBadRequest, "line 1 is %.40q: want \"old SIZE\", such as \"old 0\"", lines[0])
	}
	r := &request{note: signed}
	var err error
	if r.old, err = tlogcheckpoint.ParseSize(size); err != nil {
		return nil, refuse(http.StatusBadRequest, "line 1: %v", err)
	}
	if len(lines)-1 > maxProof {
		return nil, refuse(http.StatusBadRequest, "the proof has %d lines: want at most %d", len(lines)-1, maxProof)
	}
	for i, line := range lines[1:] {
		hash, err := tlogcheckpoint.ParseHash(line)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "line %d: %v", i+2, err)
		}
		r.proof = append(r.proof, hash)
	}
	return r, nil
}

// submitted is a checkpoint whose log signed it.
type submitted struct {
	text string
	by   []note.Signature // of the log's keys
	*tlogcheckpoint.Checkpoint
}

// open checks a note: it is a checkpoint of a log that is known, and the log signed it. A
// RefusedError says what it is instead.
func (l Logs) open(signed []byte) (*submitted, error) {
	// Of no known key: what is no note at all is told from one that others signed.
	var unverified *note.UnverifiedNoteError
	if _, err := note.Open(signed, note.VerifierList()); !errors.As(err, &unverified) {
		return nil, refuse(http.StatusBadRequest, "the checkpoint is no signed note: want its text, an empty line, and at least one signature")
	}
	c, err := tlogcheckpoint.Parse(unverified.Note.Text)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	keys := l[c.Origin]
	if len(keys) == 0 {
		return nil, refuse(http.StatusNotFound, "this witness does not know the log %.200q", c.Origin)
	}
	n, err := note.Open(signed, note.VerifierList(keys...))
	if err != nil {
		return nil, refuse(http.StatusForbidden, "no key of %s that this witness knows has signed the checkpoint as it is", c.Origin)
	}
	// The package that opens notes takes other forms of the same bytes, too.
	for i, s := range n.Sigs {
		raw, err := base64.StdEncoding.DecodeString(s.Base64)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "a signature is not in base64")
		}
		n.Sigs[i].Base64 = base64.StdEncoding.EncodeToString(raw)
	}
	return &submitted{n.Text, n.Sigs, c}, nil
}
