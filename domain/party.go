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
		{Name: "id", Form: FormID, Doc: "Id of the client or contractor.", Example: `"cl_4821"`},
		{Name: "name", Form: FormText, Nullable: true, Doc: "Name as it is now; null until the client or contractor is recorded.", Example: `"Northwind Clinic"`},
	}
}

// parties are the references of a row. A Payment without a contractor, say, has
// an empty one.
type parties struct {
	Client, Contractor Party
}
