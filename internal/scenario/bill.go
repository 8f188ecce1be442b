package scenario

// bill collects the work of an engagement in a period for an invoice, until it is
// closed.
type bill struct {
	*invoice
	// early bills have their invoice recorded before their first work, so that all
	// entries about the work can name it; others when the period is over.
	early bool
	// loose bills never get an invoice: a Living reports work that some later
	// invoice would take.
	loose  bool
	closed bool // takes no more work

	entries []*timeEntry
	charges []*charge
}

// reviewed reports whether work is reviewed as it comes, not when the bill is closed.
func (b *bill) reviewed() bool { return b.early || b.loose }

// openBill prepares the bill of an engagement for a period, and records the invoice
// of an early one.
func (s *sim) openBill(e *engagement, p period) *bill {
	b := &bill{invoice: newInvoice(s, e.client, e.contractor, p)}
	b.early = s.chance(650)
	if b.early {
		b.record(s, s.chance(600), "")
	}
	return b
}

// billFor returns the bill that work of a day goes to. A new one is planned to be
// closed after its period.
func (s *sim) billFor(e *engagement, on day) *bill {
	if e.bill != nil && on <= e.bill.period.end {
		return e.bill
	}
	b := s.openBill(e, e.client.cycle.period(on))
	e.bill = b
	at := (b.period.end + 1).start() + s.between(opening, 2*fullDay)
	s.queue.push(s.office(at), func() { b.close(s) })
	return b
}

// close ends the work on a bill: it records the invoice if that is not done, plans
// the approval of what is in review, and after that the final record.
func (b *bill) close(s *sim) {
	b.closed = true
	if !b.total(inReview) {
		return
	}
	if !b.recorded {
		b.record(s, s.chance(500), "")
	}
	lag := int64(0)
	for _, t := range b.entries {
		if t.state == inReview {
			lag += s.between(200, 4*second)
			s.after(lag, lag, func() { t.approve(s) })
		}
	}
	for _, c := range b.charges {
		if c.state == inReview {
			lag += s.between(2*second, 20*second)
			s.after(lag, lag, func() { c.approve(s) })
		}
	}
	// Office hours move a step later, never earlier, so the approvals come first.
	s.afterInOffice(lag+30*minute, lag+20*hour, func() { b.finalise(s) })
}

// total adds up what counts: approved work, and work in the state also. It reports
// whether there is anything to bill or to pay.
func (b *bill) total(also reviewState) bool {
	b.gross, b.payout, b.quarters = 0, 0, 0
	for _, t := range b.entries {
		if t.state == approved || t.state == also {
			b.gross += t.billAmount()
			b.payout += t.payAmount()
			b.quarters += t.quarters
		}
	}
	for _, c := range b.charges {
		if c.state == approved || c.state == also {
			b.payout += c.payAmount
			if c.billed {
				b.gross += c.amount
			}
		}
	}
	return b.gross > 0 || b.payout > 0
}

// finalise records the invoice ready to send, and plans its documents.
func (b *bill) finalise(s *sim) {
	if !b.total(approved) {
		return
	}
	b.entries, b.charges = nil, nil // added up; a large agency would keep all its work in memory
	b.record(s, false, "ready_to_send")
	r := &receivable{invoice: b.invoice}
	switch {
	case b.gross == 0: // only work that the client does not pay for
		s.afterInOffice(fullDay, 4*fullDay, func() { b.sendToPayroll(s) })
	case b.external:
		s.afterInOffice(hour, fullDay, func() { r.sendExternally(s) })
	default:
		s.after(minute, 20*minute, func() { r.applyCredit(s) })
		s.afterInOffice(30*minute, 8*hour, func() { r.issue(s, r.number) })
	}
}
