package domain

import (
	"cmp"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Invoice is a row of /v1/invoices: an invoice, a package or a credit note.
type Invoice struct {
	Row
	parties
	Shown               bool // false while it is a draft; once shown it stays shown
	Number, Type        string
	Reversed            bool
	Period              string
	PlanName            string
	ClientBillingStatus string

	GrossAmount, NetDue               Money
	CreditApplied                     MoneyTotal
	Currency                          string
	BilledExternally                  bool
	DeliveredValue, RecognizedRevenue OptMoney
	BillableHours                     OptDecimal
	SentAt, PaidAt                    string
	PeriodClosed                      bool
	Issued                            []IssuedInvoice
	CreditNote                        *CreditNote

	ContractorPayStatus   string
	PayoutAmount          OptMoney
	PayoutSentToPayrollAt string
	MarginAmount          OptMoney
	MarginPercent         OptDecimal
	MarginNote            string
}

// Open reports whether the client has something left to pay (docs/contract/decisions.md, "Responses":
// open invoices).
func (r *Invoice) Open() bool {
	return r.Type != invoiceTypeCreditNote && !r.Reversed && !r.BilledExternally && r.ClientBillingStatus == statusSent && r.NetDue > 0
}

// Days returns the first and the last day of the invoice's period, YYYY-MM-DD.
func (r *Invoice) Days() (first, last string) {
	info, _ := Period(r.Period)
	return info.Start, info.End
}

// IssuedInvoice is a document that was issued for an invoice.
type IssuedInvoice struct {
	Number                   string
	Amount                   Money
	Status                   string
	IssuedAt, SentAt, PaidAt string
	IsSupplemental           bool
}

// CreditNote holds the fields that only a credit note has.
type CreditNote struct {
	Kind            string
	Amount          Money
	SourceInvoiceID string
}

// The types of invoices, and the states of invoices, their documents and the
// contractor's pay.
const (
	invoiceTypeInvoice    = "invoice"
	invoiceTypeCreditNote = "credit_note"
	invoiceTypePackage    = "package"

	statusNotReady    = "not_ready"
	statusReadyToSend = "ready_to_send"
	statusSent        = "sent"
	statusPaid        = "paid"

	documentIssued = "issued"
	documentVoided = "voided"

	payToReview      = "to_review"
	paySentToPayroll = "sent_to_payroll"
	payPaid          = "paid"
)

// InvoiceTypes returns the types of invoices.
func InvoiceTypes() []string {
	return []string{invoiceTypeInvoice, invoiceTypeCreditNote, invoiceTypePackage}
}

// BillingStatuses returns the values of client_billing_status.
func BillingStatuses() []string {
	return []string{statusNotReady, statusReadyToSend, statusSent, statusPaid}
}

var (
	issuedInvoiceFields = jsonform.Define([]jsonform.Field[IssuedInvoice]{
		{Name: "number", Form: FormText, Example: `"INV-1042"`, Doc: "Number of the document that the client got.", At: func(r *IssuedInvoice) any { return &r.Number }},
		{Name: "amount", Form: FormMoney, Example: `"1275.71"`, Doc: "Amount of the document, in the invoice's currency.", At: func(r *IssuedInvoice) any { return &r.Amount }},
		{Name: "status", Form: FormEnum, Values: []string{documentIssued, statusSent, statusPaid, documentVoided}, Example: `"issued"`, Doc: "issued, then sent, then paid; voided when it was withdrawn, and then it no longer counts.", At: func(r *IssuedInvoice) any { return &r.Status }},
		{Name: "issued_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, Doc: "When the document was issued.", At: func(r *IssuedInvoice) any { return &r.IssuedAt }},
		{Name: "sent_at", Form: FormDateTime, Nullable: true, Example: `null`, Doc: "When it was sent to the client; null until then.", At: func(r *IssuedInvoice) any { return &r.SentAt }},
		{Name: "paid_at", Form: FormDateTime, Nullable: true, Example: `null`, Doc: "When it was paid; null until then.", At: func(r *IssuedInvoice) any { return &r.PaidAt }},
		{Name: "is_supplemental", Form: FormBool, Example: `false`, Doc: "Whether the document adds to one that was issued before for the same invoice.", At: func(r *IssuedInvoice) any { return &r.IsSupplemental }},
	})

	creditNoteFields = jsonform.Define([]jsonform.Field[CreditNote]{
		{Name: "kind", Form: FormText, Known: []string{"post_payment"}, Example: `"post_payment"`, Doc: "Why the credit note was issued.", At: func(r *CreditNote) any { return &r.Kind }},
		{Name: "amount", Form: FormMoney, Example: `"12.30"`, Doc: "Amount credited, in the currency of the invoice.", At: func(r *CreditNote) any { return &r.Amount }},
		{Name: "source_invoice_id", Form: FormID, Example: `"in_1042"`, Doc: "Invoice that is credited: its id at /v1/invoices/{id}.", At: func(r *CreditNote) any { return &r.SourceInvoiceID }},
	})

	invoiceFields = jsonform.Define(
		[]jsonform.Field[Invoice]{
			{Name: "id", Form: FormID, Example: `"in_1042"`, Doc: "Id of the invoice in its workspace. It never changes.", At: func(r *Invoice) any { return &r.ID }},
			{Name: "number", Form: FormText, Example: `"INV-1042"`, Doc: "Number that people know the invoice by. The documents under it, in issued_invoices, have numbers of their own.", At: func(r *Invoice) any { return &r.Number }},
			{Name: "type", Form: FormEnum, Values: InvoiceTypes(), Example: `"invoice"`, Doc: "invoice; credit_note, which takes back an amount of another invoice, so that its positive amounts are to be subtracted; or package, with which a client buys credit in advance.", At: func(r *Invoice) any { return &r.Type }},
			{Name: "reversed", Form: FormBool, Example: `false`, Doc: "Whether the invoice was reversed: undone in the books, though it stays here.", At: func(r *Invoice) any { return &r.Reversed }},
			{Name: "client", Form: FormObject, Example: `{"id":"cl_4821","name":"Northwind Clinic"}`, Doc: "Who is billed.", At: func(r *Invoice) any { return &r.Client }},
			{Name: "contractor", Form: FormObject, Nullable: true, Example: `{"id":"co_118","name":"Rosa Tran"}`, Doc: "Who did the work; null when the invoice names nobody.", At: func(r *Invoice) any { return &r.Contractor }},
		},
		periodFields(func(r *Invoice) *string { return &r.Period }),
		[]jsonform.Field[Invoice]{
			{Name: "plan_name", Form: FormText, Nullable: true, Example: `"Standard"`, Doc: "The client's plan when the invoice was recorded; null without one.", At: func(r *Invoice) any { return &r.PlanName }},
			{Name: "client_billing_status", Form: FormEnum, Values: BillingStatuses(), Example: `"sent"`, Doc: "Where billing the client stands: not_ready, ready_to_send, sent, or paid once each document that is not voided is paid.", At: func(r *Invoice) any { return &r.ClientBillingStatus }},
			{Name: "gross_amount", Form: FormMoney, Example: `"1275.71"`, Doc: "Amount before client credit. It is positive on a credit note, too: in sums, subtract rows of type credit_note, and keep reversed invoices, which credit notes take back.", At: func(r *Invoice) any { return &r.GrossAmount }},
			{Name: "credit_applied", Form: FormMoney, Example: `"367.20"`, Doc: "Client credit that was applied. It can be more than gross_amount, and more than the client had; net_due is then 0.00.", At: func(r *Invoice) any { return &r.CreditApplied }},
			{Name: "net_due", Form: FormMoney, Example: `"908.51"`, Doc: "gross_amount less credit_applied, never below 0.00; 0.00 on a credit note. Payments in part and later credit notes do not lower it.", At: func(r *Invoice) any { return &r.NetDue }},
			{Name: "currency", Form: FormCurrency, Example: `"EUR"`, Doc: "Currency of all amounts of the row, ISO 4217.", At: func(r *Invoice) any { return &r.Currency }},
			{Name: "billed_externally", Form: FormBool, Example: `false`, Doc: "Whether the client is billed by other means than this service.", At: func(r *Invoice) any { return &r.BilledExternally }},
			{Name: "delivered_value", Form: FormMoney, Nullable: true, Example: `"1275.71"`, Doc: "Value of the work that was delivered; null when it was not recorded.", At: func(r *Invoice) any { return &r.DeliveredValue }},
			{Name: "recognized_revenue", Form: FormMoney, Nullable: true, Example: `"1275.71"`, Doc: "Revenue recognized for the invoice; null when it was not recorded.", At: func(r *Invoice) any { return &r.RecognizedRevenue }},
			{Name: "billable_hours", Form: FormHours, Nullable: true, Example: `7.5`, Doc: "Hours that the client is billed for; null when they were not recorded.", At: func(r *Invoice) any { return &r.BillableHours }},
			{Name: "sent_at", Form: FormDateTime, Nullable: true, Example: `"2026-10-02T09:15:00.120Z"`, Doc: "When it was last sent to the client; null until then, and after its last document was voided.", At: func(r *Invoice) any { return &r.SentAt }},
			{Name: "paid_at", Form: FormDateTime, Nullable: true, Example: `null`, Doc: "When all of it was paid; null until then, and after its last document was voided.", At: func(r *Invoice) any { return &r.PaidAt }},
			{Name: "period_closed", Form: FormBool, Example: `true`, Doc: "Whether its period is closed, for the workspace or for this client.", At: func(r *Invoice) any { return &r.PeriodClosed }},
			{Name: "issued_invoices", Form: FormArray, Doc: "Documents that were issued for the invoice, in the order in which they were.", At: func(r *Invoice) any { return jsonform.ArrayOf(&r.Issued, issuedInvoiceFields) }},
			{Name: "credit_note", Form: FormObject, Nullable: true, Doc: "What the credit note credits; null on other types.", At: func(r *Invoice) any { return jsonform.ObjectOf(&r.CreditNote, creditNoteFields) }},
			{Name: "updated_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, Doc: "Publish time of the last entry that changed the row; lists are in this order. It also moves when only fields changed that this key does not see, such as those of a payout.", At: func(r *Invoice) any { return &r.UpdatedAt }},

			{Name: "contractor_pay_status", Part: Pay, Form: FormText, Nullable: true, Known: []string{payToReview, paySentToPayroll, payPaid}, Example: `"to_review"`, Doc: "Where paying the contractor stands; null on a credit note.", At: func(r *Invoice) any { return &r.ContractorPayStatus }},
			{Name: "payout_amount", Part: Pay, Form: FormMoney, Nullable: true, Example: `"998.59"`, Doc: "Amount that the contractor gets; null when it was not recorded.", At: func(r *Invoice) any { return &r.PayoutAmount }},
			{Name: "payout_sent_to_payroll_at", Part: Pay, Form: FormDateTime, Nullable: true, Example: `null`, Doc: "When the payout was handed to payroll; null until then.", At: func(r *Invoice) any { return &r.PayoutSentToPayrollAt }},

			{Name: "margin_amount", Part: Margin, Form: FormSignedMoney, Nullable: true, Example: `"-246.37"`, Doc: "What is left of the invoice after pay; below 0.00 where pay is more. Null when it was not recorded.", At: func(r *Invoice) any { return &r.MarginAmount }},
			{Name: "margin_percent", Part: Margin, Form: FormNumber, Nullable: true, Example: `21.75`, Doc: "margin_amount as a percentage; null when it was not recorded.", At: func(r *Invoice) any { return &r.MarginPercent }},
			{Name: "margin_note", Part: Margin, Form: FormText, Nullable: true, Example: `null`, Doc: "Remark about the margin; null without one.", At: func(r *Invoice) any { return &r.MarginNote }},
		},
	)
)

// invoiceRecorded is the data of invoice.recorded.
type invoiceRecorded struct {
	references
	Number, Type                      string
	Draft, BilledExternally           jsonform.OptBool
	PlanName, ClientBillingStatus     string
	GrossAmount                       OptMoney
	Currency                          string
	DeliveredValue, RecognizedRevenue OptMoney
	BillableHours                     OptDecimal
	ContractorPayStatus               string
	PayoutAmount, MarginAmount        OptMoney
	MarginPercent                     OptDecimal
	MarginNote                        string
}

var invoiceRecordedType = define(entryType[invoiceRecorded]{
	typeHead: typeHead{
		name: "invoice.recorded", object: "invoice", detached: []string{"margin_note"},
		when: "An invoice was added or changed. Fields that the entry leaves out become empty; what other entries set stays.",
	},
	fields: []jsonform.Field[invoiceRecorded]{
		{Name: "invoice_id", Form: FormID, Required: true, At: func(d *invoiceRecorded) any { return &d.InvoiceID }},
		{Name: "number", Form: FormText, Required: true, At: func(d *invoiceRecorded) any { return &d.Number }},
		{Name: "type", Form: FormEnum, Values: []string{invoiceTypeInvoice, invoiceTypePackage}, At: func(d *invoiceRecorded) any { return &d.Type }},
		{Name: "draft", Form: FormBool, At: func(d *invoiceRecorded) any { return &d.Draft }},
		{Name: "client_id", Form: FormID, Required: true, At: func(d *invoiceRecorded) any { return &d.ClientID }},
		{Name: "contractor_id", Form: FormID, At: func(d *invoiceRecorded) any { return &d.ContractorID }},
		{Name: "period", Form: FormPeriod, Required: true, At: func(d *invoiceRecorded) any { return &d.Period }},
		{Name: "plan_name", Form: FormText, At: func(d *invoiceRecorded) any { return &d.PlanName }},
		{Name: "client_billing_status", Form: FormEnum, Values: []string{statusNotReady, statusReadyToSend}, At: func(d *invoiceRecorded) any { return &d.ClientBillingStatus }},
		{Name: "gross_amount", Form: FormMoney, Required: true, At: func(d *invoiceRecorded) any { return &d.GrossAmount }},
		{Name: "currency", Form: FormCurrency, Required: true, At: func(d *invoiceRecorded) any { return &d.Currency }},
		{Name: "billed_externally", Form: FormBool, At: func(d *invoiceRecorded) any { return &d.BilledExternally }},
		{Name: "delivered_value", Form: FormMoney, At: func(d *invoiceRecorded) any { return &d.DeliveredValue }},
		{Name: "recognized_revenue", Form: FormMoney, At: func(d *invoiceRecorded) any { return &d.RecognizedRevenue }},
		{Name: "billable_hours", Form: FormHours, At: func(d *invoiceRecorded) any { return &d.BillableHours }},
		{Name: "contractor_pay_status", Part: Pay, Form: FormText, At: func(d *invoiceRecorded) any { return &d.ContractorPayStatus }},
		{Name: "payout_amount", Part: Pay, Form: FormMoney, At: func(d *invoiceRecorded) any { return &d.PayoutAmount }},
		{Name: "margin_amount", Part: Margin, Form: FormSignedMoney, At: func(d *invoiceRecorded) any { return &d.MarginAmount }},
		{Name: "margin_percent", Part: Margin, Form: FormNumber, At: func(d *invoiceRecorded) any { return &d.MarginPercent }},
		{Name: "margin_note", Part: Margin, Form: FormText, At: func(d *invoiceRecorded) any { return &d.MarginNote }},
	},
	effect: recordInvoice,
	needs: func(n *Needs, d *invoiceRecorded) {
		n.Invoices.add(d.InvoiceID)
		n.parties(&d.references)
		n.Periods.add(d.Period)
	},
})

func recordInvoice(f *fold, d *invoiceRecorded) {
	old := f.Invoices.Get(d.InvoiceID)
	if old != nil && old.Type == invoiceTypeCreditNote {
		f.anomaly(WrongKind)
		return
	}
	if old != nil && old.Currency != d.Currency && !old.CreditApplied.isZero() {
		f.anomaly(WrongCurrency)
		return
	}
	f.Invoices.write(f.stamp, d.InvoiceID, func(r *Invoice) {
		r.Shown = r.Shown || !d.Draft.Or(false)
		r.Number = d.Number
		r.Type = cmp.Or(d.Type, invoiceTypeInvoice)
		r.Client = f.client(d.ClientID)
		r.Contractor = f.contractor(d.ContractorID)
		r.Period = d.Period
		r.PlanName = d.PlanName
		if r.ClientBillingStatus != statusSent && r.ClientBillingStatus != statusPaid {
			r.ClientBillingStatus = cmp.Or(d.ClientBillingStatus, statusNotReady)
		}
		r.GrossAmount = d.GrossAmount.Money
		r.Currency = d.Currency
		r.BilledExternally = d.BilledExternally.Or(false)
		r.DeliveredValue = d.DeliveredValue
		r.RecognizedRevenue = d.RecognizedRevenue
		r.BillableHours = d.BillableHours
		r.PeriodClosed = f.closed(d.Period, d.ClientID)
		if r.ContractorPayStatus != paySentToPayroll && r.ContractorPayStatus != payPaid {
			r.ContractorPayStatus = cmp.Or(d.ContractorPayStatus, payToReview)
		}
		r.PayoutAmount = d.PayoutAmount
		r.MarginAmount = d.MarginAmount
		r.MarginPercent = d.MarginPercent
		r.MarginNote = d.MarginNote
		r.setNetDue()
	})
}

// setNetDue computes net_due. A credit larger than the gross amount leaves 0.00,
// and a credit note never has anything due.
func (r *Invoice) setNetDue() {
	r.NetDue = 0
	if r.Type != invoiceTypeCreditNote {
		due, _ := totalOf(int64(r.GrossAmount)).minus(r.CreditApplied.total)
		r.NetDue = Money(due.low) // at most the gross amount, so it fits
	}
}

// invoice returns the invoice that an entry refers to. If it does not exist, invoice records an
// anomaly and returns nil.
func (f *fold) invoice(id string) *Invoice {
	r := f.Invoices.Get(id)
	if r == nil {
		f.anomaly(UnknownObject)
	}
	return r
}
