package domain

import (
	"slices"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// references holds the five ids that every entry type accepts, whether or not its catalogue row
// lists them. The data struct of every type embeds it.
type references struct {
	InvoiceID, InvoiceNumber, ClientID, ContractorID, Period string
}

func (r *references) refs() *references { return r }

// referenceFields lists the fields of references in the order of the contract.
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

// data is a pointer to an entry type's data struct.
type data[D any] interface {
	*D
	refs() *references
}

// entryType is one row of the catalogue (docs/contract/log.md, "Catalogue"): everything specific to
// one entry type. D is its data struct; absent fields are zero.
type entryType[D any] struct {
	typeHead
	fields []jsonform.Field[D] // the fields that the catalogue lists, in its order; the first is the object's id

	// effect changes the rows of a State. It may read and change the rows whose ids needs adds. It
	// may also change, by changeAll, the rows that refer to an object that mass adds. needs and
	// mass may be nil.
	effect func(*fold, *D)
	needs  func(*Needs, *D)
	mass   func(*MassEffects, *D)

	// payOnly reports whether only readers with pay:read may see the row that an entry makes; nil:
	// never. The Part of a field restricts that field in the same way.
	payOnly func(*D) bool

	table jsonform.Fields[D] // fields, followed by the references that are not among them
	open  jsonform.Fields[D] // the fields that stay in the log
	value jsonform.Fields[D] // the fields that are detached
	refs  func(*D) *references
}

// typeHead is the part of an entry type that does not depend on its data struct.
type typeHead struct {
	name   string
	object string   // object_type of the public form
	public bool     // whether the feed and webhooks show entries of this type
	pay    bool     // whether they are only about contractors' pay
	when   string   // what an entry reports, in sentences, for documentation
	always []string // the references that every entry of the type has; set by define

	// detached names the fields that are about people. They are kept next to the log, so that they
	// can be forgotten (docs/contract/log.md, "Detached fields").
	detached []string
}

// kind is a row of the catalogue without the type parameter, for code that handles every entry
// type.
type kind interface {
	head() *typeHead
	// read decodes an entry's data. It adds faulty fields to errs; the error is only for invalid
	// JSON. The content is usable only if there are neither.
	read(text string, errs *jsonform.FieldErrors) (content, error)
	// readStored is read for the open part of a stored form and its detached value. An empty value
	// is forgotten, and its fields are absent.
	readStored(open, value string, errs *jsonform.FieldErrors) (content, error)
	descriptions() []jsonform.FieldDescription
}

// content is the decoded data of one entry, together with its entry type.
type content interface {
	appendData(b []byte) []byte       // in canonical form
	appendOpen(b []byte) []byte       // the same without the detached fields
	appendValue(b []byte) []byte      // the detached fields alone; nothing if none is given
	appendPublicData(b []byte) []byte // the data object of the public form
	// checkExact adds a fault for each whole number that readers who use floating point would
	// round. It is called only for new entries.
	checkExact(errs *jsonform.FieldErrors)
	personalID() string
	refs() *references
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
	missing := missingReferences(t.fields, t.refs)
	t.table = jsonform.Define(t.fields, missing)
	var open, value []jsonform.Field[D]
	for _, f := range t.fields {
		if slices.Contains(t.detached, f.Name) {
			value = append(value, f)
		} else {
			open = append(open, f)
		}
	}
	t.open, t.value = jsonform.Define(open, missing), jsonform.Define(value)
	return &t
}

// missingReferences returns the references that a type does not list.
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

func (t *entryType[D]) readStored(open, value string, errs *jsonform.FieldErrors) (content, error) {
	c := &contentOf[D]{typ: t}
	if err := t.open.Decode(open, "data", &c.data, errs); err != nil || value == "" {
		return c, err
	}
	return c, t.value.Decode(value, "data", &c.data, errs)
}

func (t *entryType[D]) descriptions() []jsonform.FieldDescription { return t.table.Describe() }

// contentOf implements content for one entry type.
type contentOf[D any] struct {
	typ  *entryType[D]
	data D
}

// MaxInteger is the largest whole number allowed in an entry. Many JSON readers use floating point,
// in which all whole numbers up to this one are exact.
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

func (c *contentOf[D]) appendOpen(b []byte) []byte { return c.typ.open.AppendGiven(b, &c.data) }

func (c *contentOf[D]) appendValue(b []byte) []byte {
	value := c.typ.value.AppendGiven(b, &c.data)
	if len(value) == len(b)+len("{}") {
		return b
	}
	return value
}

func (c *contentOf[D]) personalID() string {
	for i := range c.typ.table {
		f := &c.typ.table[i]
		if f.Form != FormID && f.Name != "invoice_number" && f.Name != "number" {
			continue
		}
		if text := *f.At(&c.data).(*string); LooksPersonal(text) {
			return f.Name + " " + text
		}
	}
	return ""
}

func (c *contentOf[D]) refs() *references { return c.typ.refs(&c.data) }

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

// appendPublicData appends the entry's object and references (docs/contract/log.md, "What the feed
// and webhooks show"). It uses nothing else of the entry.
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
	Clients, Contractors                     Set // for the names in rows
	Credits                                  Set // by client id
	CreditMoves                              Set // by CreditMoveKey
	Periods                                  Set // the closures of these periods
	RemovedTimeEntries, RemovedCharges       Set // the tombstones of these rows

	MassEffects
}

// MassEffects describes the rows that entries may change without naming their ids: all rows that
// refer to an object that the entry is about. There may be any number of them.
type MassEffects struct {
	LinesOf    Set // the time entries and charges of these invoices
	InvoicesIn Set // the invoices of these periods
	// Recorded parties with their new names. If Renamed reports true, this means every invoice,
	// charge, time entry and payment of the party.
	ClientNames, ContractorNames names

	// A party is forgotten. That changes so many kinds of rows that a store always applies it as a
	// MassChange.
	Forgotten bool
}

// Set is a set of ids.
type Set map[string]struct{}

// add adds an id unless it is empty.
func (s *Set) add(id string) {
	if id == "" {
		return
	}
	if *s == nil {
		*s = Set{}
	}
	(*s)[id] = struct{}{}
}

// List returns the ids in no particular order.
func (s Set) List() []string {
	list := make([]string, 0, len(s))
	for id := range s {
		list = append(list, id)
	}
	return list
}

// names maps the ids of parties to their new names.
type names map[string]string

// severalNames stands for the name of a party that a segment records under several names. No
// entry's text equals it, so Renamed reports true for it.
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

// Add adds the rows that an entry needs. An unreadable entry needs none.
func (n *Needs) Add(e *Entry) {
	if c := e.read(); c != nil {
		c.addNeeds(n)
	}
}

// parties adds the client and contractor rows that provide the names for an entry's references.
func (n *Needs) parties(r *references) {
	n.Clients.add(r.ClientID)
	n.Contractors.add(r.ContractorID)
}

// credit adds a client's credit, and the client for the name in it.
func (n *Needs) credit(clientID string) {
	n.Credits.add(clientID)
	n.Clients.add(clientID)
}

// GivenField is a field that an entry contains.
type GivenField struct {
	jsonform.FieldDescription

	JSON string // its value
}

// Given returns the fields that the entry contains, in the order of the catalogue. Show those of
// the parts Pay and Margin only to readers with the permission. If payOnly is true, show nothing of
// the entry to readers without pay:read. For an entry that this version cannot read, both results
// are zero.
func (e *Entry) Given() (fields []GivenField, payOnly bool) {
	c := e.read()
	if c == nil {
		return nil, false
	}
	members, err := jsonform.Members(e.Whole())
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
