package signingkey

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// Checkpoint is a checkpoint of a feed with a valid signature.
type Checkpoint struct {
	Note     []byte
	By       []string // the keys that signed it: <name>+<hash>
	Tree     tlog.Tree
	Position int64     // of the whole log when the tree had this size
	Chain    tlog.Hash // the log's chain at that position
}

// OpenCheckpoint checks that one of the keys signed a note, that the note is about the tree called
// origin, and that it has the form of a feed's checkpoint.
func (v *Verifiers) OpenCheckpoint(note []byte, origin string) (*Checkpoint, error) {
	c, err := v.openCheckpoint(note, origin)
	if err != nil {
		return nil, fmt.Errorf("the checkpoint is not one of %s: %w", origin, err)
	}
	return c, nil
}

func (v *Verifiers) openCheckpoint(note []byte, origin string) (*Checkpoint, error) {
	checked, err := v.Check(note)
	if err != nil {
		return nil, err
	}
	said, err := ParseCheckpointText(checked.Text)
	if err != nil {
		return nil, err
	}
	if said.Origin != origin {
		return nil, fmt.Errorf("it is of %q", said.Origin)
	}
	c := &Checkpoint{Note: note, By: checked.By, Tree: said.Tree}
	if len(said.Extensions) < 2 {
		return nil, errors.New("its lines position and chain are missing")
	}
	position, isPosition := strings.CutPrefix(said.Extensions[0], "position ")
	chain, isChain := strings.CutPrefix(said.Extensions[1], "chain ")
	if !isPosition || !isChain {
		return nil, fmt.Errorf("its lines 4 and 5 are %.60q and %.60q: want position and chain", said.Extensions[0], said.Extensions[1])
	}
	if c.Position, err = ParseTreeSize(position); err != nil {
		return nil, fmt.Errorf("%.40q is no position", position)
	}
	if c.Chain, err = ParseHash(chain); err != nil {
		return nil, fmt.Errorf("the chain: %w", err)
	}
	if empty, _ := tlog.TreeHash(0, nil); c.Tree.N == 0 && c.Tree.Hash != empty {
		return nil, errors.New("its tree is empty, and its root is not that of an empty tree")
	}
	return c, nil
}
