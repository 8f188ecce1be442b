package events

import (
	"context"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// change is what an event changed.
type change struct {
	Position int64
	Meaning  string   // what events of its type change
	Reasons  []string // why it had no effect, or not all of it
	Unread   bool     // the rest could not be read in time
	Hidden   bool     // the rest is only for people who may see pay

	Compared      bool // the fields are those of the object before and afterwards; otherwise what the entry gives
	Made, Deleted bool // the object
	Fields        []changedField
	Others        string // the other rows that changed, such as "2 time entries and 1 charge"
}

// changedField is a field with its values in lines.
type changedField struct {
	Name          string
	Before, After []string
}

// rowOf is the row that an event is about, as replay names it; empty: none.
func rowOf(e *event) (resource, id string) {
	switch e.Data.ObjectType {
	case "invoice", "credit_note":
		return "invoices", e.Data.ObjectID
	case "payout":
		return "payments", e.Data.ObjectID
	case "time_entry":
		return "time-entries", e.Data.ObjectID
	case "charge":
		return "charges", e.Data.ObjectID
	case "credit":
		return "credit", e.Data.ClientID
	}
	return "", ""
}

// readChange compares the rows before and after the event where the log up to it is
// short, and says what its entry gives elsewhere.
func (p *Pages) readChange(ctx context.Context, r *web.Request, entry *domain.Entry, e *event) change {
	c := change{Position: entry.Position, Meaning: label.Change(e.Type)}
	given, payOnly := entry.Given()
	if c.Hidden = payOnly && !r.Session.MaySeePay(); c.Hidden {
		return c
	}
	reasons, err := p.Anomalies.At(ctx, anomaly.Filter{WorkspaceID: entry.WorkspaceID, All: true}, entry.Position)
	if err != nil {
		r.Warn("cannot read whether an event is an anomaly", err)
		c.Unread = true
		return c
	}
	for i := range reasons {
		c.Reasons = append(c.Reasons, anomaly.Explain(reasons[i].Reason))
	}
	resource, id := rowOf(e)
	effect, err := p.Replayer.EffectOf(ctx, replay.EffectRequest{WorkspaceID: entry.WorkspaceID, Position: entry.Position, Resource: resource, ID: id})
	switch {
	case err != nil:
		r.Warn("cannot read what an event changed", err)
		c.Unread = true
	case effect == nil:
		c.give(given, r.Session.MaySeePay())
	default:
		c.compare(effect, r.Session.MaySeePay())
	}
	return c
}

// repeated tells whether a field says nothing new: what the page shows anyway, and the
// parts of a period, whose label is shown.
func repeated(name string) bool {
	switch name {
	case "id", "client_id", "contractor_id", "updated_at", "period", "period_start", "period_end":
		return true
	}
	return false
}

func (c *change) give(given []domain.GivenField, pay bool) {
	for i := range given {
		f := &given[i]
		if i > 0 && (pay || f.Part == domain.Base) && (f.Name == "period" || !repeated(f.Name)) { // the first is the object's id
			c.Fields = append(c.Fields, changedField{Name: label.Field(f.Name), After: label.Value(f.Name, f.JSON)})
		}
	}
}

func (c *change) compare(effect *replay.Effect, pay bool) {
	c.Compared = true
	var others []string
	for _, o := range effect.Others {
		if !pay {
			o.Rows -= o.PayOnly
		}
		if o.Rows > 0 {
			others = append(others, label.Rows(o.Resource, o.Rows))
		}
	}
	if last := len(others) - 1; last > 0 {
		others = append(others[:last-1], others[last-1]+" and "+others[last])
	}
	c.Others = strings.Join(others, ", ")
	row := effect.Row
	if row == nil {
		return
	}
	if row.PayOnly && !pay {
		c.Hidden = true
		return
	}
	c.Made, c.Deleted = row.Made, row.Deleted
	for _, f := range row.Fields {
		empty := f.Before+f.After == "null" || f.Before+f.After == "false" || f.Before+f.After == "[]" // in a row that was made or deleted
		if (pay || f.Part == domain.Base) && !empty && !repeated(f.Name) {
			c.Fields = append(c.Fields, changedField{label.Field(f.Name), label.Value(f.Name, f.Before), label.Value(f.Name, f.After)})
		}
	}
}
