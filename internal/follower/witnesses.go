package follower

import (
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Witnesses are whose cosignatures a checkpoint needs before events are proven by it. So many
// of them at least have then seen the same tree as this follower. The zero value asks for none.
type Witnesses struct {
	Keys   []note.Verifier
	Needed int // of Keys
}

// of are the witnesses who have cosigned a note, by name. Each is asked alone: a line of one
// that is wrong takes nothing from the others.
func (w Witnesses) of(signed []byte) (names []string) {
	for _, key := range w.Keys {
		if n, err := note.Open(signed, note.VerifierList(key)); err == nil && len(n.Sigs) > 0 {
			names = append(names, key.Name())
		}
	}
	return names
}

// missing says whose cosignatures a checkpoint has of those that it needs; empty: enough.
func (w Witnesses) missing(s *Signed) string {
	if len(s.Cosigned) >= w.Needed {
		return ""
	}
	all := make([]string, len(w.Keys))
	for i, key := range w.Keys {
		all[i] = key.Name()
	}
	has := "none"
	if len(s.Cosigned) > 0 {
		has = strings.Join(s.Cosigned, " and ")
	}
	return fmt.Sprintf("it needs the cosignatures of %d of the witnesses %s, and has %s", w.Needed, strings.Join(all, ", "), has)
}
