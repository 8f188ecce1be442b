package domain

import (
	"cmp"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Client is a row of /v1/clients.
type Client struct {
	Row
	Name, Status, BillingStatus, PlanName string
	BillingAddress                        *Address
	Contacts                              []Contact
	ContractStartDate, ContractEndDate    string
}

// Address is a client's billing address.
type Address struct {
	Line1, Line2, City, State, Zip, Country string
}

// Contact is a person at a client.
type Contact struct {
	FirstName, LastName, Title, Email, Phone string
	IsPrimary, ReceivesInvoices              jsonform.OptBool
}

var (
	addressFields = jsonform.Define([]jsonform.Field[Address]{
		{Name: "line_1", Form: FormText, Nullable: true, Example: `"12 Harbour Street"`, Doc: "First line, such as street and number; null when it is not known.", At: func(a *Address) any { return &a.Line1 }},
		{Name: "line_2", Form: FormText, Nullable: true, Example: `null`, Doc: "Second line; null without one.", At: func(a *Address) any { return &a.Line2 }},
		{Name: "city", Form: FormText, Nullable: true, Example: `"Springfield"`, Doc: "City; null when it is not known.", At: func(a *Address) any { return &a.City }},
		{Name: "state", Form: FormText, Nullable: true, Example: `"IL"`, Doc: "State, province or region; null without one.", At: func(a *Address) any { return &a.State }},
		{Name: "zip", Form: FormText, Nullable: true, Example: `"62701"`, Doc: "Postal code; null without one.", At: func(a *Address) any { return &a.Zip }},
		{Name: "country", Form: FormText, Nullable: true, Example: `"US"`, Doc: "Country as the workspace writes it; null when it is not known.", At: func(a *Address) any { return &a.Country }},
	})

	contactFields = jsonform.Define([]jsonform.Field[Contact]{
		{Name: "first_name", Form: FormText, Nullable: true, Example: `"Ada"`, Doc: "First name; null when it is not known.", At: func(c *Contact) any { return &c.FirstName }},
		{Name: "last_name", Form: FormText, Nullable: true, Example: `"Moreau"`, Doc: "Last name; null when it is not known.", At: func(c *Contact) any { return &c.LastName }},
		{Name: "title", Form: FormText, Nullable: true, Example: `"Head of finance"`, Doc: "Position at the client; null when it is not known.", At: func(c *Contact) any { return &c.Title }},
		{Name: "email", Form: FormText, Nullable: true, Example: `"ada@example.com"`, Doc: "Email address; null when it is not known.", At: func(c *Contact) any { return &c.Email }},
		{Name: "phone", Form: FormText, Nullable: true, Example: `null`, Doc: "Telephone number as it was written; null when it is not known.", At: func(c *Contact) any { return &c.Phone }},
		{Name: "is_primary", Form: FormBool, Example: `true`, Doc: "Whether this is the person to speak to first.", At: func(c *Contact) any { return &c.IsPrimary }},
		{Name: "receives_invoices", Form: FormBool, Example: `true`, Doc: "Whether invoices are sent to this person.", At: func(c *Contact) any { return &c.ReceivesInvoices }},
	})

	clientFields = jsonform.Define([]jsonform.Field[Client]{
		{Name: "id", Form: FormID, Example: `"cl_4821"`, Doc: "Id of the client in its workspace. It never changes.", At: func(c *Client) any { return &c.ID }},
		{Name: "name", Form: FormText, Nullable: true, Example: `"Northwind Clinic"`, Doc: "Name of the client; null once the client is forgotten. Rows that name the client follow when it changes.", At: func(c *Client) any { return &c.Name }},
		{Name: "status", Form: FormText, Known: []string{"active"}, Example: `"active"`, Doc: "State of the relation with the client, in the words of the workspace.", At: func(c *Client) any { return &c.Status }},
		{Name: "billing_status", Form: FormText, Known: []string{"active"}, Example: `"active"`, Doc: "Whether the client can be billed, in the words of the workspace.", At: func(c *Client) any { return &c.BillingStatus }},
		{Name: "plan_name", Form: FormText, Nullable: true, Example: `"Standard"`, Doc: "Plan of the client; null without one.", At: func(c *Client) any { return &c.PlanName }},
		{Name: "billing_address", Form: FormObject, Nullable: true, Doc: "Where invoices are addressed to; null when it is not known.", At: func(c *Client) any { return jsonform.ObjectOf(&c.BillingAddress, addressFields) }},
		{Name: "contacts", Form: FormArray, Doc: "People at the client, in the order in which the workspace keeps them.", At: func(c *Client) any { return jsonform.ArrayOf(&c.Contacts, contactFields) }},
		{Name: "contract_start_date", Form: FormDate, Nullable: true, Example: `"2025-01-01"`, Doc: "First day of the contract; null when it is not known.", At: func(c *Client) any { return &c.ContractStartDate }},
		{Name: "contract_end_date", Form: FormDate, Nullable: true, Example: `null`, Doc: "Last day of the contract; null when it has no end or it is not known.", At: func(c *Client) any { return &c.ContractEndDate }},
		{Name: "updated_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, Doc: "Publish time of the last entry that changed the row; lists are in this order.", At: func(c *Client) any { return &c.UpdatedAt }},
	})
)

// clientRecorded is the data of client.recorded.
type clientRecorded struct {
	references
	Name, Status, BillingStatus, PlanName string
	BillingAddress                        *Address
	Contacts                              []Contact
	ContractStartDate, ContractEndDate    string
}

var clientRecordedType = define(entryType[clientRecorded]{
	typeHead: typeHead{
		name: "client.recorded", object: "client", detached: []string{"name", "billing_address", "contacts"},
		when: "A client was added or changed. Fields that the entry leaves out become empty.",
	},
	fields: []jsonform.Field[clientRecorded]{
		{Name: "client_id", Form: FormID, Required: true, At: func(d *clientRecorded) any { return &d.ClientID }},
		{Name: "name", Form: FormText, Required: true, At: func(d *clientRecorded) any { return &d.Name }},
		{Name: "status", Form: FormText, At: func(d *clientRecorded) any { return &d.Status }},
		{Name: "billing_status", Form: FormText, At: func(d *clientRecorded) any { return &d.BillingStatus }},
		{Name: "plan_name", Form: FormText, At: func(d *clientRecorded) any { return &d.PlanName }},
		{Name: "billing_address", Form: FormObject, At: func(d *clientRecorded) any { return jsonform.ObjectOf(&d.BillingAddress, addressFields) }},
		{Name: "contacts", Form: FormArray, At: func(d *clientRecorded) any { return jsonform.ArrayOf(&d.Contacts, contactFields) }},
		{Name: "contract_start_date", Form: FormDate, At: func(d *clientRecorded) any { return &d.ContractStartDate }},
		{Name: "contract_end_date", Form: FormDate, At: func(d *clientRecorded) any { return &d.ContractEndDate }},
	},
	effect: recordClient,
	needs: func(n *Needs, d *clientRecorded) {
		n.credit(d.ClientID)
	},
	mass: func(m *MassEffects, d *clientRecorded) { m.ClientNames.add(d.ClientID, d.Name) },
})

func recordClient(f *fold, d *clientRecorded) {
	renamed := f.client(d.ClientID).Name != d.Name
	f.Clients.write(f.stamp, d.ClientID, func(r *Client) {
		r.Name = d.Name
		r.Status = cmp.Or(d.Status, "active")
		r.BillingStatus = cmp.Or(d.BillingStatus, "active")
		r.PlanName = d.PlanName
		r.BillingAddress = d.BillingAddress
		r.Contacts = d.Contacts
		r.ContractStartDate = d.ContractStartDate
		r.ContractEndDate = d.ContractEndDate
	})
	if renamed || f.Credits.Get(d.ClientID) == nil {
		f.nameCredit(d.ClientID, d.Name) // a credit exists as soon as its client does
	}
	if renamed {
		rename(f, byClient, d.ClientID, d.Name)
	}
}

// Party is a row's reference to a client or contractor. An empty ID means no reference and is shown
// as null. An empty Name means that the party is not recorded yet (docs/contract/log.md,
// "Parties").
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

// parties holds a row's references. A missing one, such as the contractor of a client's payment, is
// empty.
type parties struct {
	Client, Contractor Party
}
