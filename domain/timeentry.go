package domain

// TimeEntry is a row of /v1/time-entries.
type TimeEntry struct {
	Row
	WorkDate                       string
	Client, Contractor             Party
	Service, Description           string
	Hours                          OptDecimal
	SessionCount                   OptInt
	IsFlatFee                      bool
	Status, DeclineOutcome         string
	InvoiceID, IssuedInvoiceNumber string
	Period, Currency               string
	BillRate, BillAmount           OptMoney
	PayRate, PayAmount             OptMoney
	PayStatus                      string
}

// The states of time entries and charges that are no states of invoices.
const (
	lineInReview = "in_review"
	lineApproved = "approved"
	lineDeclined = "declined"

	outcomeNeedsCorrection = "needs_correction"
)

// LineStatuses returns the states of time entries and charges.
func LineStatuses() []string {
	return []string{lineInReview, lineApproved, lineDeclined, statusSent, statusPaid}
}

var timeEntryFields = table(concat(
	[]Field[TimeEntry]{
		{Name: "id", Form: FormID, Example: `"te_9000"`, at: func(r *TimeEntry) any { return &r.ID }},
		{Name: "work_date", Form: FormDate, Example: `"2026-10-01"`, at: func(r *TimeEntry) any { return &r.WorkDate }},
		{Name: "client", Form: FormObject, Example: `{"id":"cl_4821","name":"Northwind Clinic"}`, at: func(r *TimeEntry) any { return &r.Client }},
		{Name: "contractor", Form: FormObject, Example: `{"id":"co_118","name":"Rosa Tran"}`, at: func(r *TimeEntry) any { return &r.Contractor }},
		{Name: "service", Form: FormText, Example: `"Occupational therapy"`, at: func(r *TimeEntry) any { return &r.Service }},
		{Name: "description", Form: FormText, Nullable: true, Example: `null`, at: func(r *TimeEntry) any { return &r.Description }},
		{Name: "hours", Form: FormHours, Example: `7.5`, at: func(r *TimeEntry) any { return &r.Hours }},
		{Name: "session_count", Form: FormInteger, Nullable: true, Example: `3`, at: func(r *TimeEntry) any { return &r.SessionCount }},
		{Name: "is_flat_fee", Form: FormBool, Example: `false`, at: func(r *TimeEntry) any { return &r.IsFlatFee }},
		{Name: "status", Form: FormEnum, Values: LineStatuses(), Example: `"approved"`, at: func(r *TimeEntry) any { return &r.Status }},
		{Name: "decline_outcome", Form: FormText, Nullable: true, Known: []string{outcomeNeedsCorrection}, Example: `null`, at: func(r *TimeEntry) any { return &r.DeclineOutcome }},
		{Name: "invoice_id", Form: FormID, Nullable: true, Example: `"in_1042"`, at: func(r *TimeEntry) any { return &r.InvoiceID }},
		{Name: "issued_invoice_number", Form: FormText, Nullable: true, Example: `"INV-1042"`, at: func(r *TimeEntry) any { return &r.IssuedInvoiceNumber }},
	},
	periodFields(func(r *TimeEntry) *string { return &r.Period }),
	[]Field[TimeEntry]{
		{Name: "currency", Form: FormCurrency, Example: `"EUR"`, at: func(r *TimeEntry) any { return &r.Currency }},
		{Name: "updated_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, at: func(r *TimeEntry) any { return &r.UpdatedAt }},
		{Name: "bill_rate", Form: FormMoney, Nullable: true, Example: `"120.00"`, at: func(r *TimeEntry) any { return &r.BillRate }},
		{Name: "bill_amount", Form: FormMoney, Nullable: true, Example: `"900.00"`, at: func(r *TimeEntry) any { return &r.BillAmount }},
		{Name: "pay_rate", Part: Pay, Form: FormMoney, Nullable: true, Example: `"80.00"`, at: func(r *TimeEntry) any { return &r.PayRate }},
		{Name: "pay_amount", Part: Pay, Form: FormMoney, Nullable: true, Example: `"600.00"`, at: func(r *TimeEntry) any { return &r.PayAmount }},
		{Name: "pay_status", Part: Pay, Form: FormText, Known: []string{payToReview, payPaid}, Example: `"to_review"`, at: func(r *TimeEntry) any { return &r.PayStatus }},
	},
))

func timeEntryTypes() []*Type {
	about := func(d *Data) string { return d.TimeEntryID }
	id := required(define("time_entry_id", FormID, func(d *Data) any { return &d.TimeEntryID }))
	return []*Type{
		{
			Name: "time_entry.recorded", Object: "time_entry", object: about, effect: (*fold).timeEntryRecorded,
			Fields: []Field[Data]{
				id,
				required(define("work_date", FormDate, func(d *Data) any { return &d.WorkDate })),
				required(fieldClientID()),
				required(fieldContractorID()),
				required(define("service", FormText, func(d *Data) any { return &d.Service })),
				fieldDescription(),
				required(define("hours", FormHours, func(d *Data) any { return &d.Hours })),
				define("session_count", FormInteger, func(d *Data) any { return &d.SessionCount }),
				byDefault(define("is_flat_fee", FormBool, func(d *Data) any { return &d.IsFlatFee }), "false"),
				fieldInvoiceID(),
				required(fieldPeriod()),
				fieldCurrency(),
				define("bill_rate", FormMoney, func(d *Data) any { return &d.BillRate }),
				define("bill_amount", FormMoney, func(d *Data) any { return &d.BillAmount }),
				fieldPayRate(),
				fieldPayAmount(),
				byDefault(define("pay_status", FormText, func(d *Data) any { return &d.PayStatus }), payToReview),
			},
		},
		{
			Name: "time_entry.approved", Object: "time_entry", Public: true, object: about, effect: (*fold).timeEntryApproved,
			Fields: []Field[Data]{id, fieldInvoiceID()},
		},
		{
			Name: "time_entry.declined", Object: "time_entry", Public: true, object: about, effect: (*fold).timeEntryDeclined,
			Fields: []Field[Data]{id, byDefault(define("decline_outcome", FormText, func(d *Data) any { return &d.DeclineOutcome }), outcomeNeedsCorrection)},
		},
		{
			Name: "time_entry.deleted", Object: "time_entry", Public: true, object: about, effect: (*fold).timeEntryDeleted,
			Fields: []Field[Data]{id},
		},
	}
}

func (f *fold) timeEntryRecorded(d *Data) {
	f.s.TimeEntries.write(f, d.TimeEntryID, func(r *TimeEntry) {
		r.WorkDate = d.WorkDate
		r.Client = f.client(d.ClientID)
		r.Contractor = f.contractor(d.ContractorID)
		r.Service = d.Service
		r.Description = d.Description
		r.Hours = d.Hours
		r.SessionCount = d.SessionCount
		r.IsFlatFee = d.IsFlatFee.Or(false)
		r.Status, r.DeclineOutcome = lineInReview, ""
		r.InvoiceID = d.InvoiceID
		r.Period = d.Period
		r.Currency = d.Currency
		r.BillRate, r.BillAmount = d.BillRate, d.BillAmount
		r.PayRate, r.PayAmount = d.PayRate, d.PayAmount
		r.PayStatus = or(d.PayStatus, payToReview)
	})
}

// timeEntry finds the time entry an entry is about, or notes the anomaly.
func (f *fold) timeEntry(id string) *TimeEntry {
	r := f.s.TimeEntries.Get(id)
	if r == nil {
		f.anomaly(UnknownObject)
	}
	return r
}

func (f *fold) timeEntryApproved(d *Data) {
	if f.timeEntry(d.TimeEntryID) == nil {
		return
	}
	f.s.TimeEntries.write(f, d.TimeEntryID, func(r *TimeEntry) {
		r.Status, r.DeclineOutcome = lineApproved, ""
		r.InvoiceID = or(d.InvoiceID, r.InvoiceID)
	})
}

func (f *fold) timeEntryDeclined(d *Data) {
	r := f.timeEntry(d.TimeEntryID)
	if r == nil {
		return
	}
	r.Status, r.DeclineOutcome = lineDeclined, or(d.DeclineOutcome, outcomeNeedsCorrection)
	f.s.TimeEntries.touch(f, r)
}

func (f *fold) timeEntryDeleted(d *Data) {
	if r := f.timeEntry(d.TimeEntryID); r != nil {
		f.s.TimeEntries.remove(r)
	}
}

// line is what time entries and charges have in common for an invoice.
type line struct {
	status, issuedNumber *string
}

// lines changes those time entries and charges of an invoice that match.
func (f *fold) lines(invoiceID string, match func(*line) bool, change func(*line)) {
	f.s.TimeEntries.each(byInvoice, invoiceID, func(r *TimeEntry) {
		if l := (line{&r.Status, &r.IssuedInvoiceNumber}); match(&l) {
			change(&l)
			f.s.TimeEntries.touch(f, r)
		}
	})
	f.s.Charges.each(byInvoice, invoiceID, func(r *Charge) {
		if l := (line{&r.Status, &r.IssuedInvoiceNumber}); match(&l) {
			change(&l)
			f.s.Charges.touch(f, r)
		}
	})
}
