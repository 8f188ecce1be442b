package domain

// Charge is a row of /v1/charges.
type Charge struct {
	Row
	InvoiceID                         string
	Client, Contractor                Party
	Date, Category, Description, Kind string
	BilledToClient                    bool
	Amount                            Money
	Currency, Status                  string
	IssuedInvoiceNumber, Period       string
	PayRate, PayAmount                OptMoney
}

var chargeFields = table(concat(
	[]Field[Charge]{
		{Name: "id", Form: FormID, Example: `"ch_77"`, at: func(r *Charge) any { return &r.ID }},
		{Name: "invoice_id", Form: FormID, Nullable: true, Example: `"in_1042"`, at: func(r *Charge) any { return &r.InvoiceID }},
		{Name: "client", Form: FormObject, Example: `{"id":"cl_4821","name":"Northwind Clinic"}`, at: func(r *Charge) any { return &r.Client }},
		{Name: "contractor", Form: FormObject, Nullable: true, Example: `null`, at: func(r *Charge) any { return &r.Contractor }},
		{Name: "date", Form: FormDate, Example: `"2026-10-15"`, at: func(r *Charge) any { return &r.Date }},
		{Name: "category", Form: FormText, Example: `"materials"`, at: func(r *Charge) any { return &r.Category }},
		{Name: "description", Form: FormText, Nullable: true, Example: `null`, at: func(r *Charge) any { return &r.Description }},
		{Name: "kind", Form: FormText, Known: []string{"service_fee"}, Example: `"service_fee"`, at: func(r *Charge) any { return &r.Kind }},
		{Name: "billed_to_client", Form: FormBool, Doc: "Charges that are not billed to the client are shown only with pay:read.", Example: `true`, at: func(r *Charge) any { return &r.BilledToClient }},
		{Name: "amount", Form: FormMoney, Example: `"156.17"`, at: func(r *Charge) any { return &r.Amount }},
		{Name: "currency", Form: FormCurrency, Example: `"EUR"`, at: func(r *Charge) any { return &r.Currency }},
		{Name: "status", Form: FormEnum, Values: LineStatuses(), Example: `"in_review"`, at: func(r *Charge) any { return &r.Status }},
		{Name: "issued_invoice_number", Form: FormText, Nullable: true, Example: `"INV-1042"`, at: func(r *Charge) any { return &r.IssuedInvoiceNumber }},
	},
	periodFields(func(r *Charge) *string { return &r.Period }),
	[]Field[Charge]{
		{Name: "updated_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, at: func(r *Charge) any { return &r.UpdatedAt }},
		{Name: "pay_rate", Part: Pay, Form: FormMoney, Nullable: true, Example: `null`, at: func(r *Charge) any { return &r.PayRate }},
		{Name: "pay_amount", Part: Pay, Form: FormMoney, Nullable: true, Example: `"41.57"`, at: func(r *Charge) any { return &r.PayAmount }},
	},
))

func chargeTypes() []*Type {
	about := func(d *Data) string { return d.ChargeID }
	id := required(define("charge_id", FormID, func(d *Data) any { return &d.ChargeID }))
	whole := func() []Field[Data] {
		return []Field[Data]{
			id,
			fieldInvoiceID(),
			required(fieldClientID()),
			fieldContractorID(),
			required(define("date", FormDate, func(d *Data) any { return &d.Date })),
			required(define("category", FormText, func(d *Data) any { return &d.Category })),
			fieldDescription(),
			required(fieldKind()),
			byDefault(define("billed_to_client", FormBool, func(d *Data) any { return &d.BilledToClient }), "true"),
			fieldAmount(),
			fieldCurrency(),
			byDefault(Field[Data]{Name: "status", Form: FormEnum, Values: LineStatuses(), at: func(d *Data) any { return &d.Status }}, lineInReview),
			required(fieldPeriod()),
			fieldPayRate(),
			fieldPayAmount(),
		}
	}
	return []*Type{
		{Name: "charge.created", Object: "charge", Public: true, object: about, effect: (*fold).chargeCreated, Fields: whole()},
		{Name: "charge.recorded", Object: "charge", object: about, effect: (*fold).chargeRecorded, Fields: whole()},
		{Name: "charge.deleted", Object: "charge", Public: true, object: about, effect: (*fold).chargeDeleted, Fields: []Field[Data]{id}},
	}
}

func (f *fold) chargeCreated(d *Data) {
	if f.s.Charges.Get(d.ChargeID) != nil {
		f.anomaly(Repeat)
		return
	}
	f.chargeRecorded(d)
}

func (f *fold) chargeRecorded(d *Data) {
	f.s.Charges.write(f, d.ChargeID, func(r *Charge) {
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
		r.Status = or(d.Status, lineInReview)
		r.Period = d.Period
		r.PayRate, r.PayAmount = d.PayRate, d.PayAmount
	})
}

func (f *fold) chargeDeleted(d *Data) {
	r := f.s.Charges.Get(d.ChargeID)
	if r == nil {
		f.anomaly(UnknownObject)
		return
	}
	f.s.Charges.remove(r)
}
