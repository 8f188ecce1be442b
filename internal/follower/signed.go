package follower

import "github.com/ledgerfeed/ledgerfeed/internal/signingkey"

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
	*signingkey.Checkpoint
	Cosigned []string // the Tree's witnesses that cosigned it
}
