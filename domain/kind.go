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
