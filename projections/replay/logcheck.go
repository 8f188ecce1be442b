package replay

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// ChainCheckpoint is a chain value that somebody kept outside the database, with its position. It
// proves everything up to that position.
type ChainCheckpoint struct {
	Position int64
	Chain    [32]byte
}

// logRow is an entry with its stored public form, which the fold does not need.
type logRow struct {
	domain.Entry
	public *string
	pay    bool // only readers with pay:read may see the event

	subject   string // whom the stored detached value is about; empty: there is none
	forgotten int64  // position of a later entry that forgets one whom the entry is about; 0: there is none
	passed    int64  // the same, if its deletion has come past this entry
	unmarked  bool   // the entry forgets somebody, and the database does not know
}

// logHead is the head of a workspace's log, the newest entry that exists, and
// the checkpoint of its read models, from one snapshot.
type logHead struct {
	position   int64
	createdAt  time.Time // zero before the first entry
	chain      [32]byte
	newest     int64 // position of the newest entry
	checkpoint int64
	rules      int // version of the rules by which the rows were made
}

// end returns the position of the last entry that the head knows or that exists.
func (h *logHead) end() int64 { return max(h.position, h.newest) }

// logCheck checks the entries of a workspace's log, which it gets in order: positions have no gap,
// the chain is right from its beginning, publish times never decrease, and everything stored
// alongside data follows from it.
type logCheck struct {
	workspaceID string
	report      func(Difference)
	since       *ChainCheckpoint // nil: none was kept
	broken      bool             // the log itself is wrong somewhere

	position  int64     // of the last entry seen
	createdAt time.Time // of the last entry seen
	chain     [32]byte  // stored with the last entry seen
	lost      bool      // entries before the next one are missing
	pending   *mislinked
}

// mislinked is an entry whose stored chain value does not follow from it. The
// next entry shows which of the two was changed: see resolve.
type mislinked struct {
	id       string
	computed [32]byte
	stored   [32]byte
}

func newLogCheck(workspaceID string, since *ChainCheckpoint, report func(Difference)) *logCheck {
	return &logCheck{workspaceID: workspaceID, since: since, report: report, chain: domain.Genesis(workspaceID)}
}

func (c *logCheck) difference(id, field string, stored, folded *string) {
	c.broken = true
	c.report(Difference{WorkspaceID: c.workspaceID, Resource: resourceLog, ID: id, Field: field, Stored: stored, Folded: folded})
}

// entry checks the next entry.
func (c *logCheck) entry(e *logRow) {
	if e.Position != c.position+1 {
		c.missing(e.Position - 1)
	}
	c.checkLink(e)
	c.checkTime(e)
	c.checkDetached(e)
	c.checkForms(e)
	c.position, c.chain = e.Position, e.Chain
	if c.since != nil && c.since.Position == e.Position && c.since.Chain != e.Chain {
		c.difference(e.ID, "chain", shownHex(e.Chain), shownHex(c.since.Chain))
	}
}

// missing reports the missing entries up to a position.
func (c *logCheck) missing(through int64) {
	c.resolve(false)
	for p := c.position + 1; p <= through; p++ {
		if p > c.position+1 && p < through && through-c.position > 100 {
			continue // of a long gap only the two ends are reported
		}
		c.difference(fmt.Sprintf("position %d", p), fieldRow, nil, shown("an entry"))
	}
	c.position, c.lost = through, true
}

// checkLink checks that the entry's chain value follows from the one before it.
func (c *logCheck) checkLink(e *logRow) {
	if c.lost {
		c.lost = false
		return
	}
	computed := e.ChainAfter(c.chain)
	if computed == e.Chain {
		c.resolve(false)
		return
	}
	if c.pending != nil && e.ChainAfter(c.pending.computed) == e.Chain {
		c.resolve(true)
		return
	}
	c.resolve(false)
	c.pending = &mislinked{id: e.ID, computed: computed, stored: e.Chain}
}

// resolve reports the pending entry, if there is one. Its chain value was
// changed (onlyValue) when the next entry follows from the value that the entry
// should have; otherwise the entry itself was.
func (c *logCheck) resolve(onlyValue bool) {
	p := c.pending
	c.pending = nil
	if p == nil {
		return
	}
	if onlyValue {
		c.difference(p.id, "chain", shownHex(p.stored), shownHex(p.computed))
		return
	}
	c.difference(p.id, "content", shownHex(p.computed), shownHex(p.stored)) // the hash of what is stored, and of what was appended
}

func shownHex(chain [32]byte) *string { return shown(hex.EncodeToString(chain[:])) }

// checkTime checks that publish times are whole milliseconds and do not decrease.
func (c *logCheck) checkTime(e *logRow) {
	switch {
	case e.CreatedAt.Before(c.createdAt):
		c.difference(e.ID, "created_at", shown(domain.FormatTime(e.CreatedAt)), shown("not before "+domain.FormatTime(c.createdAt)))
		return
	case e.CreatedAt.Nanosecond()%int(time.Millisecond) != 0:
		c.difference(e.ID, "created_at", shown(e.CreatedAt.Format(time.RFC3339Nano)), shown(domain.FormatTime(e.CreatedAt)))
	}
	c.createdAt = e.CreatedAt
}

// checkDetached checks that the detached value of an entry is there unless it was forgotten, that it
// is gone if it was, and that it is the one that was appended.
func (c *logCheck) checkDetached(e *logRow) {
	if e.unmarked {
		c.difference(e.ID, "deletion", nil, shown("a deletion of the values of "+e.Type))
	}
	_, commitment := domain.CutCommitment(e.Data)
	switch {
	case commitment == "" && e.Value == "":
	case e.Value == "" && e.forgotten == 0:
		c.difference(e.ID, fieldDetached, nil, shown("the value with the commitment "+commitment))
	case e.Value == "":
	case e.passed != 0:
		c.difference(e.ID, fieldDetached, shown("a value"), shown(fmt.Sprintf("none: the entry at position %d forgets it", e.passed)))
	case e.Commitment() != commitment:
		c.difference(e.ID, fieldDetached, shown("a value with the commitment "+e.Commitment()), shown("the value with the commitment "+commitment))
	default:
		if about, readable := e.Subject(); readable && e.subject != about {
			c.difference(e.ID, "subject", shown(e.subject), shown(about))
		}
	}
}

// checkForms checks the canonical and the public form of an entry.
func (c *logCheck) checkForms(e *logRow) {
	open, _ := domain.CutCommitment(e.Data)
	wantOpen, wantValue, public, readable := e.Forms()
	if !readable {
		return // this version cannot read it, which the fold records as an anomaly
	}
	if open != wantOpen {
		c.difference(e.ID, "data", shown(open), shown(wantOpen))
	}
	if e.Value != "" && e.Value != wantValue {
		c.difference(e.ID, fieldDetached, shown("a value that is not in canonical form"), shown("one that is"))
	}
	switch {
	case e.public == nil && public != "":
		c.difference(e.ID, "public_event", nil, shown(public))
	case e.public != nil && public == "":
		c.difference(e.ID, "public_event", shown(*e.public), nil)
	case e.public != nil && *e.public != public:
		c.difference(e.ID, "public_event", shown(*e.public), shown(public))
	}
}

// fieldDetached is the field of a difference in what is detached from an entry.
const fieldDetached = "detached value"

// end checks the head of the log against the last entry, and that the entry of the chain checkpoint
// exists. Do not call entry afterwards.
func (c *logCheck) end(h *logHead) {
	if h.newest > h.position {
		c.difference("head", "position", shown(fmt.Sprint(h.position)), shown(fmt.Sprint(h.newest)))
	}
	if c.position < h.position {
		c.missing(h.position)
	} else {
		c.resolve(c.pending != nil && c.pending.computed == h.chain)
		c.checkHead(h)
	}
	if genesis := domain.Genesis(c.workspaceID); h.position == 0 && h.chain != genesis {
		c.difference("head", "chain", shownHex(h.chain), shownHex(genesis))
	}
	if c.since != nil && c.since.Position > h.end() {
		c.difference(fmt.Sprintf("position %d", c.since.Position), fieldRow, nil, shown("the entry with chain "+hex.EncodeToString(c.since.Chain[:])))
	}
}

// checkHead compares the head with the last entry, if both have the same position.
func (c *logCheck) checkHead(h *logHead) {
	if h.position == 0 || c.position != h.position {
		return
	}
	if c.chain != h.chain {
		c.difference("head", "chain", shownHex(h.chain), shownHex(c.chain))
	}
	if !c.createdAt.Equal(h.createdAt) {
		c.difference("head", "created_at", shown(domain.FormatTime(h.createdAt)), shown(domain.FormatTime(c.createdAt)))
	}
}
