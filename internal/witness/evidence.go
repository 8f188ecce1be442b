package witness

import (
	"errors"
	"fmt"
	"io/fs"
)

// maxEvidence bounds the forks of one log that are kept. Each is a proof by itself.
const maxEvidence = 100

// evidenceFile is the name of the n-th file with a fork of a log, from 1 on.
func evidenceFile(origin string, n int) string {
	return fmt.Sprintf("%s.fork-%d", originHash(origin), n)
}

// keepEvidence keeps two notes that a log signed, of two trees of one size. It returns the
// name of the file that has them; fresh is false where they are kept already.
func keepEvidence(dir files, origin string, kept *record, seen *submitted, note []byte) (name string, fresh bool, err error) {
	text := fmt.Sprintf("The log %s has signed two trees of size %d, with the roots %s and %s.\nIt signed both of these notes, which prove it:\n\n%s\n%s",
		origin, kept.tree.N, kept.tree.Hash, seen.Tree.Hash, kept.note, note)
	for n := 1; n <= maxEvidence; n++ {
		name = evidenceFile(origin, n)
		have, err := dir.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := dir.WriteFile(name, []byte(text)); err != nil {
				return "", false, fmt.Errorf("keep what proves the fork of %s: %w", origin, err)
			}
			return name, true, nil
		case err != nil:
			return "", false, fmt.Errorf("read what proves a fork of %s: %w", origin, err)
		case string(have) == text:
			return name, false, nil
		}
	}
	return "", false, nil
}
