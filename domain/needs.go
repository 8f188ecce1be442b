package domain

// Needs names the rows that a segment's entries may read or change, so that a
// store can load them before the fold. Rows that are reached through a
// relation are named by the row they hang on.
type Needs struct {
	Invoices, Charges, TimeEntries, Payments Set
	Clients, Contractors                     Set // their rows, for names
	Credits                                  Set // by client id
	CreditMoves                              Set // by CreditMoveKey
	Periods                                  Set // closures of these periods

	LinesOf         Set               // time entries and charges of these invoices
	InvoicesIn      Set               // invoices of these periods
	ClientNames     map[string]string // clients recorded, with a name; see Renamed
	ContractorNames map[string]string
}

// Set is a set of ids.
type Set map[string]struct{}

func (s *Set) add(id string) {
	if id == "" {
		return
	}
	if *s == nil {
		*s = Set{}
	}
	(*s)[id] = struct{}{}
}

// List returns the ids, in no order.
func (s Set) List() []string {
	list := make([]string, 0, len(s))
	for id := range s {
		list = append(list, id)
	}
	return list
}

// severalNames marks a party that the segment records under more than one
// name; no name of a party can be it.
const severalNames = "\x00"

// Renamed tells whether rows that refer to a party may change: stored is the
// name that its stored row shows, empty when there is none.
func Renamed(recorded, stored string) bool { return recorded != stored }

// Add notes what an entry needs. Entries that cannot be read need nothing.
func (n *Needs) Add(e *Entry) {
	_, d, ok := e.read()
	if !ok {
		return
	}
	n.addData(e.Type, d)
}

func (n *Needs) addData(typ string, d *Data) {
	switch typ {
	case "client.recorded":
		n.Clients.add(d.ClientID)
		n.Credits.add(d.ClientID)
		noteName(&n.ClientNames, d.ClientID, d.Name)
	case "contractor.recorded":
		n.Contractors.add(d.ContractorID)
		noteName(&n.ContractorNames, d.ContractorID, d.Name)
	case "invoice.recorded", "credit_note.issued":
		n.Invoices.add(d.InvoiceID)
		n.parties(d)
		n.Periods.add(d.Period)
	case "invoice.issued", "invoice.sent", "invoice.paid", "invoice.voided":
		n.Invoices.add(d.InvoiceID)
		n.LinesOf.add(d.InvoiceID)
	case "invoice.reversed", "payout.sent_to_payroll":
		n.Invoices.add(d.InvoiceID)
	case "period.closed":
		n.Periods.add(d.Period)
		n.InvoicesIn.add(d.Period)
	case "payment.confirmed":
		n.Payments.add(d.PaymentID)
		n.parties(d)
	case TypePayoutPaid:
		n.Payments.add(d.PaymentID)
		n.parties(d)
		n.Invoices.add(d.InvoiceID)
		n.LinesOf.add(d.InvoiceID)
	case "time_entry.recorded":
		n.TimeEntries.add(d.TimeEntryID)
		n.parties(d)
	case "time_entry.approved", "time_entry.declined", "time_entry.deleted":
		n.TimeEntries.add(d.TimeEntryID)
	case "charge.created", "charge.recorded":
		n.Charges.add(d.ChargeID)
		n.parties(d)
	case "charge.deleted":
		n.Charges.add(d.ChargeID)
	case "credit.topped_up", "credit.applied", "credit.taken_back", "credit.expired":
		n.Credits.add(d.ClientID)
		n.CreditMoves.add(CreditMoveKey(d.ClientID, d.CreditID))
		if typ != "credit.topped_up" && typ != "credit.expired" {
			n.Invoices.add(d.InvoiceID)
		}
	}
}

func (n *Needs) parties(d *Data) {
	n.Clients.add(d.ClientID)
	n.Contractors.add(d.ContractorID)
}

//nolint:gocritic // ptrToRefParam: the map is made with the first name
func noteName(names *map[string]string, id, name string) {
	if *names == nil {
		*names = map[string]string{}
	}
	if known, twice := (*names)[id]; twice && known != name {
		name = severalNames
	}
	(*names)[id] = name
}
