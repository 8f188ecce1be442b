package domain

// Needs names the rows that the entries of a segment may read or change, so that
// a store can load them before the fold.
type Needs struct {
	Invoices, Charges, TimeEntries, Payments Set
	Clients, Contractors                     Set // their rows, for names
	Credits                                  Set // by client id
	CreditMoves                              Set // by CreditMoveKey
	Periods                                  Set // the closures of these periods
	RemovedTimeEntries, RemovedCharges       Set // the tombstones of these rows

	MassEffects
}

// MassEffects names the rows that entries may change without naming them:
// those that refer to an object that the entry is about. There can be any number
// of them.
type MassEffects struct {
	LinesOf    Set // the time entries and charges of these invoices
	InvoicesIn Set // the invoices of these periods
	// The parties that were recorded, with their new names. Where Renamed says
	// so, every invoice, charge, time entry and payment of the party.
	ClientNames, ContractorNames names
}

// Set is a set of ids.
type Set map[string]struct{}

// add adds an id; no id adds nothing.
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

// names are the new names of parties, by id.
type names map[string]string

// severalNames stands for the name of a party that a segment records under more
// than one. No text of an entry equals it, so Renamed is true for it.
const severalNames = "\x00"

func (n *names) add(id, name string) {
	if *n == nil {
		*n = names{}
	}
	if known, twice := (*n)[id]; twice && known != name {
		name = severalNames
	}
	(*n)[id] = name
}

// Renamed reports whether recording a party may change the rows that refer to
// it. stored is the name in the party's stored row; empty when there is none.
func Renamed(recorded, stored string) bool { return recorded != stored }

// Add adds what an entry needs. An entry that cannot be read needs nothing.
func (n *Needs) Add(e *Entry) {
	if c := e.read(); c != nil {
		c.addNeeds(n)
	}
}

// parties adds the rows that the names of an entry's parties come from.
func (n *Needs) parties(r *references) {
	n.Clients.add(r.ClientID)
	n.Contractors.add(r.ContractorID)
}
