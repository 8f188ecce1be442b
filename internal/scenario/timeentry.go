package scenario

type reviewState uint8

const (
	inReview reviewState = iota
	approved
	declined
	deleted
)

// timeEntry is a piece of work for a bill.
type timeEntry struct {
	id          string
	bill        *bill
	workDate    day
	service     string
	description string
	quarters    int64 // of an hour
	sessions    int64
	flatFee     int64 // cents; 0 when billed by the hour
	state       reviewState
}

// addWork records a piece of work for the bill and plans its review.
func (b *bill) addWork(s *sim, service string, on day) {
	t := &timeEntry{
		id:       s.id("te_", &s.ids.entry),
		bill:     b,
		workDate: on,
		service:  service,
		quarters: s.between(1, 5) + s.between(0, 8)*s.between(0, 3),
	}
	r := s.rng.Uint32()
	if r%5 < 2 {
		t.description = s.pick(descriptions)
	}
	if r>>4%4 == 0 {
		t.sessions = int64(r>>8%3) + 1
	}
	if r>>12%64 == 0 {
		// Never below what the work costs.
		t.flatFee = (t.quarters*b.client.rate/4/2500 + 1) * 2500
	}
	b.entries = append(b.entries, t)
	t.record(s)
	t.planReview(s)
}

// planReview plans how the review of a recorded entry goes. Where the bill is not
// reviewed as work comes, approvals wait until it is closed: the invoice is recorded
// then, and the approvals can name it.
func (t *timeEntry) planReview(s *sim) {
	whileOpen := func(run func()) func() {
		return func() {
			if !t.bill.closed && t.state != deleted {
				run()
			}
		}
	}
	approve := func() { t.approve(s) }
	switch r := s.rng.Uint32N(1000); {
	case r < 35: // declined; most are corrected
		s.afterInOffice(4*hour, 40*hour, whileOpen(func() {
			outcome := "needs_correction"
			if r < 6 {
				outcome = "rejected"
			}
			t.decline(s, outcome)
			if r < 6 {
				s.after(hour, 2*fullDay, whileOpen(func() { t.delete(s) }))
				return
			}
			s.after(2*hour, 30*hour, whileOpen(func() {
				t.quarters = max(1, t.quarters-s.between(1, 3))
				t.record(s)
				if t.bill.reviewed() {
					s.afterInOffice(2*hour, 30*hour, approve)
				}
			}))
		}))
	case r < 47: // a mistake, deleted before it is approved
		s.after(10*minute, 20*hour, whileOpen(func() { t.delete(s) }))
	case t.bill.reviewed():
		s.afterInOffice(hour, 50*hour, approve)
		if r < 52 { // a mistake, noticed after the approval
			s.after(3*fullDay, 6*fullDay, whileOpen(func() { t.delete(s) }))
		}
	}
}

func (t *timeEntry) billAmount() int64 {
	if t.flatFee > 0 {
		return t.flatFee
	}
	return t.quarters * t.bill.client.rate / 4
}

func (t *timeEntry) payAmount() int64 { return t.quarters * t.bill.contractor.rate / 4 }

// record writes the entry as it stands, which puts it in review.
func (t *timeEntry) record(s *sim) {
	b := t.bill
	t.state = inReview
	s.workEntries++
	s.inReview++
	o := s.obj.reset()
	o.text("time_entry_id", t.id)
	o.date("work_date", t.workDate)
	o.text("client_id", b.client.id)
	o.text("contractor_id", b.contractor.id)
	o.text("service", t.service)
	o.text("description", t.description)
	o.hours("hours", t.quarters)
	if t.sessions > 0 {
		o.integer("session_count", t.sessions)
	}
	if t.flatFee > 0 {
		o.flag("is_flat_fee", true)
	}
	o.text("invoice_id", b.knownID())
	o.text("period", b.period.key)
	o.text("currency", b.client.currency)
	if t.flatFee == 0 {
		o.money("bill_rate", b.client.rate)
	}
	o.money("bill_amount", t.billAmount())
	o.money("pay_rate", b.contractor.rate)
	o.money("pay_amount", t.payAmount())
	if s.chance(100) {
		o.text("pay_status", "to_review")
	}
	s.emit("time_entry.recorded")
}

// approve approves what is still in review. Both the review of the entry and the
// closing of its bill may plan it; the first one counts.
func (t *timeEntry) approve(s *sim) {
	if t.state != inReview {
		return
	}
	t.state = approved
	s.workEntries++
	s.inReview--
	o := s.obj.reset()
	o.text("time_entry_id", t.id)
	o.text("invoice_id", t.bill.knownID())
	t.bill.writeReferences(o)
	s.emit("time_entry.approved")
}

func (t *timeEntry) decline(s *sim, outcome string) {
	t.state = declined
	s.workEntries++
	s.inReview--
	o := s.obj.reset()
	o.text("time_entry_id", t.id)
	o.text("decline_outcome", outcome)
	o.text("invoice_id", t.bill.knownID())
	t.bill.writeReferences(o)
	s.emit("time_entry.declined")
}

func (t *timeEntry) delete(s *sim) {
	if t.state == inReview {
		s.inReview--
	}
	t.state = deleted
	s.workEntries++
	o := s.obj.reset()
	o.text("time_entry_id", t.id)
	o.text("invoice_id", t.bill.knownID())
	t.bill.writeReferences(o)
	s.emit("time_entry.deleted")
}
