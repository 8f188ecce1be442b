package witness

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/internal/tlogcheckpoint"
)

// files is a folder whose files are replaced whole, and last once WriteFile has returned.
type files interface {
	ReadFile(name string) ([]byte, error)
	WriteFile(name string, text []byte) error
}

// record is what was cosigned last for a log.
type record struct {
	note []byte // with the signatures of the log and of the witness
	tree tlog.Tree
	at   int64 // when it was cosigned, in seconds since 1970; 0: with another key
}

// originHash names a log in names of files and addresses.
func originHash(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(sum[:])
}

func fileOf(origin string) string { return originHash(origin) + ".checkpoint" }

// readRecord reads what was cosigned last; nil: nothing yet. A file that neither the log nor
// this witness has signed is an error: who changed it could have the witness cosign what
// it must not.
func readRecord(dir files, origin string, own *Verifier, keys []note.Verifier) (*record, error) {
	text, err := dir.ReadFile(fileOf(origin))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing was cosigned yet, which is no error
	}
	if err != nil {
		return nil, fmt.Errorf("read what was cosigned for %s: %w", origin, err)
	}
	n, err := note.Open(text, note.VerifierList(append([]note.Verifier{own}, keys...)...))
	if err != nil {
		return nil, fmt.Errorf("the file %s of %s is not what this witness or the log has signed: %w", fileOf(origin), origin, err)
	}
	c, err := tlogcheckpoint.Parse(n.Text)
	if err != nil {
		return nil, fmt.Errorf("the file %s of %s: %w", fileOf(origin), origin, err)
	}
	if c.Origin != origin {
		return nil, fmt.Errorf("the file %s is of the log %q, want %s", fileOf(origin), c.Origin, origin)
	}
	r := &record{note: text, tree: c.Tree}
	for _, s := range n.Sigs {
		if s.Name != own.Name() || s.Hash != own.KeyHash() {
			continue
		}
		raw, err := rawSignature(s)
		if err != nil {
			return nil, fmt.Errorf("the file %s of %s: %w", fileOf(origin), origin, err)
		}
		r.at, _, _ = cutTime(raw)
	}
	return r, nil
}

// hashSize is the length of a key's hash before a signature, in bytes.
const hashSize = 4

// rawSignature is a signature without the key's hash before it.
func rawSignature(s note.Signature) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil || len(raw) < hashSize {
		return nil, fmt.Errorf("the signature of %s is cut short", s.Name)
	}
	return raw[hashSize:], nil
}
