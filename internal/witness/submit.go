package witness

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
)

const (
	// maxAnswer bounds a witness's answer, in bytes.
	maxAnswer = 64 << 10
	// submitTimeout bounds one request.
	submitTimeout = time.Minute
	// submitTries bounds the tries. One fails if another process has a newer tree cosigned while
	// this one makes a proof.
	submitTries = 5
)

// Submission is a checkpoint for a witness.
type Submission struct {
	URL   string // of the witness, such as https://witness.example.com
	Key   *Verifier
	HTTP  http.RoundTripper
	Agent string // the User-Agent

	Note []byte // signed by the log
	Old  int64  // size of the tree that the witness is believed to have cosigned last; 0: none is known
	// Prove returns a proof that the checkpoint's tree extends its own first old leaves. old is at
	// least 1 and at most the tree's size.
	Prove func(ctx context.Context, old int64) (tlog.TreeProof, error)
}

// AnswerError is why a witness has refused a checkpoint, in its own words.
type AnswerError struct {
	Status   int // of HTTP; 409: it has cosigned a larger tree
	Sentence string
}

func (e *AnswerError) Error() string { return e.Sentence }

// CheckURL checks the address of a witness. The error says what it should be.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("want the witness's address, such as https://witness.example.com")
	}
	return nil
}

// Submit asks a witness to cosign a checkpoint. It returns the note with the witness's signature,
// which it has checked, and the signature's time.
func Submit(ctx context.Context, s *Submission) (cosigned []byte, at time.Time, err error) {
	text, _, found := bytes.Cut(s.Note, []byte("\n\n"))
	if !found {
		return nil, at, errors.New("the checkpoint is no signed note")
	}
	c, err := signingkey.ParseCheckpointText(string(text) + "\n")
	if err != nil {
		return nil, at, err
	}
	old := min(max(s.Old, 0), c.Tree.N)
	for range submitTries {
		var proof tlog.TreeProof
		if old > 0 && old < c.Tree.N {
			if proof, err = s.Prove(ctx, old); err != nil {
				return nil, at, err
			}
		}
		status, body, err := s.post(ctx, s.request(old, proof))
		if err != nil {
			return nil, at, err
		}
		switch status {
		case http.StatusOK:
			return s.add(body)
		case http.StatusConflict:
			if old, err = signingkey.ParseTreeSize(strings.TrimSuffix(string(body), "\n")); err != nil {
				return nil, at, fmt.Errorf("the witness answered 409, and no size: %w", err)
			}
		default:
			return nil, at, &AnswerError{status, fmt.Sprintf("the witness answered %d: %.500s", status, strings.TrimSpace(string(body)))}
		}
		if old > c.Tree.N {
			return nil, at, &AnswerError{status, fmt.Sprintf("the witness has cosigned a tree of size %d, and this checkpoint is of size %d: want a newer one", old, c.Tree.N)}
		}
	}
	return nil, at, fmt.Errorf("the witness has cosigned another tree %d times while a proof was made: try again", submitTries)
}

// request returns the body of add-checkpoint: the size that the proof begins with, the proof, and
// the note.
func (s *Submission) request(old int64, proof tlog.TreeProof) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "old %d\n", old)
	for _, hash := range proof {
		b.WriteString(hash.String() + "\n")
	}
	b.WriteByte('\n')
	b.Write(s.Note)
	return b.Bytes()
}

// post sends a request.
func (s *Submission) post(ctx context.Context, body []byte) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, submitTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(s.URL, "/")+"/add-checkpoint", bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("ask the witness: %w", err)
	}
	req.Header.Set("User-Agent", s.Agent)
	client := &http.Client{Transport: s.HTTP, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("ask the witness: %w", err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("the witness's answer was broken off: %w", err)
	case len(answer) > maxAnswer:
		return 0, nil, fmt.Errorf("the witness's answer is longer than %d bytes", maxAnswer)
	}
	return resp.StatusCode, answer, nil
}

// add adds the witness's signature to the note. It ignores signatures of other keys.
func (s *Submission) add(lines []byte) (cosigned []byte, at time.Time, err error) {
	n, err := note.Open(append(bytes.Clone(s.Note), lines...), note.VerifierList(s.Key))
	if err != nil {
		return nil, at, fmt.Errorf("the witness's answer is no signature of %s for this checkpoint: %w", s.Key.Name(), err)
	}
	for line := range strings.Lines(string(lines)) {
		only, err := note.Open(append(bytes.Clone(s.Note), line...), note.VerifierList(s.Key))
		if err != nil {
			continue
		}
		raw, err := rawSignature(only.Sigs[0])
		if err != nil {
			return nil, at, err
		}
		seconds, _, _ := cutTime(raw)
		return append(bytes.Clone(s.Note), line...), time.Unix(seconds, 0).UTC(), nil
	}
	return nil, at, fmt.Errorf("the witness's answer has %d signatures, none on a line of its own", len(n.Sigs))
}

// hashSize is the length of a key's hash before a signature, in bytes.
const hashSize = 4

// rawSignature returns a signature without the key's hash before it.
func rawSignature(s note.Signature) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil || len(raw) < hashSize {
		return nil, fmt.Errorf("the signature of %s is cut short", s.Name)
	}
	return raw[hashSize:], nil
}
