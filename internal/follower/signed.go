package follower

import (
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/tlogcheckpoint"
)

// DifferenceError says what the service shows differently from what it has signed, or that
// it has signed two things that cannot both be true.
type DifferenceError struct {
	Sentence string
	Kept     []byte // the note that was accepted before; nil: none
	Seen     []byte // the note that contradicts Kept or Shown
	Shown    []byte // the page, event or tile that contradicts Seen; nil: the notes say it all
}

func (e *DifferenceError) Error() string { return e.Sentence }

// Signed is a checkpoint with a valid signature.
type Signed struct {
	Note     []byte
	By       []string // the keys that signed it: <name>+<hash>
	Cosigned []string // the Tree's witnesses that cosigned it
	Tree     tlog.Tree
	Position int64     // of the whole log when the tree had this size
	Chain    tlog.Hash // the log's chain at that position
}

// OpenCheckpoint checks that one of keys signed a note, that the note is about the tree called
// origin, and that it has the form of a feed's checkpoint. Any other note is a DifferenceError.
func OpenCheckpoint(note []byte, origin string, keys *signingkey.Verifiers) (*Signed, error) {
	differs := func(format string, args ...any) error {
		return &DifferenceError{Sentence: "the checkpoint is not one of " + origin + ": " + fmt.Sprintf(format, args...), Seen: note}
	}
	checked, err := keys.Check(note)
	if err != nil {
		return nil, differs("%v", err)
	}
	c, err := tlogcheckpoint.Parse(checked.Text)
	if err != nil {
		return nil, differs("%v", err)
	}
	if c.Origin != origin {
		return nil, differs("it is of %q", c.Origin)
	}
	s := &Signed{Note: note, By: checked.By, Tree: c.Tree}
	if len(c.Extensions) < 2 {
		return nil, differs("its lines position and chain are missing")
	}
	position, isPosition := strings.CutPrefix(c.Extensions[0], "position ")
	chain, isChain := strings.CutPrefix(c.Extensions[1], "chain ")
	if !isPosition || !isChain {
		return nil, differs("its lines 4 and 5 are %.60q and %.60q: want position and chain", c.Extensions[0], c.Extensions[1])
	}
	if s.Position, err = tlogcheckpoint.ParseSize(position); err != nil {
		return nil, differs("%.40q is no position", position)
	}
	if s.Chain, err = tlogcheckpoint.ParseHash(chain); err != nil {
		return nil, differs("the chain: %v", err)
	}
	if empty, _ := tlog.TreeHash(0, nil); s.Tree.N == 0 && s.Tree.Hash != empty {
		return nil, differs("its tree is empty, and its root is not that of an empty tree")
	}
	return s, nil
}
