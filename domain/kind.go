package domain

import (
	"slices"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// references are the five ids that every type of entry accepts, whether or not
// its row lists them. The data of every type embeds them.
type references struct {
	InvoiceID, InvoiceNumber, ClientID, ContractorID, Period string
}

func (r *references) refs() *references { return r }

// referenceFields are the references in the order of the contract.
var referenceFields = [...]struct {
	name string
	form Form
	at   func(*references) *string
}{
	{"invoice_id", FormID, func(r *references) *string { return &r.InvoiceID }},
	{"invoice_number", FormText, func(r *references) *string { return &r.InvoiceNumber }},
	{"client_id", FormID, func(r *references) *string { return &r.ClientID }},
	{"contractor_id", FormID, func(r *references) *string { return &r.ContractorID }},
	{"period", FormPeriod, func(r *references) *string { return &r.Period }},
}

// data is a pointer to the data of one type of entry.
type data[D any] interface {
	*D
	refs() *references
}

// entryType is one row of the catalogue (docs/contract/log.md, "Catalogue"):
// everything that is particular to one type of entry. D is its data, with absent
// fields zero.
type entryType[D any] struct {
	typeHead
	fields []jsonform.Field[D] // those that the catalogue lists, in its order; the first is the id of the object

	// effect changes the rows of a State. It may read and change the rows that
	// needs names by their ids, and change the rows that mass names by what they
	// refer to. needs and mass may be nil.
	effect func(*fold, *D)
	needs  func(*Needs, *D)
	mass   func(*MassEffects, *D)

	// payOnly reports whether the row that an entry makes is only for readers who may
	// see pay. Nil: it never is. The Part of a field says the same of the field.
	payOnly func(*D) bool

	table jsonform.Fields[D] // fields, then the references that they lack
	refs  func(*D) *references
}

// typeHead is what entries of one type have in common.
type typeHead struct {
	name   string
	object string   // object_type of the public form
	public bool     // whether the feed and webhooks show entries of this type
	pay    bool     // whether they are about what contractors are paid, and nothing else
	when   string   // of public types: what has happened when one is sent, for documentation
	always []string // the references that every entry of the type has; set by define
}

// kind is a row of the catalogue for code that works with every type of entry.
type kind interface {
	head() *typeHead
	// read decodes the data of an entry. Faults of form are added to errs; the
	// error is about invalid JSON alone. Where there is neither, the content is
	// that of the entry.
	read(text string, errs *jsonform.FieldErrors) (content, error)
	descriptions() []jsonform.FieldDescription
}

// content is the data of one entry, together with the row of its type.
type content interface {
	appendData(b []byte) []byte       // in canonical form
	appendPublicData(b []byte) []byte // the data object of the public form
	// checkExact adds a fault for each whole number that is not exact in readers that take
	// numbers for floating-point ones. Only new entries are checked.
	checkExact(errs *jsonform.FieldErrors)
	addNeeds(n *Needs)
	apply(f *fold)
	payOnly() bool
}

// define completes a row of the catalogue.
func define[D any, P data[D]](t entryType[D]) kind {
	t.refs = func(d *D) *references { return P(d).refs() }
	for i := range referenceFields {
		required := func(f jsonform.Field[D]) bool { return f.Name == referenceFields[i].name && f.Required }
		if slices.ContainsFunc(t.fields, required) {
			t.always = append(t.always, referenceFields[i].name)
		}
	}
	t.table = jsonform.Define(t.fields, missingReferences(t.fields, t.refs))
	return &t
}

// missingReferences are the references that a type does not list.
func missingReferences[D any](listed []jsonform.Field[D], refs func(*D) *references) (missing []jsonform.Field[D]) {
	for _, ref := range referenceFields {
		is := func(f jsonform.Field[D]) bool { return f.Name == ref.name }
		if !slices.ContainsFunc(listed, is) {
			missing = append(missing, jsonform.Field[D]{Name: ref.name, Form: ref.form, At: func(d *D) any { return ref.at(refs(d)) }})
		}
	}
	return missing
}

func (t *entryType[D]) head() *typeHead { return &t.typeHead }

func (t *entryType[D]) read(text string, errs *jsonform.FieldErrors) (content, error) {
	c := &contentOf[D]{typ: t}
	return c, t.table.Decode(text, "data", &c.data, errs)
}

func (t *entryType[D]) descriptions() []jsonform.FieldDescription { return t.table.Describe() }

// contentOf is the content of an entry of one type.
type contentOf[D any] struct {
	typ  *entryType[D]
	data D
}

// MaxInteger is the largest whole number that an entry may give: up to it, all are exact as
// floating-point numbers, which many readers of JSON make of them.
const MaxInteger = 1<<53 - 1

func (c *contentOf[D]) checkExact(errs *jsonform.FieldErrors) {
	for i := range c.typ.fields {
		f := &c.typ.fields[i]
		if n, ok := f.At(&c.data).(*jsonform.OptInt); ok && n.Int > MaxInteger {
			errs.WrongForm("data."+f.Name, f.Form.Description())
		}
	}
}

func (c *contentOf[D]) appendData(b []byte) []byte { return c.typ.table.AppendGiven(b, &c.data) }

func (c *contentOf[D]) addNeeds(n *Needs) {
	if c.typ.needs != nil {
		c.typ.needs(n, &c.data)
	}
	if c.typ.mass != nil {
		c.typ.mass(&n.MassEffects, &c.data)
	}
}

func (c *contentOf[D]) apply(f *fold) { c.typ.effect(f, &c.data) }

func (c *contentOf[D]) payOnly() bool {
	return c.typ.pay || c.typ.payOnly != nil && c.typ.payOnly(&c.data)
}

// appendPublicData appends what the entry is about and the references it gives
// (docs/contract/log.md, "What the feed and webhooks show"). It reads nothing
// else of an entry.
func (c *contentOf[D]) appendPublicData(b []byte) []byte {
	b = jsonform.AppendString(append(b, `{"object_type":`...), c.typ.object)
	b = jsonform.AppendString(append(b, `,"object_id":`...), *c.typ.fields[0].At(&c.data).(*string))
	refs := c.typ.refs(&c.data)
	for i := range referenceFields {
		if id := *referenceFields[i].at(refs); id != "" {
			b = append(append(append(b, `,"`...), referenceFields[i].name...), `":`...)
			b = jsonform.AppendString(b, id)
		}
	}
	return append(b, '}')
}

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

// GivenField is a field that an entry gives.
type GivenField struct {
	jsonform.FieldDescription

	JSON string // its value
}

// Given returns the fields that the entry gives, in the order of the catalogue. Those of
// the parts Pay and Margin are only for readers who may see them; payOnly says that
// nothing of the entry is for readers who may not see pay. An entry that this version
// cannot read gives nothing.
func (e *Entry) Given() (fields []GivenField, payOnly bool) {
	c := e.read()
	if c == nil {
		return nil, false
	}
	members, err := jsonform.Members(e.Data)
	if err != nil { // the data was decoded, so it is an object
		return nil, false
	}
	described := kindNamed(e.Type).descriptions()
	for _, m := range members {
		for i := range described {
			if described[i].Name == m.Name {
				fields = append(fields, GivenField{described[i], m.JSON})
			}
		}
	}
	return fields, c.payOnly()
}
