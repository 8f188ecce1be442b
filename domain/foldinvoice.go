package domain

func (f *fold) invoiceRecorded(d *Data) {
	old := f.s.Invoices.Get(d.InvoiceID)
	if old != nil && old.Type == invoiceTypeCreditNote {
		f.anomaly(WrongKind)
		return
	}
	f.s.Invoices.write(f, d.InvoiceID, func(r *Invoice) {
		r.Shown = r.Shown || !d.Draft.Or(false)
		r.Number = d.Number
		r.Type = or(d.Type, invoiceTypeInvoice)
		r.Client = f.client(d.ClientID)
		r.Contractor = f.contractor(d.ContractorID)
		r.Period = d.Period
		r.PlanName = d.PlanName
		if r.ClientBillingStatus != statusSent && r.ClientBillingStatus != statusPaid {
			r.ClientBillingStatus = or(d.ClientBillingStatus, statusNotReady)
		}
		r.GrossAmount = d.GrossAmount.Money
		r.Currency = d.Currency
		r.BilledExternally = d.BilledExternally.Or(false)
		r.DeliveredValue = d.DeliveredValue
		r.RecognizedRevenue = d.RecognizedRevenue
		r.BillableHours = d.BillableHours
		r.PeriodClosed = f.closed(d.Period, d.ClientID)
		if r.ContractorPayStatus != paySentToPayroll && r.ContractorPayStatus != payPaid {
			r.ContractorPayStatus = or(d.ContractorPayStatus, payToReview)
		}
		r.PayoutAmount = d.PayoutAmount
		r.MarginAmount = d.MarginAmount
		r.MarginPercent = d.MarginPercent
		r.MarginNote = d.MarginNote
		r.settle()
	})
}

// settle makes net_due anew. A credit larger than the gross amount leaves
// 0.00; a credit note never has anything due.
func (r *Invoice) settle() {
	r.NetDue = 0
	if r.Type != invoiceTypeCreditNote {
		due, _ := totalOf(int64(r.GrossAmount)).floorZero(r.CreditApplied.total)
		r.NetDue = Money(due.low) // no more than the gross amount
	}
}

// invoice finds the invoice an entry is about, or notes the anomaly.
func (f *fold) invoice(id string) *Invoice {
	r := f.s.Invoices.Get(id)
	if r == nil {
		f.anomaly(UnknownObject)
	}
	return r
}

func (f *fold) invoiceIssued(d *Data) {
	r := f.invoice(d.InvoiceID)
	if r == nil {
		return
	}
	for _, doc := range r.Issued {
		if doc.Number == d.InvoiceNumber && doc.Status != documentVoided {
			f.anomaly(Repeat)
			return
		}
	}
	r.Issued = append(r.Issued, IssuedInvoice{
		Number:         d.InvoiceNumber,
		Amount:         d.Amount.Money,
		Status:         documentIssued,
		IssuedAt:       or(d.IssuedAt, f.at),
		IsSupplemental: d.IsSupplemental.Or(false),
	})
	f.shown(r)
	f.lines(r.ID,
		func(l *line) bool { return *l.issuedNumber == "" },
		func(l *line) { *l.issuedNumber = d.InvoiceNumber })
}

func (f *fold) invoiceSent(d *Data) {
	r, ok := f.document(d)
	if !ok {
		return
	}
	at := or(d.SentAt, f.at)
	for i := range r.Issued {
		doc := &r.Issued[i]
		if d.InvoiceNumber == "" && doc.Status != documentIssued {
			continue
		}
		if d.InvoiceNumber != "" && (doc.Number != d.InvoiceNumber || doc.Status == statusPaid || doc.Status == documentVoided) {
			continue
		}
		doc.Status, doc.SentAt = statusSent, at
	}
	r.SentAt = at
	if r.ClientBillingStatus != statusPaid {
		r.ClientBillingStatus = statusSent
	}
	f.shown(r)
	f.lines(r.ID,
		func(l *line) bool { return *l.status == lineApproved },
		func(l *line) { *l.status = statusSent })
}

func (f *fold) invoicePaid(d *Data) {
	r, ok := f.document(d)
	if !ok {
		return
	}
	at := or(d.PaidAt, f.at)
	settled := true
	for i := range r.Issued {
		doc := &r.Issued[i]
		if doc.Status == documentVoided {
			continue
		}
		if d.InvoiceNumber == "" || doc.Number == d.InvoiceNumber {
			doc.Status, doc.PaidAt = statusPaid, at
		}
		settled = settled && doc.Status == statusPaid
	}
	f.shown(r)
	if !settled {
		return
	}
	r.ClientBillingStatus, r.PaidAt = statusPaid, at
	f.lines(r.ID,
		func(l *line) bool { return *l.status == lineApproved || *l.status == statusSent },
		func(l *line) { *l.status = statusPaid })
}

func (f *fold) invoiceVoided(d *Data) {
	r, ok := f.document(d)
	if !ok {
		return
	}
	left := false
	for i := range r.Issued {
		doc := &r.Issued[i]
		if doc.Number == d.InvoiceNumber {
			doc.Status = documentVoided
		}
		left = left || doc.Status != documentVoided
	}
	if !left {
		r.ClientBillingStatus, r.SentAt, r.PaidAt = statusReadyToSend, "", ""
	}
	f.shown(r)
	f.lines(r.ID,
		func(l *line) bool {
			return *l.issuedNumber == d.InvoiceNumber || !left && (*l.status == statusSent || *l.status == statusPaid)
		},
		func(l *line) {
			if *l.issuedNumber == d.InvoiceNumber {
				*l.issuedNumber = ""
			}
			if !left && (*l.status == statusSent || *l.status == statusPaid) {
				*l.status = lineApproved
			}
		})
}

// document finds the invoice an entry is about and checks that it has the
// document the entry names, if it names one.
func (f *fold) document(d *Data) (*Invoice, bool) {
	r := f.invoice(d.InvoiceID)
	if r == nil || d.InvoiceNumber == "" {
		return r, r != nil
	}
	for _, doc := range r.Issued {
		if doc.Number == d.InvoiceNumber {
			return r, true
		}
	}
	f.anomaly(UnknownDocument)
	return nil, false
}

// shown marks an invoice changed by one of the five public invoice entries,
// which ends its life as a draft.
func (f *fold) shown(r *Invoice) {
	r.Shown = true
	f.s.Invoices.touch(f, r)
}

func (f *fold) invoiceReversed(d *Data) {
	if r := f.invoice(d.InvoiceID); r != nil {
		r.Reversed = true
		f.shown(r)
	}
}

func (f *fold) creditNoteIssued(d *Data) {
	if f.s.Invoices.Get(d.InvoiceID) != nil {
		f.anomaly(Repeat)
		return
	}
	f.s.Invoices.write(f, d.InvoiceID, func(r *Invoice) {
		r.Shown = true
		r.Number = d.InvoiceNumber
		r.Type = invoiceTypeCreditNote
		r.Client = f.client(d.ClientID)
		r.Contractor = f.contractor(d.ContractorID)
		r.Period = d.Period
		r.ClientBillingStatus = statusSent
		r.GrossAmount = d.Amount.Money
		r.Currency = d.Currency
		r.SentAt = f.at
		r.PeriodClosed = f.closed(d.Period, d.ClientID)
		r.CreditNote = &CreditNote{Kind: d.Kind, Amount: d.Amount.Money, SourceInvoiceID: d.SourceInvoiceID}
	})
}

func (f *fold) payoutSentToPayroll(d *Data) {
	r := f.invoice(d.InvoiceID)
	if r == nil {
		return
	}
	r.PayoutSentToPayrollAt = or(d.SentAt, f.at)
	if r.ContractorPayStatus != payPaid {
		r.ContractorPayStatus = paySentToPayroll
	}
	f.s.Invoices.touch(f, r)
}

// ClosedPeriod says that a period is closed, for the workspace (no client) or
// for one client.
type ClosedPeriod struct {
	Row
	Period, ClientID string
}

// ClosedPeriodKey is the id of a closed period in a State.
func ClosedPeriodKey(period, clientID string) string { return period + "/" + clientID }

func (f *fold) closed(period, clientID string) bool {
	return f.s.Closures.Get(ClosedPeriodKey(period, "")) != nil ||
		f.s.Closures.Get(ClosedPeriodKey(period, clientID)) != nil
}

func (f *fold) periodClosed(d *Data) {
	key := ClosedPeriodKey(d.Period, d.ClientID)
	if f.s.Closures.Get(key) == nil {
		f.s.Closures.write(f, key, func(c *ClosedPeriod) { c.Period, c.ClientID = d.Period, d.ClientID })
	}
	f.s.Invoices.each(byPeriod, d.Period, func(r *Invoice) {
		if !r.PeriodClosed && (d.ClientID == "" || r.Client.ID == d.ClientID) {
			r.PeriodClosed = true
			f.s.Invoices.touch(f, r)
		}
	})
}
