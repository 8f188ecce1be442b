package domain

import "github.com/ledgerfeed/ledgerfeed/domain/jsonform"

// Party is the reference to a client or contractor inside another row. An empty
// ID is no reference, shown as null; an empty Name is a party that is not
// recorded yet (docs/contract/log.md, "Parties").
type Party struct {
	ID, Name string
}

// AppendJSON appends the reference, or null.
func (p *Party) AppendJSON(b []byte) []byte {
	if p.ID == "" {
		return append(b, "null"...)
	}
	b = jsonform.AppendString(append(b, `{"id":`...), p.ID)
	b = jsonform.AppendText(append(b, `,"name":`...), p.Name)
	return append(b, '}')
}

// ScanJSON reads a reference.
func (p *Party) ScanJSON(s *jsonform.Scanner) (err error) {
	if !s.Literal(`{"id":`) {
		return s.Fail("expected a party")
	}
	if p.ID, err = s.Text(); err != nil {
		return err
	}
	if !s.Literal(`,"name":`) {
		return s.Fail("expected a party's name")
	}
	if !s.Literal("null") {
		if p.Name, err = s.Text(); err != nil {
			return err
		}
	}
	if !s.Literal("}") {
		return s.Fail("expected the end of a party")
	}
	return nil
}

// DescribeJSON describes a reference for documentation.
func (p *Party) DescribeJSON() (string, []jsonform.FieldDescription) {
	return "PartyReference", []jsonform.FieldDescription{
		{Name: "id", Form: FormID, Example: `"cl_4821"`},
		{Name: "name", Form: FormText, Nullable: true, Doc: "Null until the party is recorded.", Example: `"Northwind Clinic"`},
	}
}

// parties are the references of a row. A Payment without a contractor, say, has
// an empty one.
type parties struct {
	Client, Contractor Party
}

func (p *parties) party(rel relation) *Party {
	if rel == byContractor {
		return &p.Contractor
	}
	return &p.Client
}

// client returns the reference to a client, with the name it has now.
func (f *fold) client(id string) Party {
	p := Party{ID: id}
	if c := f.Clients.Get(id); c != nil {
		p.Name = c.Name
	}
	return p
}

// contractor returns the reference to a contractor, with the name it has now.
func (f *fold) contractor(id string) Party {
	p := Party{ID: id}
	if c := f.Contractors.Get(id); c != nil {
		p.Name = c.Name
	}
	return p
}

// rename shows a party's new name in every row that refers to it; rel is byClient
// or byContractor.
func rename(f *fold, rel relation, id, name string) {
	f.Invoices.change(f.stamp, rel, id, func(r *Invoice) bool { r.party(rel).Name = name; return true })
	f.Charges.change(f.stamp, rel, id, func(r *Charge) bool { r.party(rel).Name = name; return true })
	f.TimeEntries.change(f.stamp, rel, id, func(r *TimeEntry) bool { r.party(rel).Name = name; return true })
	f.Payments.change(f.stamp, rel, id, func(r *Payment) bool { r.party(rel).Name = name; return true })
}
