package signingkey

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
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

// CheckpointText is what a checkpoint says, without its signatures: a statement of a transparency log's
// size and root, in the form https://c2sp.org/tlog-checkpoint.
type CheckpointText struct {
	Origin     string // the log's name, its first line
	Tree       tlog.Tree
	Extensions []string // further lines, none of them empty
}

// ParseCheckpointText reads the text of a checkpoint. Each checkpoint has exactly one text: other forms
// of the same number or root are refused. The error names the line and the form wanted.
func ParseCheckpointText(text string) (*CheckpointText, error) {
	lines := strings.Split(text, "\n")
	last := len(lines) - 1
	if last < 3 || lines[last] != "" {
		return nil, errors.New("the checkpoint is cut short: want the lines origin, size and root, each with a line feed")
	}
	lines = lines[:last]
	for i, line := range lines {
		if line == "" {
			return nil, fmt.Errorf("line %d of the checkpoint is empty", i+1)
		}
	}
	size, err := ParseTreeSize(lines[1])
	if err != nil {
		return nil, fmt.Errorf("line 2 of the checkpoint: %w", err)
	}
	root, err := ParseHash(lines[2])
	if err != nil {
		return nil, fmt.Errorf("line 3 of the checkpoint: %w", err)
	}
	return &CheckpointText{Origin: lines[0], Tree: tlog.Tree{N: size, Hash: root}, Extensions: lines[3:]}, nil
}

// ParseTreeSize reads the size of a tree: decimal, without leading zeros.
func ParseTreeSize(text string) (int64, error) {
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != text {
		return 0, fmt.Errorf("%.40q is no size of a tree: want a number, 0 or more, without leading zeros", text)
	}
	return size, nil
}

// ParseHash reads a hash: 32 bytes in base64.
func ParseHash(text string) (h tlog.Hash, err error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != tlog.HashSize || base64.StdEncoding.EncodeToString(raw) != text {
		return h, fmt.Errorf("%.60q is no hash: want 32 bytes in base64", text)
	}
	return tlog.Hash(raw), nil
}

// String returns the text, as ParseCheckpointText reads it.
func (c *CheckpointText) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%d\n%s\n", c.Origin, c.Tree.N, c.Tree.Hash)
	for _, line := range c.Extensions {
		b.WriteString(line + "\n")
	}
	return b.String()
}
