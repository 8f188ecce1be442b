package domain

import (
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Row holds what every read row has besides its fields.
type Row struct {
	ID        string
	Position  int64  // of the last entry that changed the row; lists are ordered by it
	UpdatedAt string // publish time of that entry, in the public form

	stored  bool // loaded from a store, or written to it since
	touched bool // changed since the last Reset
	gone    bool // deleted
}

func (r *Row) row() *Row { return r }

// Stored reports whether a store has the row; false for a row that the fold made
// since the last Reset.
func (r *Row) Stored() bool { return r.stored }

// rowOf is a pointer to a record that embeds Row.
type rowOf[R any] interface {
	*R
	row() *Row
}

// stamp is what an entry writes into every row that it changes.
type stamp struct {
	position int64
	at       string // publish time, in the public form
}

// relation is a kind of reference from rows to other objects.
type relation int

const (
	byClient relation = iota
	byContractor
	byInvoice
	byPeriod
	relations // the number of relations
)

// Table holds the rows of one resource in a State: all rows of a workspace, or those that the
// entries of a segment need.
type Table[R any, P rowOf[R]] struct {
	rows    map[string]P
	keys    [relations]func(P) string // the id a row refers to; nil if the resource lacks the relation
	related [relations]map[string][]P // rows by that id; may include rows that no longer refer to it, see each
	touched []P

	// The name and the row fields, only of resources whose rows a change may reach.
	resource string
	fields   jsonform.Fields[R]

	gone []P // deleted rows that a store still has
}

// Get returns a row, or nil.
func (t *Table[R, P]) Get(id string) P { return t.rows[id] }

// All calls each with every row, in no particular order.
func (t *Table[R, P]) All(each func(P)) {
	for _, r := range t.rows {
		each(r)
	}
}

// Len returns the number of rows.
func (t *Table[R, P]) Len() int { return len(t.rows) }

// Load adds a row from a store. If the table already has a row with this id, that row stays as it
// is.
func (t *Table[R, P]) Load(r P) {
	if t.rows[r.row().ID] != nil {
		return
	}
	r.row().stored = true
	t.add(r)
}

func (t *Table[R, P]) add(r P) {
	if t.rows == nil {
		t.rows = map[string]P{}
	}
	t.rows[r.row().ID] = r
	for rel := range t.keys {
		if t.keys[rel] != nil {
			t.link(relation(rel), r)
		}
	}
}

func (t *Table[R, P]) link(rel relation, r P) {
	key := t.keys[rel](r)
	if key == "" {
		return
	}
	if t.related[rel] == nil {
		t.related[rel] = map[string][]P{}
	}
	t.related[rel][key] = append(t.related[rel][key], r)
}

// write creates or changes the row with this id and marks it as changed.
func (t *Table[R, P]) write(by stamp, id string, set func(P)) {
	r := t.rows[id]
	if r == nil {
		r = new(R)
		r.row().ID = id
		set(r)
		t.add(r)
		t.touch(by, r)
		return
	}
	var before [relations]string
	for rel, key := range t.keys {
		if key != nil {
			before[rel] = key(r)
		}
	}
	set(r)
	for rel, key := range t.keys {
		if key != nil && key(r) != before[rel] {
			t.link(relation(rel), r)
		}
	}
	t.touch(by, r)
}

// touch marks a row as changed. If its references change, use write instead.
func (t *Table[R, P]) touch(by stamp, r P) {
	row := r.row()
	row.Position, row.UpdatedAt = by.position, by.at
	t.mark(r)
}

// mark marks a row as changed without moving it in its list.
func (t *Table[R, P]) mark(r P) {
	if row := r.row(); !row.touched {
		row.touched = true
		t.touched = append(t.touched, r)
	}
}

// remove deletes a row.
func (t *Table[R, P]) remove(r P) {
	row := r.row()
	row.gone = true
	delete(t.rows, row.ID)
	if row.stored {
		t.gone = append(t.gone, r)
	}
}

// each calls do once with every row that refers to key by rel. It also removes from the list the
// rows that no longer refer to key, and the duplicates of rows that stopped referring to it and
// started again.
func (t *Table[R, P]) each(rel relation, key string, do func(P)) {
	list := t.related[rel][key]
	kept := list[:0]
	met := make(map[P]struct{}, len(list))
	for _, r := range list {
		if _, twice := met[r]; twice || r.row().gone || t.keys[rel](r) != key {
			continue
		}
		met[r] = struct{}{}
		kept = append(kept, r)
	}
	if len(list) > 0 {
		clear(list[len(kept):])
		t.related[rel][key] = kept
	}
	for _, r := range kept {
		do(r)
	}
}

// Changed returns the rows that were created or changed since the last Reset and are not deleted.
func (t *Table[R, P]) Changed() []P {
	live := t.touched[:0]
	for _, r := range t.touched {
		if !r.row().gone {
			live = append(live, r)
		}
	}
	t.touched = live
	return live
}

// Gone returns the ids of stored rows that were deleted since the last Reset and not created again.
// It marks a row that was created again under the same id as stored.
func (t *Table[R, P]) Gone() []string {
	var ids []string
	for _, r := range t.gone {
		if again := t.rows[r.row().ID]; again != nil {
			again.row().stored = true
			continue
		}
		ids = append(ids, r.row().ID)
	}
	return ids
}

// Reset clears the record of changed rows. Call it after a store has saved them.
func (t *Table[R, P]) Reset() {
	for _, r := range t.touched {
		r.row().touched = false
		r.row().stored = true
	}
	t.touched, t.gone = nil, nil
}

// Tombstone stands in a list for a row that has left it (docs/contract/decisions.md, "Responses":
// rows that leave). Its Row has the row's id, with the position and the time of the entry that
// removed it.
type Tombstone struct {
	Row
	Removed bool // always true

	// The row's values when it left, so that filters still find it. Later values are not copied: a
	// key that no longer sees a row must not learn what it became afterwards.
	ClientID, ContractorID, Period, Status, Day string
}

var tombstoneFields = jsonform.Define([]jsonform.Field[Tombstone]{
	{Name: "id", Form: FormID, Example: `"te_5501"`, Doc: "Id of the row that left.", At: func(r *Tombstone) any { return &r.ID }},
	{Name: "removed", Form: FormBool, Doc: "Always true. No other row has this field.", Example: `true`, At: func(r *Tombstone) any { return &r.Removed }},
	{Name: "updated_at", Form: FormDateTime, Doc: "When the row left.", Example: `"2026-10-02T09:15:00.120Z"`, At: func(r *Tombstone) any { return &r.UpdatedAt }},
})

// lastValues holds the values of a row that filters use.
type lastValues struct{ clientID, contractorID, period, status, day string }

// takeAway adds the tombstone of a row that the entry removes from what readers see.
func (f *fold) takeAway(from *Table[Tombstone, *Tombstone], id string, last lastValues) {
	from.write(f.stamp, id, func(r *Tombstone) {
		r.Removed = true
		r.ClientID, r.ContractorID, r.Period, r.Status, r.Day = last.clientID, last.contractorID, last.period, last.status, last.day
	})
}

// bringBack drops the tombstone of a row that readers see again.
func bringBack(to *Table[Tombstone, *Tombstone], id string) {
	if r := to.Get(id); r != nil {
		to.remove(r)
	}
}
