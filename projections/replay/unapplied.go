package replay

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Skipped is the reason for an entry that an operator made the projector skip
// (eventlog.Quarantine.Skip).
const Skipped domain.Reason = "skipped"

// UnappliedEntry is an entry about the row that did not have its full effect.
type UnappliedEntry struct {
	EntryName
	Reason domain.Reason `json:"reason"` // an anomaly's, or Skipped
}

// observeAnomalies records why the entry that was folded last did not have its full effect, if it
// is about the row.
func (h *rowHistory) observeAnomalies(e *domain.Entry) {
	anomalies := h.folded.State.Anomalies
	first := len(anomalies)
	for first > 0 && anomalies[first-1].Position == e.Position {
		first--
	}
	if first == len(anomalies) || !h.isAbout(e) {
		return
	}
	for _, a := range anomalies[first:] {
		h.unapplied = append(h.unapplied, UnappliedEntry{entryName(e), a.Reason})
	}
}

// observeSkip records that an entry is skipped, if it is about the row.
func (h *rowHistory) observeSkip(e *domain.Entry) {
	if h.isAbout(e) {
		h.unapplied = append(h.unapplied, UnappliedEntry{entryName(e), Skipped})
	}
}

// isAbout reports whether an entry's effect reads or changes the row. An entry is about a client or
// contractor only if it records them: other entries only use their names. An entry that this
// version cannot read is about every id that it contains.
func (h *rowHistory) isAbout(e *domain.Entry) bool {
	id := h.key[0]
	object, objectID := e.Object()
	if object == "" {
		return names(e, id)
	}
	var (
		needs domain.Needs
		named domain.Set
	)
	needs.Add(e)
	switch h.table.Resource {
	case "invoices":
		named = needs.Invoices
	case "charges":
		named = needs.Charges
	case "time-entries":
		named = needs.TimeEntries
	case "payments":
		named = needs.Payments
	case "credit":
		named = needs.Credits
	case "clients":
		return object == "client" && objectID == id
	case "contractors":
		return object == "contractor" && objectID == id
	}
	_, is := named[id]
	return is
}

// names reports whether a value in an entry's data is the id.
func names(e *domain.Entry, id string) bool {
	var data map[string]any
	if err := json.Unmarshal([]byte(e.Data), &data); err != nil {
		return false
	}
	return slices.Contains(slices.Collect(maps.Values(data)), any(id))
}
