package domain

import (
	"cmp"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// TimeEntry is a row of /v1/time-entries.
type TimeEntry struct {
	Row
	parties
	WorkDate                       string
	Service, Description           string
	Hours                          OptDecimal
	SessionCount                   jsonform.OptInt
	IsFlatFee                      bool
	Status, DeclineOutcome         string
	InvoiceID, IssuedInvoiceNumber string
	Period, Currency               string
	BillRate, BillAmount           OptMoney
	PayRate, PayAmount             OptMoney
	PayStatus                      string
}

const outcomeNeedsCorrection = "needs_correction"

var timeEntryFields = jsonform.Define(
	[]jsonform.Field[TimeEntry]{
		{Name: "id", Form: FormID, Example: `"te_9000"`, Doc: "Id of the time entry in its workspace. It never changes.", At: func(r *TimeEntry) any { return &r.ID }},
		{Name: "work_date", Form: FormDate, Example: `"2026-10-01"`, Doc: "Day on which the work was done.", At: func(r *TimeEntry) any { return &r.WorkDate }},
		{Name: "client", Form: FormObject, Example: `{"id":"cl_4821","name":"Northwind Clinic"}`, Doc: "Who the work was for.", At: func(r *TimeEntry) any { return &r.Client }},
		{Name: "contractor", Form: FormObject, Example: `{"id":"co_118","name":"Rosa Tran"}`, Doc: "Who did the work.", At: func(r *TimeEntry) any { return &r.Contractor }},
		{Name: "service", Form: FormText, Example: `"Occupational therapy"`, Doc: "Service in the words of the workspace.", At: func(r *TimeEntry) any { return &r.Service }},
		{Name: "description", Form: FormText, Nullable: true, Example: `null`, Doc: "What was done; null without a text.", At: func(r *TimeEntry) any { return &r.Description }},
		{Name: "hours", Form: FormHours, Example: `7.5`, Doc: "Hours of work, exact to four decimals.", At: func(r *TimeEntry) any { return &r.Hours }},
		{Name: "session_count", Form: FormInteger, Nullable: true, Example: `3`, Doc: "Sessions in these hours; null where they are not counted.", At: func(r *TimeEntry) any { return &r.SessionCount }},
		{Name: "is_flat_fee", Form: FormBool, Example: `false`, Doc: "Whether a flat fee is billed, so that bill_amount does not follow from the hours.", At: func(r *TimeEntry) any { return &r.IsFlatFee }},
		{Name: "status", Form: FormEnum, Values: LineStatuses(), Example: `"approved"`, Doc: "in_review, then approved or declined; sent and paid follow the invoice.", At: func(r *TimeEntry) any { return &r.Status }},
		{Name: "decline_outcome", Form: FormText, Nullable: true, Known: []string{outcomeNeedsCorrection}, Example: `null`, Doc: "What is to follow after it was declined; null unless its status is declined.", At: func(r *TimeEntry) any { return &r.DeclineOutcome }},
		{Name: "invoice_id", Form: FormID, Nullable: true, Example: `"in_1042"`, Doc: "Invoice that the work is on; null while it is on none. It may name a draft, which is a 404 until it is shown.", At: func(r *TimeEntry) any { return &r.InvoiceID }},
		{Name: "issued_invoice_number", Form: FormText, Nullable: true, Example: `"INV-1042"`, Doc: "Number of the issued document that it is on; null while it is on none. It may name a draft, which is a 404 until it is shown.", At: func(r *TimeEntry) any { return &r.IssuedInvoiceNumber }},
	},
	periodFields(func(r *TimeEntry) *string { return &r.Period }),
	[]jsonform.Field[TimeEntry]{
		{Name: "currency", Form: FormCurrency, Example: `"EUR"`, Doc: "Currency of all amounts of the row, ISO 4217.", At: func(r *TimeEntry) any { return &r.Currency }},
		{Name: "updated_at", Form: FormDateTime, Example: `"2026-10-02T09:15:00.120Z"`, Doc: "Publish time of the last entry that changed the row; lists are in this order. It also moves when only fields changed that this key does not see.", At: func(r *TimeEntry) any { return &r.UpdatedAt }},
		{Name: "bill_rate", Form: FormMoney, Nullable: true, Example: `"120.00"`, Doc: "What the client is billed for an hour; null when it was not recorded.", At: func(r *TimeEntry) any { return &r.BillRate }},
		{Name: "bill_amount", Form: FormMoney, Nullable: true, Example: `"900.00"`, Doc: "What the client is billed for the entry; null when it was not recorded.", At: func(r *TimeEntry) any { return &r.BillAmount }},
		{Name: "pay_rate", Part: Pay, Form: FormMoney, Nullable: true, Example: `"80.00"`, Doc: "What the contractor is paid for an hour; null when it was not recorded.", At: func(r *TimeEntry) any { return &r.PayRate }},
		{Name: "pay_amount", Part: Pay, Form: FormMoney, Nullable: true, Example: `"600.00"`, Doc: "What the contractor is paid for the entry; null when it was not recorded.", At: func(r *TimeEntry) any { return &r.PayAmount }},
		{Name: "pay_status", Part: Pay, Form: FormText, Known: []string{payToReview, payPaid}, Example: `"to_review"`, Doc: "Where paying the contractor for it stands.", At: func(r *TimeEntry) any { return &r.PayStatus }},
	},
)

// timeEntryRecorded is the data of time_entry.recorded.
type timeEntryRecorded struct {
	references
	TimeEntryID, WorkDate, Service, Description string
	Hours                                       OptDecimal
	SessionCount                                jsonform.OptInt
	IsFlatFee                                   jsonform.OptBool
	Currency                                    string
	BillRate, BillAmount, PayRate, PayAmount    OptMoney
	PayStatus                                   string
}

const typeTimeEntryRecorded = "time_entry.recorded"

var timeEntryRecordedType = define(entryType[timeEntryRecorded]{
	typeHead: typeHead{
		name: typeTimeEntryRecorded, object: "time_entry", detached: []string{"description"},
		when: "A time entry was added or changed. Fields that the entry leaves out become empty, and it is in review again.",
	},
	fields: []jsonform.Field[timeEntryRecorded]{
		{Name: "time_entry_id", Form: FormID, Required: true, At: func(d *timeEntryRecorded) any { return &d.TimeEntryID }},
		{Name: "work_date", Form: FormDate, Required: true, At: func(d *timeEntryRecorded) any { return &d.WorkDate }},
		{Name: "client_id", Form: FormID, Required: true, At: func(d *timeEntryRecorded) any { return &d.ClientID }},
		{Name: "contractor_id", Form: FormID, Required: true, At: func(d *timeEntryRecorded) any { return &d.ContractorID }},
		{Name: "service", Form: FormText, Required: true, At: func(d *timeEntryRecorded) any { return &d.Service }},
		{Name: "description", Form: FormText, At: func(d *timeEntryRecorded) any { return &d.Description }},
		{Name: "hours", Form: FormHours, Required: true, At: func(d *timeEntryRecorded) any { return &d.Hours }},
		{Name: "session_count", Form: FormInteger, At: func(d *timeEntryRecorded) any { return &d.SessionCount }},
		{Name: "is_flat_fee", Form: FormBool, At: func(d *timeEntryRecorded) any { return &d.IsFlatFee }},
		{Name: "invoice_id", Form: FormID, At: func(d *timeEntryRecorded) any { return &d.InvoiceID }},
		{Name: "period", Form: FormPeriod, Required: true, At: func(d *timeEntryRecorded) any { return &d.Period }},
		{Name: "currency", Form: FormCurrency, Required: true, At: func(d *timeEntryRecorded) any { return &d.Currency }},
		{Name: "bill_rate", Form: FormMoney, At: func(d *timeEntryRecorded) any { return &d.BillRate }},
		{Name: "bill_amount", Form: FormMoney, At: func(d *timeEntryRecorded) any { return &d.BillAmount }},
		{Name: "pay_rate", Part: Pay, Form: FormMoney, At: func(d *timeEntryRecorded) any { return &d.PayRate }},
		{Name: "pay_amount", Part: Pay, Form: FormMoney, At: func(d *timeEntryRecorded) any { return &d.PayAmount }},
		{Name: "pay_status", Part: Pay, Form: FormText, At: func(d *timeEntryRecorded) any { return &d.PayStatus }},
	},
	effect: recordTimeEntry,
	needs: func(n *Needs, d *timeEntryRecorded) {
		n.TimeEntries.add(d.TimeEntryID)
		n.RemovedTimeEntries.add(d.TimeEntryID)
		n.parties(&d.references)
	},
})

func recordTimeEntry(f *fold, d *timeEntryRecorded) {
	f.TimeEntries.write(f.stamp, d.TimeEntryID, func(r *TimeEntry) {
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
		r.PayStatus = cmp.Or(d.PayStatus, payToReview)
	})
	bringBack(&f.RemovedTimeEntries, d.TimeEntryID)
}

// timeEntryApproved is the data of time_entry.approved.
type timeEntryApproved struct {
	references
	TimeEntryID string
}

var timeEntryApprovedType = define(entryType[timeEntryApproved]{
	typeHead: typeHead{
		name: "time_entry.approved", object: "time_entry", public: true,
		when: "A time entry was approved.",
	},
	fields: []jsonform.Field[timeEntryApproved]{
		{Name: "time_entry_id", Form: FormID, Required: true, At: func(d *timeEntryApproved) any { return &d.TimeEntryID }},
		{Name: "invoice_id", Form: FormID, At: func(d *timeEntryApproved) any { return &d.InvoiceID }},
	},
	effect: approveTimeEntry,
	needs:  func(n *Needs, d *timeEntryApproved) { n.TimeEntries.add(d.TimeEntryID) },
})

func approveTimeEntry(f *fold, d *timeEntryApproved) {
	if f.timeEntry(d.TimeEntryID) == nil {
		return
	}
	f.TimeEntries.write(f.stamp, d.TimeEntryID, func(r *TimeEntry) {
		r.Status, r.DeclineOutcome = lineApproved, ""
		r.InvoiceID = cmp.Or(d.InvoiceID, r.InvoiceID)
	})
}

// timeEntryDeclined is the data of time_entry.declined.
type timeEntryDeclined struct {
	references
	TimeEntryID, DeclineOutcome string
}

var timeEntryDeclinedType = define(entryType[timeEntryDeclined]{
	typeHead: typeHead{
		name: "time_entry.declined", object: "time_entry", public: true,
		when: "A time entry was declined; decline_outcome says what is to follow.",
	},
	fields: []jsonform.Field[timeEntryDeclined]{
		{Name: "time_entry_id", Form: FormID, Required: true, At: func(d *timeEntryDeclined) any { return &d.TimeEntryID }},
		{Name: "decline_outcome", Form: FormText, At: func(d *timeEntryDeclined) any { return &d.DeclineOutcome }},
	},
	effect: declineTimeEntry,
	needs:  func(n *Needs, d *timeEntryDeclined) { n.TimeEntries.add(d.TimeEntryID) },
})

func declineTimeEntry(f *fold, d *timeEntryDeclined) {
	r := f.timeEntry(d.TimeEntryID)
	if r == nil {
		return
	}
	r.Status, r.DeclineOutcome = lineDeclined, cmp.Or(d.DeclineOutcome, outcomeNeedsCorrection)
	f.TimeEntries.touch(f.stamp, r)
}

// timeEntryDeleted is the data of time_entry.deleted.
type timeEntryDeleted struct {
	references
	TimeEntryID string
}

var timeEntryDeletedType = define(entryType[timeEntryDeleted]{
	typeHead: typeHead{
		name: "time_entry.deleted", object: "time_entry", public: true,
		when: "A time entry was deleted. Reading it gives 404 from now on.",
	},
	fields: []jsonform.Field[timeEntryDeleted]{
		{Name: "time_entry_id", Form: FormID, Required: true, At: func(d *timeEntryDeleted) any { return &d.TimeEntryID }},
	},
	effect: deleteTimeEntry,
	needs: func(n *Needs, d *timeEntryDeleted) {
		n.TimeEntries.add(d.TimeEntryID)
		n.RemovedTimeEntries.add(d.TimeEntryID)
	},
})

func deleteTimeEntry(f *fold, d *timeEntryDeleted) {
	if r := f.timeEntry(d.TimeEntryID); r != nil {
		f.takeAway(&f.RemovedTimeEntries, r.ID, lastValues{r.Client.ID, r.Contractor.ID, r.Period, r.Status, r.WorkDate})
		f.TimeEntries.remove(r)
	}
}

// timeEntry returns the time entry that an entry refers to. If it does not exist, timeEntry records
// an anomaly and returns nil.
func (f *fold) timeEntry(id string) *TimeEntry {
	r := f.TimeEntries.Get(id)
	if r == nil {
		f.anomaly(UnknownObject)
	}
	return r
}
