package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// ExplainRequest names a row and a moment.
type ExplainRequest struct {
	WorkspaceID  string
	Resource, ID string // one of Resources; the id of a client's credit is the client's

	// AsOf is a position, At a time: entries up to and including it count. With neither, the row is
	// explained as readers see it now.
	AsOf int64
	At   time.Time

	// Most is the most entries to fold; 0: any number. If there are more, there is no explanation.
	Most int64
}

// Explanation says how a row came to be what it was at a position.
type Explanation struct {
	WorkspaceID string           `json:"workspace_id"`
	Resource    string           `json:"resource"`
	ID          string           `json:"id"`
	Position    int64            `json:"position"` // entries up to here count
	Row         json.RawMessage  `json:"row"`      // all parts of the answer; null: there was no row
	Hidden      string           `json:"hidden,omitempty"`
	Fields      []ExplainedField `json:"fields"`
	History     []ExplainedEntry `json:"history"` // every entry that changed the row, oldest first

	// Unapplied is every entry about the row that did not have its full effect, oldest first. It
	// may explain why there is no row.
	Unapplied []UnappliedEntry `json:"unapplied"`
}

// EntryName identifies an entry.
type EntryName struct {
	Position  int64  `json:"position"`
	EventID   string `json:"event_id"`
	Type      string `json:"type"`
	CreatedAt string `json:"created_at"` // publish time in the public form
}

func entryName(e *domain.Entry) EntryName {
	return EntryName{e.Position, e.ID, e.Type, domain.FormatTime(e.CreatedAt)}
}

// ExplainedField is a field of the row, and the entry that set its value.
type ExplainedField struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
	SetBy EntryName       `json:"set_by"`
}

// ExplainedEntry is an entry that changed the row.
type ExplainedEntry struct {
	EntryName
	Fields  []string `json:"fields"` // whose values it changed; none: only the position of the row changed
	Deleted bool     `json:"deleted,omitempty"`
}

// NoRowError says that no entry up to a position is about the row.
type NoRowError struct {
	Resource, ID, WorkspaceID string
	Position, Head            int64 // entries up to Position were looked at; the log ends at Head
}

// Error names the row, and says whether the log has entries after Position.
func (e *NoRowError) Error() string {
	text := fmt.Sprintf("no entry up to position %d of %s made a row %q of %s", e.Position, e.WorkspaceID, e.ID, e.Resource)
	if e.Position < e.Head {
		text += fmt.Sprintf("; its log goes on to position %d", e.Head)
	}
	return text
}

// Explain folds a workspace's log up to a moment and follows one row. The error is a
// *domain.UnknownWorkspaceError, an *UnknownResourceError or a *NoRowError if there is nothing to
// explain. A row that was never created is explained by the entries that would have created it, if
// there are any.
func (r *Replayer) Explain(ctx context.Context, q ExplainRequest) (*Explanation, error) {
	i := slices.IndexFunc(r.tables, func(t *table.Table) bool { return t.Resource == q.Resource && t.HasID() })
	if i < 0 {
		return nil, &UnknownResourceError{q.Resource}
	}
	f := r.foldWithoutRows(q.WorkspaceID, nil)
	rows := newMemoryStore(r.tables, f.apply) // shadow tables cannot be looked at between two entries
	f.rows = rows
	position, head, err := f.findMoment(ctx, q)
	if err != nil {
		return nil, err
	}
	if q.Most > 0 && position > q.Most {
		return nil, nil //nolint:nilnil // as ExplainRequest.Most says
	}
	r.cfg.Progress.Workspaces.Add(1)
	r.cfg.Progress.Entries.Add(position)
	h := rowHistory{
		table: r.tables[i], folded: rows.folded, key: table.Key{q.ID}, setBy: map[string]EntryName{},
		entries: []ExplainedEntry{}, unapplied: []UnappliedEntry{},
	}
	f.afterApply, f.onSkip = h.observe, h.observeSkip
	if err := f.foldTo(ctx, position); err != nil {
		return nil, err
	}
	if len(h.entries) == 0 && len(h.unapplied) == 0 {
		return nil, &NoRowError{q.Resource, q.ID, q.WorkspaceID, position, head}
	}
	return h.explanation(q, position), nil
}

// findMoment returns the position that a request means, and the position at which the log ends.
func (f *workspaceFold) findMoment(ctx context.Context, q ExplainRequest) (position, head int64, err error) {
	var checkpoint, since int64
	after := q.At.Add(time.Millisecond) // publish times are whole milliseconds
	err = f.cfg.Pool.QueryRow(ctx, `
		SELECT h.position, c.position, log_position_since($1, $3)
		  FROM log_head h JOIN log_checkpoint c ON c.workspace_id = h.workspace_id AND c.consumer = $2
		 WHERE h.workspace_id = $1`, q.WorkspaceID, eventlog.ReadModels, after).Scan(&head, &checkpoint, &since)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, 0, &domain.UnknownWorkspaceError{WorkspaceID: q.WorkspaceID}
	case err != nil:
		return 0, 0, fmt.Errorf("find the moment in %s: %w", q.WorkspaceID, err)
	case q.AsOf > head:
		return 0, 0, fmt.Errorf("the log of %s ends at position %d, before %d", q.WorkspaceID, head, q.AsOf)
	case q.AsOf > 0:
		return q.AsOf, head, nil
	case !q.At.IsZero():
		return since - 1, head, nil
	}
	return checkpoint, head, nil
}

// rowHistory follows one row through the fold.
type rowHistory struct {
	table   *table.Table
	folded  *table.Fold
	key     table.Key
	names   []string          // fields in order; empty while there is no row
	values  map[string]string // by field, as JSON
	setBy   map[string]EntryName
	entries []ExplainedEntry

	unapplied []UnappliedEntry
}

// observe looks at the row after an entry was folded.
func (h *rowHistory) observe(e *domain.Entry) {
	h.observeAnomalies(e)
	changedAt := h.table.Position(h.folded, h.key)
	existed := len(h.names) > 0
	if changedAt != e.Position && (changedAt > 0) == existed {
		return
	}
	by := ExplainedEntry{EntryName: entryName(e), Fields: []string{}}
	if changedAt == 0 {
		by.Deleted = true
		h.names, h.values = nil, nil
		clear(h.setBy)
		h.entries = append(h.entries, by)
		return
	}
	names, values := h.fields()
	for _, name := range names {
		if old, known := h.values[name]; !known || old != values[name] {
			by.Fields = append(by.Fields, name)
			h.setBy[name] = by.EntryName
		}
	}
	h.names, h.values = names, values
	h.entries = append(h.entries, by)
}

// row returns the current values of the row's columns.
func (h *rowHistory) row() []string {
	values := make([]string, len(h.table.Columns))
	h.table.Expected(h.folded, h.key, values)
	return values
}

// fields returns the fields of the row's answer.
func (h *rowHistory) fields() (names []string, values map[string]string) {
	row := h.row()
	values = map[string]string{}
	for i, c := range h.table.Columns {
		if !c.Fragment {
			continue
		}
		part, partNames, _ := fieldsOf(row[i])
		names = append(names, partNames...)
		maps.Copy(values, part)
	}
	return names, values
}

func (h *rowHistory) explanation(q ExplainRequest, position int64) *Explanation {
	slices.SortStableFunc(h.unapplied, func(a, b UnappliedEntry) int { return cmp.Compare(a.Position, b.Position) }) // skips are noted a page early
	x := &Explanation{
		WorkspaceID: q.WorkspaceID, Resource: q.Resource, ID: q.ID, Position: position,
		Row: json.RawMessage("null"), Fields: []ExplainedField{}, History: h.entries, Unapplied: h.unapplied,
	}
	if len(h.names) == 0 {
		return x
	}
	row := h.row()
	x.Row = json.RawMessage(h.table.Answer(row))
	for i, c := range h.table.Columns {
		if c.HiddenBecause != "" && row[i] == "false" {
			x.Hidden = c.HiddenBecause
		}
	}
	for _, name := range h.names {
		x.Fields = append(x.Fields, ExplainedField{Name: name, Value: json.RawMessage(h.values[name]), SetBy: h.setBy[name]})
	}
	return x
}
