package domain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// EntryTypeDescription describes an entry type for producers.
type EntryTypeDescription struct {
	Type     string
	Meaning  string                      // what an entry reports, in sentences
	Public   bool                        // whether an entry makes an event of the same type
	Detached []string                    // the fields that are kept next to the log, so that they can be forgotten
	Members  []jsonform.FieldDescription // of an entry as append takes it; data has the fields of the type
}

// EntryTypes describes the entry types, in the order of the contract.
func EntryTypes() []EntryTypeDescription {
	list := make([]EntryTypeDescription, len(catalogue))
	for i, k := range catalogue {
		h := k.head()
		list[i] = EntryTypeDescription{Type: h.name, Meaning: h.when, Public: h.public, Detached: h.detached, Members: membersOf(k)}
	}
	return list
}

// Example returns the shortest line that append takes: the members that are required.
func (t *EntryTypeDescription) Example() string { return exampleOf(t.Members, true) }

func membersOf(k kind) []jsonform.FieldDescription {
	h := k.head()
	members := slices.DeleteFunc(envelopeFields.Describe(), func(f jsonform.FieldDescription) bool {
		// Only append --restore takes a stored form.
		return f.Name == "stored" || f.Name == "salt" && len(h.detached) == 0
	})
	for i := range members {
		switch m := &members[i]; m.Name {
		case "type":
			m.Form, m.Values = FormEnum, []string{h.name}
		case "data":
			m.Required = true // an entry without it has a stored form
			m.Fields = k.descriptions()
		}
	}
	forProducers(members, h)
	return members
}

// forProducers completes descriptions. Those of objects inside are of answers too: they say when a
// value is null, which it never is in an entry.
func forProducers(fields []jsonform.FieldDescription, of *typeHead) {
	for i := range fields {
		f := &fields[i]
		m := meanings[meaningKey(of, f.Name)]
		if doc, _, found := strings.Cut(f.Doc, "; null"); found {
			f.Doc = doc + "."
		}
		f.Doc = cmp.Or(f.Doc, m.doc)
		switch {
		case f.Fields != nil:
			forProducers(f.Fields, of)
			f.Example = exampleOf(f.Fields, f.Name == "data")
			if f.Form == FormArray {
				f.Example = "[" + f.Example + "]"
			}
		case f.Values != nil:
			f.Example = `"` + f.Values[0] + `"`
		case f.Example == "" || f.Example == "null":
			f.Example = cmp.Or(m.example, f.Form.(Form).example())
		}
	}
}

// exampleOf returns an example of an object of all its fields, or of the required ones alone.
func exampleOf(fields []jsonform.FieldDescription, required bool) string {
	return jsonform.ExampleOf(slices.DeleteFunc(slices.Clone(fields), func(f jsonform.FieldDescription) bool { return required && !f.Required }))
}

// meaning says what a field means, and gives an example as JSON where the form's own says too little.
type meaning struct{ doc, example string }

// meaningKey returns the key of a field's meaning: in this type, of this object, or anywhere.
func meaningKey(of *typeHead, field string) string {
	for _, key := range []string{of.name + "." + field, of.object + "." + field} {
		if _, found := meanings[key]; found {
			return key
		}
	}
	return field
}

// meanings says what the fields of entries mean, by their names. A name that means something else
// in some types has their name, or their object's, in front.
var meanings = map[string]meaning{
	// The references, which every type takes.
	"invoice_id":                        {"Id of the invoice.", `"in_1042"`},
	"credit_note.invoice_id":            {"Id of the credit note itself, which is a row among invoices.", `"in_1043"`},
	"invoice_number":                    {"Number of a document of the invoice.", `"INV-1042"`},
	"invoice.issued.invoice_number":     {"Number of the new document.", `"INV-1042"`},
	"invoice.sent.invoice_number":       {"Number of the document that was sent. Absent: every document that was issued.", `"INV-1042"`},
	"invoice.paid.invoice_number":       {"Number of the document that was paid. Absent: every document that is not voided.", `"INV-1042"`},
	"invoice.voided.invoice_number":     {"Number of the document that was withdrawn.", `"INV-1042"`},
	"credit_note.issued.invoice_number": {"Number of the credit note.", `"CN-7"`},
	"client_id":                         {"Id of the client.", `"cl_4821"`},
	"period.closed.client_id":           {"The client that the period is closed for. Absent: the whole workspace.", `"cl_4821"`},
	"contractor_id":                     {"Id of the contractor.", `"co_118"`},
	"period":                            {"Billing period: a month, an ISO week, or two weeks.", ""},

	// Clients and contractors.
	"client.name":         {"Name of the client. Rows that name the client follow when it changes.", `"Northwind Clinic"`},
	"contractor.name":     {"Name of the contractor. Rows that name the contractor follow when it changes.", `"Rosa Tran"`},
	"status":              {"State of the relation, in your words. Absent: active.", `"active"`},
	"billing_status":      {"Whether the client can be billed, in your words. Absent: active.", `"active"`},
	"plan_name":           {"Name of the client's plan.", `"Standard"`},
	"billing_address":     {"Where invoices are addressed to.", ""},
	"contacts":            {"People at the client, in your order.", ""},
	"phone":               {"", `"+1 555 0100"`},
	"line_2":              {"", `"Floor 2"`},
	"contract_start_date": {"First day of the contract.", `"2025-01-01"`},
	"contract_end_date":   {"Last day of the contract.", `"2026-12-31"`},
	"email":               {"Email address.", `"rosa@example.com"`},
	"title":               {"Profession or position.", `"Engineer"`},
	"reason":              {"Why, such as the number of the request. Do not name the person.", `"request 2026-118"`},

	// Invoices, their documents and payments.
	"number":                         {"Number that people know the invoice by. Its documents have numbers of their own.", `"INV-1042"`},
	"type":                           {"Whether it is an invoice, or a package, with which a client buys credit in advance. Absent: invoice.", ""},
	"draft":                          {"Whether readers do not see the invoice yet. Absent: false.", ""},
	"client_billing_status":          {"Whether the invoice is ready to be sent. Absent: not_ready.", ""},
	"gross_amount":                   {"Amount before client credit.", `"1275.71"`},
	"currency":                       {"Currency of all amounts of the entry, ISO 4217.", ""},
	"billed_externally":              {"Whether the client is billed by other means. Absent: false.", `false`},
	"delivered_value":                {"Value of the work that was delivered.", `"1275.71"`},
	"recognized_revenue":             {"Revenue recognized for the invoice.", `"1275.71"`},
	"billable_hours":                 {"Hours that the client is billed for.", ""},
	"contractor_pay_status":          {"Where paying the contractor stands, in your words. Absent: to_review.", `"to_review"`},
	"payout_amount":                  {"Amount that the contractor gets.", `"998.59"`},
	"margin_amount":                  {"What is left of the invoice after pay. It may be below 0.00.", `"-246.37"`},
	"margin_percent":                 {"margin_amount as a percentage.", `21.75`},
	"margin_note":                    {"Remark about the margin.", `"Includes a discount"`},
	"amount":                         {"Amount that was paid.", `"908.51"`},
	"invoice.issued.amount":          {"Amount of the document, in the invoice's currency.", `"1275.71"`},
	"issued_at":                      {"When the document was issued. Absent: created_at.", ""},
	"is_supplemental":                {"Whether the document adds to an earlier one of the same invoice. Absent: false.", `false`},
	"sent_at":                        {"When it was sent to the client. Absent: created_at.", ""},
	"paid_at":                        {"When it was paid. Absent: created_at.", ""},
	"credit_note.amount":             {"Amount that is credited, without a sign.", `"12.30"`},
	"credit_note.kind":               {"Why the credit note was issued.", `"post_payment"`},
	"source_invoice_id":              {"Id of the invoice that is credited.", `"in_1042"`},
	"payment_id":                     {"Id of the payment. The first entry with it counts.", `"pm_33"`},
	"confirmed_at":                   {"When the accounting system confirmed the payment. Absent: created_at.", ""},
	"source":                         {"System that confirmed it.", `"quickbooks"`},
	"payout.sent_to_payroll.sent_at": {"When the payout was handed to payroll. Absent: created_at.", ""},

	// Time entries and charges.
	"time_entry_id":                   {"Id of the time entry.", `"te_9000"`},
	"work_date":                       {"Day on which the work was done.", ""},
	"service":                         {"Service, in your words.", `"Occupational therapy"`},
	"description":                     {"What was done, or what the charge is for.", `"First visit"`},
	"hours":                           {"Hours, exact to four decimals.", ""},
	"session_count":                   {"Sessions in these hours.", ""},
	"is_flat_fee":                     {"Whether a flat fee is billed, so that bill_amount does not follow from the hours. Absent: false.", `false`},
	"bill_rate":                       {"What the client is billed for an hour.", `"120.00"`},
	"bill_amount":                     {"What the client is billed for the time entry.", `"900.00"`},
	"pay_rate":                        {"What the contractor is paid for an hour or a unit.", `"80.00"`},
	"pay_amount":                      {"What the contractor is paid for it.", `"600.00"`},
	"pay_status":                      {"Where paying the contractor for it stands, in your words. Absent: to_review.", `"to_review"`},
	"decline_outcome":                 {"What is to follow, in your words. Absent: needs_correction.", `"needs_correction"`},
	"charge_id":                       {"Id of the charge.", `"ch_77"`},
	"date":                            {"Day of the charge.", ""},
	"category":                        {"Category, in your words.", `"materials"`},
	"kind":                            {"Kind of the charge, in your words.", `"service_fee"`},
	"billed_to_client":                {"Whether the client pays the charge. If false, only readers with pay:read see it. Absent: true.", ""},
	"charge.deleted.billed_to_client": {"Whether the client paid the charge. If false, only readers with pay:read see the event. Absent: true.", ""},
	"charge.amount":                   {"Amount that the client is charged.", `"156.17"`},
	"charge.status":                   {"Where the charge stands. Absent: in_review.", ""},

	// Client credit, and tests.
	"credit_id":                 {"Id of the movement, unique for the client. The first entry with it counts.", `"cr_135"`},
	"credit.amount":             {"Amount that moves, without a sign: the type says in which direction.", `"78.06"`},
	"credit.date":               {"Day of the movement. Absent: the day of created_at, in UTC.", ""},
	"credit.hours":              {"Hours that move, in a package that has hours.", ""},
	"credit.kind":               {"Kind of the movement, in your words. Absent: top_up.", `"top_up"`},
	"note":                      {"Remark.", `"Goodwill"`},
	"package":                   {"Makes a prepaid package of the amount. Absent: it is credit in no package.", ""},
	"package_id":                {"Id of the package. Absent: the credit that is in no package.", `"pk_10"`},
	"credit.expired.package_id": {"Id of the package.", `"pk_10"`},
	"webhook_id":                {"Id of the webhook.", `"wh_5d2a"`},
}
