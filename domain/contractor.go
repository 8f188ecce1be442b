package domain

import (
	"cmp"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Contractor is a row of /v1/contractors.
type Contractor struct {
	Row
	Name, Email, Status, Title string
}

var contractorFields = jsonform.Define([]jsonform.Field[Contractor]{
	{Name: "id", Form: FormID, Example: `"co_118"`, Doc: "Id of the contractor in its workspace. It never changes.", At: func(c *Contractor) any { return &c.ID }},
	{Name: "name", Form: FormText, Nullable: true, Example: `"Rosa Tran"`, Doc: "Name of the contractor; null once the contractor is forgotten. Rows that name the contractor follow when it changes.", At: func(c *Contractor) any { return &c.Name }},
	{Name: "email", Form: FormText, Nullable: true, Example: `"rosa@example.com"`, Doc: "Email address; null when it is not known.", At: func(c *Contractor) any { return &c.Email }},
	{Name: "status", Form: FormText, Known: []string{"active"}, Example: `"active"`, Doc: "State of the relation with the contractor, in the words of the workspace.", At: func(c *Contractor) any { return &c.Status }},
	{Name: "title", Form: FormText, Nullable: true, Example: `"Engineer"`, Doc: "Profession or position; null when it is not known.", At: func(c *Contractor) any { return &c.Title }},
	{Name: "updated_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, Doc: "Publish time of the last entry that changed the row; lists are in this order.", At: func(c *Contractor) any { return &c.UpdatedAt }},
})

// contractorRecorded is the data of contractor.recorded.
type contractorRecorded struct {
	references
	Name, Email, Status, Title string
}

const typeContractorRecorded = "contractor.recorded"

var contractorRecordedType = define(entryType[contractorRecorded]{
	typeHead: typeHead{
		name: typeContractorRecorded, object: "contractor", detached: []string{"name", "email", "title"},
		when: "A contractor was added or changed. Fields that the entry leaves out become empty.",
	},
	fields: []jsonform.Field[contractorRecorded]{
		{Name: "contractor_id", Form: FormID, Required: true, At: func(d *contractorRecorded) any { return &d.ContractorID }},
		{Name: "name", Form: FormText, Required: true, At: func(d *contractorRecorded) any { return &d.Name }},
		{Name: "email", Form: FormText, At: func(d *contractorRecorded) any { return &d.Email }},
		{Name: "status", Form: FormText, At: func(d *contractorRecorded) any { return &d.Status }},
		{Name: "title", Form: FormText, At: func(d *contractorRecorded) any { return &d.Title }},
	},
	effect: recordContractor,
	needs:  func(n *Needs, d *contractorRecorded) { n.Contractors.add(d.ContractorID) },
	mass:   func(m *MassEffects, d *contractorRecorded) { m.ContractorNames.add(d.ContractorID, d.Name) },
})

func recordContractor(f *fold, d *contractorRecorded) {
	renamed := f.contractor(d.ContractorID).Name != d.Name
	f.Contractors.write(f.stamp, d.ContractorID, func(r *Contractor) {
		r.Name = d.Name
		r.Email = d.Email
		r.Status = cmp.Or(d.Status, "active")
		r.Title = d.Title
	})
	if renamed {
		rename(f, byContractor, d.ContractorID, d.Name)
	}
}
