package domain

import "github.com/ledgerfeed/ledgerfeed/domain/jsonform"

// ClosedPeriod says that a period is closed, for the workspace (ClientID is
// empty) or for one client. Its Row.ID is ClosedPeriodKey.
type ClosedPeriod struct {
	Row
	Period, ClientID string
}

// ClosedPeriodKey is the id of a closed period in a State.
func ClosedPeriodKey(period, clientID string) string { return period + "/" + clientID }

// closed reports whether a period is closed for a client, or for the workspace.
func (f *fold) closed(period, clientID string) bool {
	return f.Closures.Get(ClosedPeriodKey(period, "")) != nil ||
		f.Closures.Get(ClosedPeriodKey(period, clientID)) != nil
}

// periodClosed is the data of period.closed.
type periodClosed struct{ references }

var periodClosedType = define(entryType[periodClosed]{
	typeHead: typeHead{
		name: "period.closed", object: "period", public: true,
		when: "A billing period was closed, for the workspace or, with a client_id, for that client. Its invoices have period_closed from now on.",
	},
	fields: []jsonform.Field[periodClosed]{
		{Name: "period", Form: FormPeriod, Required: true, At: func(d *periodClosed) any { return &d.Period }},
		{Name: "client_id", Form: FormID, At: func(d *periodClosed) any { return &d.ClientID }},
	},
	effect: closePeriod,
	needs:  func(n *Needs, d *periodClosed) { n.Periods.add(d.Period) },
	mass:   func(m *MassEffects, d *periodClosed) { m.InvoicesIn.add(d.Period) },
})

func closePeriod(f *fold, d *periodClosed) {
	key := ClosedPeriodKey(d.Period, d.ClientID)
	if f.Closures.Get(key) == nil {
		f.Closures.write(f.stamp, key, func(c *ClosedPeriod) { c.Period, c.ClientID = d.Period, d.ClientID })
	}
	closed := change{
		of:    []reference{{byPeriod, d.Period}},
		where: []choice{is("period_closed", false)},
		set:   []value{{"period_closed", true}},
	}
	if d.ClientID != "" {
		closed.of = append(closed.of, reference{byClient, d.ClientID})
	}
	changeAll(f, &f.Invoices, closed)
}
