package domain

import (
	"cmp"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Charge is a row of /v1/charges.
type Charge struct {
	Row
	parties
	InvoiceID                         string
	Date, Category, Description, Kind string
	BilledToClient                    bool
	Amount                            Money
	Currency, Status                  string
	IssuedInvoiceNumber, Period       string
	PayRate, PayAmount                OptMoney
}

var chargeFields = jsonform.Define(
	[]jsonform.Field[Charge]{
		{Name: "id", Form: FormID, Example: `"ch_77"`, Doc: "Id of the charge in its workspace. It never changes.", At: func(r *Charge) any { return &r.ID }},
		{Name: "invoice_id", Form: FormID, Nullable: true, Example: `"in_1042"`, Doc: "Invoice that the charge is on; null while it is on none. It may name a draft, which is a 404 until it is shown.", At: func(r *Charge) any { return &r.InvoiceID }},
		{Name: "client", Form: FormObject, Example: `{"id":"cl_4821","name":"Northwind Clinic"}`, Doc: "Client that the charge is for.", At: func(r *Charge) any { return &r.Client }},
		{Name: "contractor", Form: FormObject, Nullable: true, Example: `null`, Doc: "Contractor that the charge comes from; null without one.", At: func(r *Charge) any { return &r.Contractor }},
		{Name: "date", Form: FormDate, Example: `"2026-10-15"`, Doc: "Day of the charge.", At: func(r *Charge) any { return &r.Date }},
		{Name: "category", Form: FormText, Example: `"materials"`, Doc: "Category in the words of the workspace, such as materials.", At: func(r *Charge) any { return &r.Category }},
		{Name: "description", Form: FormText, Nullable: true, Example: `null`, Doc: "What the charge is for; null without a text.", At: func(r *Charge) any { return &r.Description }},
		{Name: "kind", Form: FormText, Known: []string{"service_fee"}, Example: `"service_fee"`, Doc: "Kind of the charge.", At: func(r *Charge) any { return &r.Kind }},
		{Name: "billed_to_client", Form: FormBool, Example: `true`, Doc: "Whether the client pays it. Charges that are not billed to the client are shown only with pay:read.", At: func(r *Charge) any { return &r.BilledToClient }},
		{Name: "amount", Form: FormMoney, Example: `"156.17"`, Doc: "Amount that the client is charged.", At: func(r *Charge) any { return &r.Amount }},
		{Name: "currency", Form: FormCurrency, Example: `"EUR"`, Doc: "Currency of all amounts of the row, ISO 4217.", At: func(r *Charge) any { return &r.Currency }},
		{Name: "status", Form: FormEnum, Values: LineStatuses(), Example: `"in_review"`, Doc: "in_review, then approved or declined; sent and paid follow the invoice.", At: func(r *Charge) any { return &r.Status }},
		{Name: "issued_invoice_number", Form: FormText, Nullable: true, Example: `"INV-1042"`, Doc: "Number of the issued document that it is on; null while it is on none. It may name a draft, which is a 404 until it is shown.", At: func(r *Charge) any { return &r.IssuedInvoiceNumber }},
	},
	periodFields(func(r *Charge) *string { return &r.Period }),
	[]jsonform.Field[Charge]{
		{Name: "updated_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, Doc: "Publish time of the last entry that changed the row; lists are in this order.", At: func(r *Charge) any { return &r.UpdatedAt }},
		{Name: "pay_rate", Part: Pay, Form: FormMoney, Nullable: true, Example: `null`, Doc: "What the contractor is paid for a unit; null when it was not recorded.", At: func(r *Charge) any { return &r.PayRate }},
		{Name: "pay_amount", Part: Pay, Form: FormMoney, Nullable: true, Example: `"41.57"`, Doc: "What the contractor is paid for the charge; null when it was not recorded.", At: func(r *Charge) any { return &r.PayAmount }},
	},
)

// chargeRecorded is the data of charge.created and charge.recorded.
type chargeRecorded struct {
	references
	ChargeID                          string
	Date, Category, Description, Kind string
	BilledToClient                    jsonform.OptBool
	Amount                            OptMoney
	Currency, Status                  string
	PayRate, PayAmount                OptMoney
}

var chargeRecordedFields = []jsonform.Field[chargeRecorded]{
	{Name: "charge_id", Form: FormID, Required: true, At: func(d *chargeRecorded) any { return &d.ChargeID }},
	{Name: "invoice_id", Form: FormID, At: func(d *chargeRecorded) any { return &d.InvoiceID }},
	{Name: "client_id", Form: FormID, Required: true, At: func(d *chargeRecorded) any { return &d.ClientID }},
	{Name: "contractor_id", Form: FormID, At: func(d *chargeRecorded) any { return &d.ContractorID }},
	{Name: "date", Form: FormDate, Required: true, At: func(d *chargeRecorded) any { return &d.Date }},
	{Name: "category", Form: FormText, Required: true, At: func(d *chargeRecorded) any { return &d.Category }},
	{Name: "description", Form: FormText, At: func(d *chargeRecorded) any { return &d.Description }},
	{Name: "kind", Form: FormText, Required: true, At: func(d *chargeRecorded) any { return &d.Kind }},
	{Name: "billed_to_client", Form: FormBool, At: func(d *chargeRecorded) any { return &d.BilledToClient }},
	{Name: "amount", Form: FormMoney, Required: true, At: func(d *chargeRecorded) any { return &d.Amount }},
	{Name: "currency", Form: FormCurrency, Required: true, At: func(d *chargeRecorded) any { return &d.Currency }},
	{Name: "status", Form: FormEnum, Values: LineStatuses(), At: func(d *chargeRecorded) any { return &d.Status }},
	{Name: "period", Form: FormPeriod, Required: true, At: func(d *chargeRecorded) any { return &d.Period }},
	{Name: "pay_rate", Part: Pay, Form: FormMoney, At: func(d *chargeRecorded) any { return &d.PayRate }},
	{Name: "pay_amount", Part: Pay, Form: FormMoney, At: func(d *chargeRecorded) any { return &d.PayAmount }},
}

func needsOfCharge(n *Needs, d *chargeRecorded) {
	n.Charges.add(d.ChargeID)
	n.RemovedCharges.add(d.ChargeID)
	n.parties(&d.references)
}

// notBilled reports whether the charge is not billed to the client.
func notBilled(d *chargeRecorded) bool { return !d.BilledToClient.Or(true) }

// notBilledNote says who gets the events of charges that are not billed to the client.
const notBilledNote = " If the entry says that the charge is not billed to the client, the event is sent to webhooks that chose the type, and shown in the feed to keys with pay:read alone."

var chargeCreatedType = define(entryType[chargeRecorded]{
	typeHead: typeHead{
		name: TypeChargeCreated, object: "charge", public: true, detached: []string{"description"},
		when: "A charge was made." + notBilledNote,
	},
	fields: chargeRecordedFields, effect: createCharge, needs: needsOfCharge, payOnly: notBilled,
})

var chargeRecordedType = define(entryType[chargeRecorded]{
	typeHead: typeHead{
		name: "charge.recorded", object: "charge", detached: []string{"description"},
		when: "A charge was added or changed. Fields that the entry leaves out become empty.",
	},
	fields: chargeRecordedFields, effect: recordCharge, needs: needsOfCharge, payOnly: notBilled,
})

func createCharge(f *fold, d *chargeRecorded) {
	if f.Charges.Get(d.ChargeID) != nil {
		f.anomaly(Repeat)
		return
	}
	recordCharge(f, d)
}

func recordCharge(f *fold, d *chargeRecorded) {
	bringBack(&f.RemovedCharges, d.ChargeID)
	if d.BilledToClient.Or(true) {
		bringBack(&f.RemovedBilledCharges, d.ChargeID)
	} else if r := f.Charges.Get(d.ChargeID); r != nil && r.BilledToClient {
		f.takeAway(&f.RemovedBilledCharges, r.ID, r.lastValues())
	}
	f.Charges.write(f.stamp, d.ChargeID, func(r *Charge) {
		r.InvoiceID = d.InvoiceID
		r.Client = f.client(d.ClientID)
		r.Contractor = f.contractor(d.ContractorID)
		r.Date = d.Date
		r.Category = d.Category
		r.Description = d.Description
		r.Kind = d.Kind
		r.BilledToClient = d.BilledToClient.Or(true)
		r.Amount = d.Amount.Money
		r.Currency = d.Currency
		r.Status = cmp.Or(d.Status, lineInReview)
		r.Period = d.Period
		r.PayRate, r.PayAmount = d.PayRate, d.PayAmount
	})
}

// chargeDeleted is the data of charge.deleted.
type chargeDeleted struct {
	references
	ChargeID       string
	BilledToClient jsonform.OptBool // decides who may see the event; the row does not need it
}

var chargeDeletedType = define(entryType[chargeDeleted]{
	typeHead: typeHead{
		name: TypeChargeDeleted, object: "charge", public: true,
		when: "A charge was deleted. Reading it gives 404 from now on." + notBilledNote,
	},
	fields: []jsonform.Field[chargeDeleted]{
		{Name: "charge_id", Form: FormID, Required: true, At: func(d *chargeDeleted) any { return &d.ChargeID }},
		{Name: "billed_to_client", Form: FormBool, At: func(d *chargeDeleted) any { return &d.BilledToClient }},
	},
	payOnly: func(d *chargeDeleted) bool { return !d.BilledToClient.Or(true) },
	effect:  deleteCharge,
	needs: func(n *Needs, d *chargeDeleted) {
		n.Charges.add(d.ChargeID)
		n.RemovedCharges.add(d.ChargeID)
	},
})

func deleteCharge(f *fold, d *chargeDeleted) {
	r := f.Charges.Get(d.ChargeID)
	if r == nil {
		f.anomaly(UnknownObject)
		return
	}
	f.takeAway(&f.RemovedCharges, r.ID, r.lastValues())
	if r.BilledToClient {
		f.takeAway(&f.RemovedBilledCharges, r.ID, r.lastValues())
	}
	f.Charges.remove(r)
}

func (r *Charge) lastValues() lastValues {
	return lastValues{clientID: r.Client.ID, contractorID: r.Contractor.ID, period: r.Period, day: r.Date}
}
