package domain

import "github.com/ledgerfeed/ledgerfeed/domain/jsonform"

// forgotten is the data of client.forgotten and contractor.forgotten. The detached values of the
// entries before it that are about the party are deleted; this is what becomes of the rows
// (docs/contract/log.md, "Forgetting").
type forgotten struct {
	references
	Reason string
}

// Names of the types that forget a party.
const (
	TypeClientForgotten     = "client.forgotten"
	TypeContractorForgotten = "contractor.forgotten"
)

var reasonField = jsonform.Field[forgotten]{Name: "reason", Form: FormText, At: func(d *forgotten) any { return &d.Reason }}

var clientForgottenType = define(entryType[forgotten]{
	typeHead: typeHead{
		name: TypeClientForgotten, object: "client",
		when: "A client is forgotten. The fields about people in all entries before this one are deleted for good.",
	},
	fields: []jsonform.Field[forgotten]{
		{Name: "client_id", Form: FormID, Required: true, At: func(d *forgotten) any { return &d.ClientID }},
		reasonField,
	},
	effect: forgetClient,
	needs:  func(n *Needs, d *forgotten) { n.credit(d.ClientID) },
	mass:   func(m *MassEffects, _ *forgotten) { m.Forgotten = true },
})

var contractorForgottenType = define(entryType[forgotten]{
	typeHead: typeHead{
		name: TypeContractorForgotten, object: "contractor",
		when: "A contractor is forgotten. The fields about people in all entries before this one are deleted for good.",
	},
	fields: []jsonform.Field[forgotten]{
		{Name: "contractor_id", Form: FormID, Required: true, At: func(d *forgotten) any { return &d.ContractorID }},
		reasonField,
	},
	effect: forgetContractor,
	needs:  func(n *Needs, d *forgotten) { n.Contractors.add(d.ContractorID) },
	mass:   func(m *MassEffects, _ *forgotten) { m.Forgotten = true },
})

func forgetClient(f *fold, d *forgotten) {
	if f.Clients.Get(d.ClientID) != nil {
		f.Clients.write(f.stamp, d.ClientID, func(r *Client) { r.Name, r.BillingAddress, r.Contacts = "", nil, nil })
	}
	if f.Credits.Get(d.ClientID) != nil {
		f.nameCredit(d.ClientID, "")
	}
	of := []reference{{byClient, d.ClientID}}
	nameless := value{"client", Party{ID: d.ClientID}}
	changeAll(f, &f.Invoices, change{of: of, set: []value{nameless, {"margin_note", ""}}})
	changeAll(f, &f.Charges, change{of: of, set: []value{nameless, {"description", ""}}})
	changeAll(f, &f.TimeEntries, change{of: of, set: []value{nameless, {"description", ""}}})
	changeAll(f, &f.Payments, change{of: of, set: []value{nameless}})
	changeAll(f, &f.CreditMoves, change{of: of, set: []value{{"note", ""}}, inPlace: true})
}

func forgetContractor(f *fold, d *forgotten) {
	if f.Contractors.Get(d.ContractorID) != nil {
		f.Contractors.write(f.stamp, d.ContractorID, func(r *Contractor) { r.Name, r.Email, r.Title = "", "", "" })
	}
	of := []reference{{byContractor, d.ContractorID}}
	nameless := value{"contractor", Party{ID: d.ContractorID}}
	changeAll(f, &f.Invoices, change{of: of, set: []value{nameless}})
	changeAll(f, &f.Charges, change{of: of, set: []value{nameless}})
	changeAll(f, &f.TimeEntries, change{of: of, set: []value{nameless, {"description", ""}}})
	changeAll(f, &f.Payments, change{of: of, set: []value{nameless}})
}
