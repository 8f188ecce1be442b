package domain

// Party is the reference to a client or contractor inside another row. An
// empty ID is no reference, shown as null; an empty name is a party that is
// not yet recorded (docs/contract/log.md, "Parties").
type Party struct {
	ID, Name string
}

func (p *Party) append(b []byte) []byte {
	if p.ID == "" {
		return append(b, "null"...)
	}
	b = appendString(append(b, `{"id":`...), p.ID)
	b = appendValue(append(b, `,"name":`...), &p.Name)
	return append(b, '}')
}

func (p *Party) scan(s *scanner) error {
	var err error
	if !s.literal(`{"id":`) {
		return s.fail("expected a party")
	}
	if p.ID, err = s.str(); err != nil {
		return err
	}
	if !s.literal(`,"name":`) {
		return s.fail("expected a party's name")
	}
	if err := scanValue(s, &p.Name); err != nil {
		return err
	}
	if !s.literal("}") {
		return s.fail("expected the end of a party")
	}
	return nil
}

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
	IsPrimary, ReceivesInvoices              OptBool
}

// Contractor is a row of /v1/contractors.
type Contractor struct {
	Row
	Name, Email, Status, Title string
}

var (
	addressFields = table([]Field[Address]{
		{Name: "line_1", Form: FormText, Nullable: true, Example: `"12 Harbour Street"`, at: func(a *Address) any { return &a.Line1 }},
		{Name: "line_2", Form: FormText, Nullable: true, Example: `null`, at: func(a *Address) any { return &a.Line2 }},
		{Name: "city", Form: FormText, Nullable: true, Example: `"Springfield"`, at: func(a *Address) any { return &a.City }},
		{Name: "state", Form: FormText, Nullable: true, Example: `"IL"`, at: func(a *Address) any { return &a.State }},
		{Name: "zip", Form: FormText, Nullable: true, Example: `"62701"`, at: func(a *Address) any { return &a.Zip }},
		{Name: "country", Form: FormText, Nullable: true, Example: `"US"`, at: func(a *Address) any { return &a.Country }},
	})

	contactFields = table([]Field[Contact]{
		{Name: "first_name", Form: FormText, Nullable: true, Example: `"Ada"`, at: func(c *Contact) any { return &c.FirstName }},
		{Name: "last_name", Form: FormText, Nullable: true, Example: `"Moreau"`, at: func(c *Contact) any { return &c.LastName }},
		{Name: "title", Form: FormText, Nullable: true, Example: `"Head of finance"`, at: func(c *Contact) any { return &c.Title }},
		{Name: "email", Form: FormText, Nullable: true, Example: `"ada@example.com"`, at: func(c *Contact) any { return &c.Email }},
		{Name: "phone", Form: FormText, Nullable: true, Example: `null`, at: func(c *Contact) any { return &c.Phone }},
		{Name: "is_primary", Form: FormBool, Default: "false", Example: `true`, at: func(c *Contact) any { return &c.IsPrimary }},
		{Name: "receives_invoices", Form: FormBool, Default: "false", Example: `true`, at: func(c *Contact) any { return &c.ReceivesInvoices }},
	})

	clientFields = table([]Field[Client]{
		{Name: "id", Form: FormID, Example: `"cl_4821"`, at: func(c *Client) any { return &c.ID }},
		{Name: "name", Form: FormText, Example: `"Northwind Clinic"`, at: func(c *Client) any { return &c.Name }},
		{Name: "status", Form: FormText, Known: []string{"active"}, Example: `"active"`, at: func(c *Client) any { return &c.Status }},
		{Name: "billing_status", Form: FormText, Known: []string{"active"}, Example: `"active"`, at: func(c *Client) any { return &c.BillingStatus }},
		{Name: "plan_name", Form: FormText, Nullable: true, Example: `"Standard"`, at: func(c *Client) any { return &c.PlanName }},
		{Name: "billing_address", Form: FormObject, Nullable: true, at: func(c *Client) any { return object[Address]{&c.BillingAddress, addressFields} }},
		{Name: "contacts", Form: FormArray, at: func(c *Client) any { return array[Contact]{&c.Contacts, contactFields} }},
		{Name: "contract_start_date", Form: FormDate, Nullable: true, Example: `"2025-01-01"`, at: func(c *Client) any { return &c.ContractStartDate }},
		{Name: "contract_end_date", Form: FormDate, Nullable: true, Example: `null`, at: func(c *Client) any { return &c.ContractEndDate }},
		{Name: "updated_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, at: func(c *Client) any { return &c.UpdatedAt }},
	})

	contractorFields = table([]Field[Contractor]{
		{Name: "id", Form: FormID, Example: `"co_118"`, at: func(c *Contractor) any { return &c.ID }},
		{Name: "name", Form: FormText, Example: `"Rosa Tran"`, at: func(c *Contractor) any { return &c.Name }},
		{Name: "email", Form: FormText, Nullable: true, Example: `"rosa@example.com"`, at: func(c *Contractor) any { return &c.Email }},
		{Name: "status", Form: FormText, Known: []string{"active"}, Example: `"active"`, at: func(c *Contractor) any { return &c.Status }},
		{Name: "title", Form: FormText, Nullable: true, Example: `"Engineer"`, at: func(c *Contractor) any { return &c.Title }},
		{Name: "updated_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, at: func(c *Contractor) any { return &c.UpdatedAt }},
	})
)

func partyTypes() []*Type {
	return []*Type{
		{
			Name: "client.recorded", Object: "client",
			object: func(d *Data) string { return d.ClientID },
			effect: (*fold).clientRecorded,
			Fields: []Field[Data]{
				required(fieldClientID()),
				fieldName(),
				fieldStatus(),
				byDefault(define("billing_status", FormText, func(d *Data) any { return &d.BillingStatus }), "active"),
				fieldPlanName(),
				define("billing_address", FormObject, func(d *Data) any { return object[Address]{&d.BillingAddress, addressFields} }),
				define("contacts", FormArray, func(d *Data) any { return array[Contact]{&d.Contacts, contactFields} }),
				define("contract_start_date", FormDate, func(d *Data) any { return &d.ContractStartDate }),
				define("contract_end_date", FormDate, func(d *Data) any { return &d.ContractEndDate }),
			},
		},
		{
			Name: "contractor.recorded", Object: "contractor",
			object: func(d *Data) string { return d.ContractorID },
			effect: (*fold).contractorRecorded,
			Fields: []Field[Data]{
				required(fieldContractorID()),
				fieldName(),
				define("email", FormText, func(d *Data) any { return &d.Email }),
				fieldStatus(),
				define("title", FormText, func(d *Data) any { return &d.Title }),
			},
		},
	}
}
