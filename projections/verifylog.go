package projections

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// logCheck proves entries of a workspace's log, given in order: positions
// without a gap, the chain from its beginning, publish times that never fall,
// and that what is stored beside data follows from it.
type logCheck struct {
	workspaceID string
	report      func(Difference)
	since       *Seal
	broken      bool // something of the log itself is wrong

	position  int64     // of the last entry seen
	createdAt time.Time // of the last entry seen
	chain     [32]byte  // stored with the last entry seen
	lost      bool      // what came before the next entry is not known
	doubt     *doubt
}

// Seal is a chain value that somebody has kept, with its position.
type Seal struct {
	Position int64
	Chain    [32]byte
}

// doubt is about an entry whose chain value does not follow from it: what
// comes next tells whether the value or the entry was changed.
type doubt struct {
	id       string
	computed [32]byte
	stored   [32]byte
}

func newLogCheck(workspaceID string, since *Seal, report func(Difference)) *logCheck {
	return &logCheck{workspaceID: workspaceID, since: since, report: report, chain: domain.Genesis(workspaceID)}
}

func (c *logCheck) difference(id, field string, stored, folded *string) {
	c.broken = true
	c.report(Difference{WorkspaceID: c.workspaceID, Resource: resourceLog, ID: id, Field: field, Stored: stored, Folded: folded})
}

// entry proves the next entry.
func (c *logCheck) entry(e *logRow) {
	if e.Position != c.position+1 {
		c.missing(e.Position - 1)
	}
	c.link(e)
	c.times(e)
	c.derived(e)
	c.position, c.chain = e.Position, e.Chain
	if c.since != nil && c.since.Position == e.Position && c.since.Chain != e.Chain {
		c.difference(e.ID, "chain", shown(hex.EncodeToString(e.Chain[:])), shown(hex.EncodeToString(c.since.Chain[:])))
	}
}

// missing reports that there are no entries up to a position.
func (c *logCheck) missing(through int64) {
	c.resolve(false)
	for p := c.position + 1; p <= through; p++ {
		if p > c.position+1 && p < through && through-c.position > 100 {
			continue // of a long gap, its ends
		}
		c.difference(fmt.Sprintf("position %d", p), fieldRow, nil, shown("an entry"))
	}
	c.position, c.lost = through, true
}

// link proves that the entry's chain value follows from the one before it.
func (c *logCheck) link(e *logRow) {
	if c.lost {
		c.lost = false
		return
	}
	computed := e.ChainAfter(c.chain)
	if computed == e.Chain {
		c.resolve(false)
		return
	}
	if c.doubt != nil && e.ChainAfter(c.doubt.computed) == e.Chain {
		c.resolve(true)
		return
	}
	c.resolve(false)
	c.doubt = &doubt{id: e.ID, computed: computed, stored: e.Chain}
}

// resolve reports the entry in doubt: its chain value was changed if the next
// one follows from the value that belongs there, and otherwise the entry.
func (c *logCheck) resolve(value bool) {
	d := c.doubt
	c.doubt = nil
	if d == nil {
		return
	}
	stored, computed := shown(hex.EncodeToString(d.stored[:])), shown(hex.EncodeToString(d.computed[:]))
	if value {
		c.difference(d.id, "chain", stored, computed)
		return
	}
	c.difference(d.id, "content", computed, stored) // what it hashes to, and what it was sealed with
}

func (c *logCheck) times(e *logRow) {
	switch {
	case e.CreatedAt.Before(c.createdAt):
		c.difference(e.ID, "created_at", shown(domain.FormatTime(e.CreatedAt)), shown("not before "+domain.FormatTime(c.createdAt)))
		return
	case e.CreatedAt.Nanosecond()%int(time.Millisecond) != 0:
		c.difference(e.ID, "created_at", shown(e.CreatedAt.Format(time.RFC3339Nano)), shown(domain.FormatTime(e.CreatedAt)))
	}
	c.createdAt = e.CreatedAt
}

// derived proves the canonical form and the public form, where this version
// can read the entry.
func (c *logCheck) derived(e *logRow) {
	d, err := domain.NewDraft(e.WorkspaceID, e.Type, []byte(e.Data))
	if err != nil {
		return // unreadable, which is the fold's to note
	}
	if d.Data != e.Data {
		c.difference(e.ID, "data", shown(e.Data), shown(d.Data))
	}
	d.ID, d.CreatedAt = e.ID, e.CreatedAt
	public := d.PublicEvent()
	switch {
	case e.public == nil && public != "":
		c.difference(e.ID, "public_event", nil, shown(public))
	case e.public != nil && public == "":
		c.difference(e.ID, "public_event", shown(*e.public), nil)
	case e.public != nil && *e.public != public:
		c.difference(e.ID, "public_event", shown(*e.public), shown(public))
	}
}

// end proves the head of the log against the last entry, and that a kept seal
// was met.
func (c *logCheck) end(h *logHead) {
	if h.newest > h.position {
		c.difference("head", "position", shown(fmt.Sprint(h.position)), shown(fmt.Sprint(h.newest)))
	}
	if c.position < h.position {
		c.missing(h.position)
	} else {
		c.resolve(c.doubt != nil && c.doubt.computed == h.chain)
		if c.chain != h.chain && c.position == h.position && h.position > 0 {
			c.difference("head", "chain", shown(hex.EncodeToString(h.chain[:])), shown(hex.EncodeToString(c.chain[:])))
		}
		if !c.createdAt.Equal(h.createdAt) && c.position == h.position && h.position > 0 {
			c.difference("head", "created_at", shown(domain.FormatTime(h.createdAt)), shown(domain.FormatTime(c.createdAt)))
		}
	}
	if h.position == 0 && h.chain != domain.Genesis(c.workspaceID) {
		genesis := domain.Genesis(c.workspaceID)
		c.difference("head", "chain", shown(hex.EncodeToString(h.chain[:])), shown(hex.EncodeToString(genesis[:])))
	}
	if c.since != nil && c.since.Position > max(h.position, h.newest) {
		c.difference(fmt.Sprintf("position %d", c.since.Position), fieldRow, nil, shown("the entry with chain "+hex.EncodeToString(c.since.Chain[:])))
	}
}

// logHead is the head of a workspace's log, the newest entry that is there,
// and its read models' checkpoint, from one snapshot.
type logHead struct {
	position   int64
	createdAt  time.Time // zero before the first entry
	chain      [32]byte
	newest     int64
	checkpoint int64
	rules      int
}
