package signingkey

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

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
