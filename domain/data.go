package domain

// Data is what an entry says: the union of the fields of all types, of which
// each type uses those of its row in the catalogue. Absent values are zero.
type Data struct {
	// The five reference ids, which every type accepts.
	InvoiceID, InvoiceNumber, ClientID, ContractorID, Period string

	// What the other entries are about.
	PaymentID, TimeEntryID, ChargeID, CreditID, WebhookID string

	// Parties.
	Name, Status, BillingStatus, PlanName, Email, Title string
	BillingAddress                                      *Address
	Contacts                                            []Contact
	ContractStartDate, ContractEndDate                  string

	// Invoices and their documents.
	Number, Type, ClientBillingStatus, ContractorPayStatus string
	Draft, BilledExternally, IsSupplemental                OptBool
	GrossAmount, DeliveredValue, RecognizedRevenue         OptMoney
	BillableHours                                          OptDecimal
	PayoutAmount, MarginAmount                             OptMoney
	MarginPercent                                          OptDecimal
	MarginNote, SourceInvoiceID                            string
	IssuedAt, SentAt, PaidAt, ConfirmedAt                  string
	Amount                                                 OptMoney
	Currency, Kind, Source                                 string
	WorkDate, Service, Description, PayStatus              string
	DeclineOutcome, Date, Category, Note                   string
	Hours                                                  OptDecimal
	SessionCount                                           OptInt
	IsFlatFee, BilledToClient                              OptBool
	BillRate, BillAmount, PayRate, PayAmount               OptMoney
	Package                                                *PackageGrant
	PackageID                                              string
}

// PackageGrant is the prepaid package that a top-up adds.
type PackageGrant struct {
	PackageID, Service string
	Hours              OptDecimal
	ExpiresAt          string
}

var packageGrantFields = table([]Field[PackageGrant]{
	{Name: "package_id", Form: FormID, Required: true, at: func(p *PackageGrant) any { return &p.PackageID }},
	{Name: "service", Form: FormText, Required: true, at: func(p *PackageGrant) any { return &p.Service }},
	{Name: "hours", Form: FormHours, at: func(p *PackageGrant) any { return &p.Hours }},
	{Name: "expires_at", Form: FormDate, at: func(p *PackageGrant) any { return &p.ExpiresAt }},
})

// or returns the value an entry gave, or the default of an absent one.
func or(value, def string) string {
	if value == "" {
		return def
	}
	return value
}
