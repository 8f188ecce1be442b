package domain

// Invoice is a row of /v1/invoices: an invoice, a package or a credit note.
type Invoice struct {
	Row
	Shown               bool // false while it is a draft; once shown it stays shown
	Number, Type        string
	Reversed            bool
	Client, Contractor  Party
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

// IssuedInvoice is a document that was issued for an invoice.
type IssuedInvoice struct {
	Number                   string
	Amount                   Money
	Status                   string
	IssuedAt, SentAt, PaidAt string
	IsSupplemental           bool
}

// CreditNote is what a credit note has beside an invoice's fields.
type CreditNote struct {
	Kind            string
	Amount          Money
	SourceInvoiceID string
}

// The values of an invoice's states and kinds.
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

// InvoiceTypes and BillingStatuses are the values that readers filter by.
func InvoiceTypes() []string {
	return []string{invoiceTypeInvoice, invoiceTypeCreditNote, invoiceTypePackage}
}

// BillingStatuses returns the values of client_billing_status.
func BillingStatuses() []string {
	return []string{statusNotReady, statusReadyToSend, statusSent, statusPaid}
}

// periodFields are the four fields that a period shows in a row.
func periodFields[R any](at func(*R) *string) []Field[R] {
	derived := func(name, example, doc string, form Form, pick func(PeriodInfo) string) Field[R] {
		return Field[R]{Name: name, Form: form, Example: example, Doc: doc, derive: func(b []byte, r *R) []byte {
			info, _ := Period(*at(r))
			text := pick(info)
			return appendValue(b, &text)
		}}
	}
	return []Field[R]{
		{Name: "period", Form: FormPeriod, Example: `"2026-10"`, Doc: "Billing period key: monthly YYYY-MM, weekly YYYY-Www, every two weeks YYYY-BWnn.", at: func(r *R) any { return at(r) }},
		derived("period_label", `"October 2026"`, "The period in words.", FormText, func(p PeriodInfo) string { return p.Label }),
		derived("period_start", `"2026-10-01"`, "First day of the period.", FormDate, func(p PeriodInfo) string { return p.Start }),
		derived("period_end", `"2026-10-31"`, "Last day of the period.", FormDate, func(p PeriodInfo) string { return p.End }),
	}
}

var (
	issuedInvoiceFields = table([]Field[IssuedInvoice]{
		{Name: "number", Form: FormText, Example: `"INV-1042"`, at: func(r *IssuedInvoice) any { return &r.Number }},
		{Name: "amount", Form: FormMoney, Example: `"1275.71"`, at: func(r *IssuedInvoice) any { return &r.Amount }},
		{Name: "status", Form: FormEnum, Values: []string{documentIssued, statusSent, statusPaid, documentVoided}, Example: `"issued"`, at: func(r *IssuedInvoice) any { return &r.Status }},
		{Name: "issued_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, at: func(r *IssuedInvoice) any { return &r.IssuedAt }},
		{Name: "sent_at", Form: FormDateTime, Nullable: true, Example: `null`, at: func(r *IssuedInvoice) any { return &r.SentAt }},
		{Name: "paid_at", Form: FormDateTime, Nullable: true, Example: `null`, at: func(r *IssuedInvoice) any { return &r.PaidAt }},
		{Name: "is_supplemental", Form: FormBool, Example: `false`, at: func(r *IssuedInvoice) any { return &r.IsSupplemental }},
	})

	creditNoteFields = table([]Field[CreditNote]{
		{Name: "kind", Form: FormText, Known: []string{"post_payment"}, Example: `"post_payment"`, at: func(r *CreditNote) any { return &r.Kind }},
		{Name: "amount", Form: FormMoney, Example: `"12.30"`, at: func(r *CreditNote) any { return &r.Amount }},
		{Name: "source_invoice_id", Form: FormID, Example: `"in_1042"`, at: func(r *CreditNote) any { return &r.SourceInvoiceID }},
	})

	invoiceFields = table(concat(
		[]Field[Invoice]{
			{Name: "id", Form: FormID, Example: `"in_1042"`, at: func(r *Invoice) any { return &r.ID }},
			{Name: "number", Form: FormText, Example: `"INV-1042"`, Doc: "Invoice number.", at: func(r *Invoice) any { return &r.Number }},
			{Name: "type", Form: FormEnum, Values: InvoiceTypes(), Example: `"invoice"`, at: func(r *Invoice) any { return &r.Type }},
			{Name: "reversed", Form: FormBool, Example: `false`, at: func(r *Invoice) any { return &r.Reversed }},
			{Name: "client", Form: FormObject, Example: `{"id":"cl_4821","name":"Northwind Clinic"}`, at: func(r *Invoice) any { return &r.Client }},
			{Name: "contractor", Form: FormObject, Nullable: true, Example: `{"id":"co_118","name":"Rosa Tran"}`, at: func(r *Invoice) any { return &r.Contractor }},
		},
		periodFields(func(r *Invoice) *string { return &r.Period }),
		[]Field[Invoice]{
			{Name: "plan_name", Form: FormText, Nullable: true, Example: `"Standard"`, at: func(r *Invoice) any { return &r.PlanName }},
			{Name: "client_billing_status", Form: FormEnum, Values: BillingStatuses(), Example: `"sent"`, at: func(r *Invoice) any { return &r.ClientBillingStatus }},
			{Name: "gross_amount", Form: FormMoney, Example: `"1275.71"`, at: func(r *Invoice) any { return &r.GrossAmount }},
			{Name: "credit_applied", Form: FormMoney, Example: `"367.20"`, at: func(r *Invoice) any { return &r.CreditApplied }},
			{Name: "net_due", Form: FormMoney, Example: `"908.51"`, Doc: "gross_amount less credit_applied, never below 0.00; 0.00 on a credit note.", at: func(r *Invoice) any { return &r.NetDue }},
			{Name: "currency", Form: FormCurrency, Example: `"EUR"`, at: func(r *Invoice) any { return &r.Currency }},
			{Name: "billed_externally", Form: FormBool, Example: `false`, at: func(r *Invoice) any { return &r.BilledExternally }},
			{Name: "delivered_value", Form: FormMoney, Nullable: true, Example: `"1275.71"`, at: func(r *Invoice) any { return &r.DeliveredValue }},
			{Name: "recognized_revenue", Form: FormMoney, Nullable: true, Example: `"1275.71"`, at: func(r *Invoice) any { return &r.RecognizedRevenue }},
			{Name: "billable_hours", Form: FormHours, Nullable: true, Example: `7.5`, at: func(r *Invoice) any { return &r.BillableHours }},
			{Name: "sent_at", Form: FormDateTime, Nullable: true, Example: `"2026-10-02T09:15:00.120Z"`, at: func(r *Invoice) any { return &r.SentAt }},
			{Name: "paid_at", Form: FormDateTime, Nullable: true, Example: `null`, at: func(r *Invoice) any { return &r.PaidAt }},
			{Name: "period_closed", Form: FormBool, Example: `true`, at: func(r *Invoice) any { return &r.PeriodClosed }},
			{Name: "issued_invoices", Form: FormArray, at: func(r *Invoice) any { return array[IssuedInvoice]{&r.Issued, issuedInvoiceFields} }},
			{Name: "credit_note", Form: FormObject, Nullable: true, at: func(r *Invoice) any { return object[CreditNote]{&r.CreditNote, creditNoteFields} }},
			{Name: "updated_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, at: func(r *Invoice) any { return &r.UpdatedAt }},

			{Name: "contractor_pay_status", Part: Pay, Form: FormText, Nullable: true, Known: []string{payToReview, paySentToPayroll, payPaid}, Example: `"to_review"`, at: func(r *Invoice) any { return &r.ContractorPayStatus }},
			{Name: "payout_amount", Part: Pay, Form: FormMoney, Nullable: true, Example: `"998.59"`, at: func(r *Invoice) any { return &r.PayoutAmount }},
			{Name: "payout_sent_to_payroll_at", Part: Pay, Form: FormDateTime, Nullable: true, Example: `null`, at: func(r *Invoice) any { return &r.PayoutSentToPayrollAt }},

			{Name: "margin_amount", Part: Margin, Form: FormSignedMoney, Nullable: true, Example: `"-246.37"`, at: func(r *Invoice) any { return &r.MarginAmount }},
			{Name: "margin_percent", Part: Margin, Form: FormNumber, Nullable: true, Example: `21.75`, at: func(r *Invoice) any { return &r.MarginPercent }},
			{Name: "margin_note", Part: Margin, Form: FormText, Nullable: true, Example: `null`, at: func(r *Invoice) any { return &r.MarginNote }},
		},
	))
)

func concat[T any](lists ...[]T) []T {
	var all []T
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func invoiceTypes() []*Type {
	about := func(d *Data) string { return d.InvoiceID }
	note := func(d *Data) any { return &d.MarginNote }
	return []*Type{
		{
			Name: "invoice.recorded", Object: "invoice", object: about, effect: (*fold).invoiceRecorded,
			Fields: []Field[Data]{
				required(fieldInvoiceID()),
				required(define("number", FormText, func(d *Data) any { return &d.Number })),
				byDefault(Field[Data]{Name: "type", Form: FormEnum, Values: []string{invoiceTypeInvoice, invoiceTypePackage}, at: func(d *Data) any { return &d.Type }}, invoiceTypeInvoice),
				byDefault(define("draft", FormBool, func(d *Data) any { return &d.Draft }), "false"),
				required(fieldClientID()),
				fieldContractorID(),
				required(fieldPeriod()),
				fieldPlanName(),
				byDefault(Field[Data]{Name: "client_billing_status", Form: FormEnum, Values: []string{statusNotReady, statusReadyToSend}, at: func(d *Data) any { return &d.ClientBillingStatus }}, statusNotReady),
				required(define("gross_amount", FormMoney, func(d *Data) any { return &d.GrossAmount })),
				fieldCurrency(),
				byDefault(define("billed_externally", FormBool, func(d *Data) any { return &d.BilledExternally }), "false"),
				define("delivered_value", FormMoney, func(d *Data) any { return &d.DeliveredValue }),
				define("recognized_revenue", FormMoney, func(d *Data) any { return &d.RecognizedRevenue }),
				define("billable_hours", FormHours, func(d *Data) any { return &d.BillableHours }),
				byDefault(define("contractor_pay_status", FormText, func(d *Data) any { return &d.ContractorPayStatus }), payToReview),
				define("payout_amount", FormMoney, func(d *Data) any { return &d.PayoutAmount }),
				define("margin_amount", FormSignedMoney, func(d *Data) any { return &d.MarginAmount }),
				define("margin_percent", FormNumber, func(d *Data) any { return &d.MarginPercent }),
				define("margin_note", FormText, note),
			},
		},
		{
			Name: "invoice.issued", Object: "invoice", Public: true, object: about, effect: (*fold).invoiceIssued,
			Fields: []Field[Data]{
				required(fieldInvoiceID()),
				required(fieldInvoiceNumber()),
				fieldAmount(),
				byDefault(define("issued_at", FormDateTime, func(d *Data) any { return &d.IssuedAt }), "at"),
				byDefault(define("is_supplemental", FormBool, func(d *Data) any { return &d.IsSupplemental }), "false"),
			},
		},
		{
			Name: "invoice.sent", Object: "invoice", Public: true, object: about, effect: (*fold).invoiceSent,
			Fields: []Field[Data]{required(fieldInvoiceID()), fieldInvoiceNumber(), fieldSentAt()},
		},
		{
			Name: "invoice.paid", Object: "invoice", Public: true, object: about, effect: (*fold).invoicePaid,
			Fields: []Field[Data]{
				required(fieldInvoiceID()),
				fieldInvoiceNumber(),
				byDefault(define("paid_at", FormDateTime, func(d *Data) any { return &d.PaidAt }), "at"),
			},
		},
		{
			Name: "invoice.voided", Object: "invoice", Public: true, object: about, effect: (*fold).invoiceVoided,
			Fields: []Field[Data]{required(fieldInvoiceID()), required(fieldInvoiceNumber())},
		},
		{
			Name: "invoice.reversed", Object: "invoice", Public: true, object: about, effect: (*fold).invoiceReversed,
			Fields: []Field[Data]{required(fieldInvoiceID())},
		},
		{
			Name: "credit_note.issued", Object: "credit_note", Public: true, object: about, effect: (*fold).creditNoteIssued,
			Fields: []Field[Data]{
				required(fieldInvoiceID()),
				required(fieldInvoiceNumber()),
				required(fieldClientID()),
				fieldContractorID(),
				required(fieldPeriod()),
				fieldAmount(),
				fieldCurrency(),
				required(fieldKind()),
				required(define("source_invoice_id", FormID, func(d *Data) any { return &d.SourceInvoiceID })),
			},
		},
		{
			Name: "payout.sent_to_payroll", Object: "invoice", object: about, effect: (*fold).payoutSentToPayroll,
			Fields: []Field[Data]{required(fieldInvoiceID()), fieldSentAt()},
		},
		{
			Name: "period.closed", Object: "period", Public: true,
			object: func(d *Data) string { return d.Period },
			effect: (*fold).periodClosed,
			Fields: []Field[Data]{required(fieldPeriod()), fieldClientID()},
		},
	}
}
