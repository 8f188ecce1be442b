package domain

import "github.com/ledgerfeed/ledgerfeed/domain/jsonform"

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
