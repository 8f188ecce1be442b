package follower

import (
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Witnesses says which witnesses' cosignatures, and how many, a checkpoint needs before it proves
// events. At least that many witnesses have then seen the same tree as this follower. The zero
// value needs none.
type Witnesses struct {
	Keys   []note.Verifier
	Needed int // of Keys
}

// of returns the names of the witnesses that have cosigned a note. It checks each witness
// separately, so that one wrong signature line does not invalidate the others.
func (w Witnesses) of(signed []byte) (names []string) {
	for _, key := range w.Keys {
		if n, err := note.Open(signed, note.VerifierList(key)); err == nil && len(n.Sigs) > 0 {
			names = append(names, key.Name())
		}
	}
	return names
}

// missing says which cosignatures a checkpoint needs and which it has; empty: it has enough.
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
