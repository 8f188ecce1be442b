package projections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// ExplainRequest names a row and a moment.
type ExplainRequest struct {
	WorkspaceID  string
	Resource, ID string // one of Resources; of a client's credit, the client's id

	// AsOf is a position; At a time, up to and with which entries count. With
	// neither, the row is explained as readers see it now.
	AsOf int64
	At   time.Time
}

// Explanation says how a row came to be what it was at a position.
type Explanation struct {
	WorkspaceID string           `json:"workspace_id"`
	Resource    string           `json:"resource"`
	ID          string           `json:"id"`
	Position    int64            `json:"position"` // entries up to here count
	Row         json.RawMessage  `json:"row"`      // all parts of the answer; null: it was not there
	Hidden      string           `json:"hidden,omitempty"`
	Fields      []ExplainedField `json:"fields"`
	History     []ExplainedEntry `json:"history"` // every entry that changed the row, oldest first
}

// EntryName tells which entry something is about.
type EntryName struct {
	Position  int64  `json:"position"`
	EventID   string `json:"event_id"`
	Type      string `json:"type"`
	CreatedAt string `json:"created_at"` // publish time in the public form
}

// ExplainedField is a field of the row, and the entry that made it what it is.
type ExplainedField struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
	SetBy EntryName       `json:"set_by"`
}

// ExplainedEntry is an entry that changed the row.
type ExplainedEntry struct {
	EntryName
	Fields  []string `json:"fields"` // whose values it changed; none: it touched the row and left it the same
	Deleted bool     `json:"deleted,omitempty"`
}

// NoRowError says that there never was such a row, up to a position.
type NoRowError struct {
	Resource, ID, WorkspaceID string
	Position                  int64
}

// Error names the row.
func (e *NoRowError) Error() string {
	return fmt.Sprintf("no entry up to position %d of %s made a row %q of %s", e.Position, e.WorkspaceID, e.ID, e.Resource)
}

// Explain folds a workspace's log up to a moment and follows one row. The error
// is an *domain.UnknownWorkspaceError, an *UnknownResourceError or a *NoRowError when
// there is nothing to explain.
func (r *Replay) Explain(ctx context.Context, q ExplainRequest) (*Explanation, error) {
	i := slices.IndexFunc(r.sheets, func(s *sheet) bool { return s.resource == q.Resource && s.place != nil })
	if i < 0 {
		return nil, &UnknownResourceError{q.Resource}
	}
	f := r.unfolded(q.WorkspaceID, nil)
	rows := newMemoryRows(r.sheets, f.apply) // one row cannot be followed otherwise
	f.rows = rows
	target, err := f.moment(ctx, q)
	if err != nil {
		return nil, err
	}
	r.cfg.Meter.Workspaces.Add(1)
	r.cfg.Meter.Entries.Add(target)
	x := explaining{sheet: r.sheets[i], rows: rows, key: key{q.ID}, set: map[string]EntryName{}, values: map[string]string{}}
	f.folded = x.folded
	if err := f.through(ctx, target); err != nil {
		return nil, err
	}
	if len(x.history) == 0 {
		return nil, &NoRowError{q.Resource, q.ID, q.WorkspaceID, target}
	}
	return x.explanation(q, target), nil
}

// moment is the position that a request means.
func (r *refold) moment(ctx context.Context, q ExplainRequest) (int64, error) {
	var head, checkpoint, since int64
	after := q.At.Add(time.Millisecond) // publish times are whole milliseconds
	err := r.cfg.Pool.QueryRow(ctx, `
		SELECT h.position, c.position, log_position_since($1, $3)
		  FROM log_head h JOIN log_checkpoint c ON c.workspace_id = h.workspace_id AND c.consumer = $2
		 WHERE h.workspace_id = $1`, q.WorkspaceID, eventlog.ReadModels, after).Scan(&head, &checkpoint, &since)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, &domain.UnknownWorkspaceError{WorkspaceID: q.WorkspaceID}
	case err != nil:
		return 0, fmt.Errorf("find the moment in %s: %w", q.WorkspaceID, err)
	case q.AsOf > head:
		return 0, fmt.Errorf("the log of %s ends at position %d, before %d", q.WorkspaceID, head, q.AsOf)
	case q.AsOf > 0:
		return q.AsOf, nil
	case !q.At.IsZero():
		return since - 1, nil
	}
	return checkpoint, nil
}

// explaining follows one row through the fold.
type explaining struct {
	*sheet
	rows    *memoryRows
	key     key
	names   []string          // fields in order; empty while there is no row
	values  map[string]string // by field, as JSON
	set     map[string]EntryName
	history []ExplainedEntry
}

// folded looks at the row after an entry.
func (x *explaining) folded(e *domain.Entry) {
	place := x.place(x.rows, x.key)
	there := len(x.names) > 0
	if place != e.Position && (place > 0) == there {
		return
	}
	by := ExplainedEntry{EntryName: EntryName{e.Position, e.ID, e.Type, domain.FormatTime(e.CreatedAt)}, Fields: []string{}}
	if place == 0 {
		by.Deleted = true
		x.names = nil
		clear(x.values)
		clear(x.set)
		x.history = append(x.history, by)
		return
	}
	names, values := x.fields()
	for _, name := range names {
		if old, known := x.values[name]; !known || old != values[name] {
			by.Fields = append(by.Fields, name)
			x.set[name] = by.EntryName
		}
	}
	x.names, x.values = names, values
	x.history = append(x.history, by)
}

// fields reads the row as folded now.
func (x *explaining) fields() (names []string, values map[string]string) {
	image := make([]string, len(x.columns))
	x.image(x.rows, x.key, image)
	values = map[string]string{}
	for i, c := range x.columns {
		if !c.fragment {
			continue
		}
		part, partNames, _ := fieldsOf(image[i])
		names = append(names, partNames...)
		for name, v := range part {
			values[name] = v
		}
	}
	return names, values
}

func (x *explaining) explanation(q ExplainRequest, position int64) *Explanation {
	out := &Explanation{
		WorkspaceID: q.WorkspaceID, Resource: q.Resource, ID: q.ID, Position: position,
		Row: json.RawMessage("null"), Fields: []ExplainedField{}, History: x.history,
	}
	if len(x.names) == 0 {
		return out
	}
	image := make([]string, len(x.columns))
	x.image(x.rows, x.key, image)
	out.Row = json.RawMessage(x.answer(image))
	for i, c := range x.columns {
		if c.typ == typeBoolean && image[i] == "false" {
			out.Hidden = map[string]string{"shown": "a draft: no reader sees it", "billed": "not billed to the client: shown only with pay:read"}[c.name]
		}
	}
	for _, name := range x.names {
		out.Fields = append(out.Fields, ExplainedField{Name: name, Value: json.RawMessage(x.values[name]), SetBy: x.set[name]})
	}
	return out
}
