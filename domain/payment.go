package domain

// Payment is a row of /v1/payments. It exists only once the accounting system
// has confirmed the payment.
type Payment struct {
	Row
	Direction                string
	InvoiceID, InvoiceNumber string
	Client, Contractor       Party
	Amount                   Money
	Currency, ConfirmedAt    string
	Source                   string
}

// The directions of a payment. Payouts are shown only with pay:read.
const (
	ReceivedFromClient = "received_from_client"
	PaidToContractor   = "paid_to_contractor"
)

var paymentFields = table([]Field[Payment]{
	{Name: "id", Form: FormID, Example: `"pm_33"`, at: func(r *Payment) any { return &r.ID }},
	{Name: "direction", Form: FormEnum, Values: []string{ReceivedFromClient, PaidToContractor}, Example: `"received_from_client"`, at: func(r *Payment) any { return &r.Direction }},
	{Name: "invoice_id", Form: FormID, Nullable: true, Example: `"in_1042"`, at: func(r *Payment) any { return &r.InvoiceID }},
	{Name: "invoice_number", Form: FormText, Nullable: true, Example: `"INV-1042"`, at: func(r *Payment) any { return &r.InvoiceNumber }},
	{Name: "client", Form: FormObject, Nullable: true, Example: `{"id":"cl_4821","name":"Northwind Clinic"}`, at: func(r *Payment) any { return &r.Client }},
	{Name: "amount", Form: FormMoney, Example: `"908.51"`, at: func(r *Payment) any { return &r.Amount }},
	{Name: "currency", Form: FormCurrency, Example: `"EUR"`, at: func(r *Payment) any { return &r.Currency }},
	{Name: "confirmed_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, at: func(r *Payment) any { return &r.ConfirmedAt }},
	{Name: "source", Form: FormText, Example: `"quickbooks"`, at: func(r *Payment) any { return &r.Source }},
	{Name: "contractor", Form: FormObject, Nullable: true, Example: `null`, at: func(r *Payment) any { return &r.Contractor }},
})

func paymentTypes() []*Type {
	about := func(d *Data) string { return d.PaymentID }
	id := required(define("payment_id", FormID, func(d *Data) any { return &d.PaymentID }))
	return []*Type{
		{
			Name: "payment.confirmed", Object: "payment", object: about, effect: (*fold).paymentConfirmed,
			Fields: []Field[Data]{id, fieldInvoiceID(), fieldInvoiceNumber(), required(fieldClientID()), fieldAmount(), fieldCurrency(), fieldConfirmedAt(), fieldSource()},
		},
		{
			Name: TypePayoutPaid, Object: "payout", Public: true, object: about, effect: (*fold).payoutPaid,
			Fields: []Field[Data]{id, fieldInvoiceID(), fieldInvoiceNumber(), fieldClientID(), required(fieldContractorID()), fieldAmount(), fieldCurrency(), fieldConfirmedAt(), fieldSource()},
		},
	}
}

// payment makes a payment row, or notes that its id is there already.
func (f *fold) payment(d *Data, direction string, contractor Party) bool {
	if f.s.Payments.Get(d.PaymentID) != nil {
		f.anomaly(Repeat)
		return false
	}
	f.s.Payments.write(f, d.PaymentID, func(r *Payment) {
		r.Direction = direction
		r.InvoiceID, r.InvoiceNumber = d.InvoiceID, d.InvoiceNumber
		r.Client, r.Contractor = f.client(d.ClientID), contractor
		r.Amount = d.Amount.Money
		r.Currency = d.Currency
		r.ConfirmedAt = or(d.ConfirmedAt, f.at)
		r.Source = d.Source
	})
	return true
}

func (f *fold) paymentConfirmed(d *Data) { f.payment(d, ReceivedFromClient, Party{}) }

func (f *fold) payoutPaid(d *Data) {
	if !f.payment(d, PaidToContractor, f.contractor(d.ContractorID)) || d.InvoiceID == "" {
		return
	}
	r := f.invoice(d.InvoiceID)
	if r == nil {
		return // the payment row stays
	}
	r.ContractorPayStatus = payPaid
	f.s.Invoices.touch(f, r)
	f.s.TimeEntries.each(byInvoice, d.InvoiceID, func(te *TimeEntry) {
		if te.Contractor.ID == d.ContractorID {
			te.PayStatus = payPaid
			f.s.TimeEntries.touch(f, te)
		}
	})
}
