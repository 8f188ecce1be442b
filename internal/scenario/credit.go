package scenario

import "slices"

// credit is what a client has paid ahead.
type credit struct {
	general int64 // cents
	packs   []*pack
}

// pack is a prepaid package.
type pack struct {
	id, service string
	left        int64 // cents
	quarters    int64 // of an hour, left; 0 also for a package without hours
	timed       bool  // whether it has hours
	expires     day   // 0 for never
	expired     bool
	reserved    bool // not drawn on, so that it expires
}

// usable returns a package to draw on; nil if there is none.
func (c *credit) usable(today day) *pack {
	for _, p := range c.packs {
		if p.left > 0 && !p.reserved && (p.expires == 0 || p.expires >= today) {
			return p
		}
	}
	return nil
}

// lapsed returns a package with something left whose last day is over; nil if there
// is none. A Living looks for one, because its queue does not follow the calendar. A
// history plans the expiry instead.
func (c *credit) lapsed(today day) *pack {
	for _, p := range c.packs {
		if p.left > 0 && p.expires > 0 && p.expires < today {
			return p
		}
	}
	return nil
}

// reviewCredit tops up the credit of a client who prepays when it is used up, and
// plans the next review.
func (c *client) reviewCredit(s *sim) {
	if c.left {
		return
	}
	if c.credit.usable(s.today()) == nil || s.chance(250) {
		c.topUp(s)
	}
	s.afterInOffice(25*fullDay, 60*fullDay, func() { c.reviewCredit(s) })
}

// topUp buys general credit, a package, or a package with an invoice of its own.
func (c *client) topUp(s *sim) {
	if s.chance(250) {
		kind := ""
		if s.chance(300) {
			kind = "goodwill"
		}
		c.topUpGeneral(s, s.between(2_000, 60_000), kind, "", "")
		return
	}
	p := &pack{
		id:       s.id("pk_", &s.ids.pack),
		service:  s.pick(services),
		reserved: s.chance(150),
	}
	p.quarters = s.between(2, 16) * 20
	p.left = p.quarters * c.rate / 4
	p.timed = s.chance(700)
	if !p.timed {
		p.quarters = 0
	}
	if p.reserved || s.chance(750) {
		p.expires = s.today() + day(s.between(2, 13)*30)
	}
	if !s.chance(500) {
		c.topUpPackage(s, p, nil)
		return
	}
	r := &receivable{invoice: newInvoice(s, c, nil, c.cycle.period(s.today()))}
	r.sold, r.gross = p, p.left
	r.record(s, false, "ready_to_send")
	s.afterInOffice(minute, 3*hour, func() { r.issue(s, r.number) })
}

// topUpPackage adds a package, for an invoice or (nil) without one.
func (c *client) topUpPackage(s *sim, p *pack, i *invoice) {
	if p.expires > 0 {
		p.expires = max(p.expires, s.today()+30)
	}
	c.credit.packs = slices.DeleteFunc(c.credit.packs, func(p *pack) bool { return p.left == 0 })
	c.credit.packs = append(c.credit.packs, p)
	o := c.startTopUp(s, p.left, "")
	o.open("package")
	o.text("package_id", p.id)
	o.text("service", p.service)
	if p.timed {
		o.hours("hours", p.quarters)
	}
	if p.expires > 0 {
		o.date("expires_at", p.expires)
	}
	o.close()
	if i != nil {
		o.text("invoice_id", i.id)
		o.text("invoice_number", i.document)
		o.text("period", i.period.key)
	}
	s.emit("credit.topped_up")
	if p.expires > 0 && s.history {
		s.queue.push((p.expires+1).start()+s.between(minute, hour), func() { c.expire(s, p) })
	}
}

// topUpGeneral adds to the general credit, for an invoice or ("") without one.
func (c *client) topUpGeneral(s *sim, amount int64, kind, invoiceID, number string) {
	c.credit.general += amount
	o := c.startTopUp(s, amount, kind)
	o.text("invoice_id", invoiceID)
	o.text("invoice_number", number)
	s.emit("credit.topped_up")
}

// startTopUp writes the fields that all top-ups begin with.
func (c *client) startTopUp(s *sim, amount int64, kind string) *object {
	o := s.obj.reset()
	o.text("credit_id", s.id("cr_", &s.ids.credit))
	o.text("client_id", c.id)
	o.money("amount", amount)
	o.text("currency", c.currency)
	if s.chance(300) {
		o.date("date", s.today()-day(s.between(0, 4)))
	}
	o.text("kind", kind)
	if s.chance(300) {
		o.text("note", s.pick(creditNotes))
	}
	return o
}

// expire ends a package that has something left.
func (c *client) expire(s *sim, p *pack) {
	if p.left == 0 {
		return
	}
	p.expired = true
	p.left, p.quarters = 0, 0
	o := s.obj.reset()
	o.text("credit_id", s.id("cr_", &s.ids.credit))
	o.text("client_id", c.id)
	o.text("package_id", p.id)
	if s.chance(300) {
		o.date("date", p.expires)
	}
	s.emit("credit.expired")
}

// drawdown is the credit that was applied to an invoice.
type drawdown struct {
	pack             *pack // nil for general credit
	amount, quarters int64
}

// applyCredit pays for an invoice, or a part of it, with the credit that there is.
func (r *receivable) applyCredit(s *sim) {
	credit := &r.client.credit
	p := credit.usable(s.today())
	if p == nil && credit.general == 0 || s.chance(350) {
		return
	}
	d := &drawdown{pack: p}
	if p == nil {
		d.amount = min(credit.general, r.gross)
		credit.general -= d.amount
	} else {
		d.amount = min(p.left, r.gross)
		d.quarters = min(p.quarters, r.quarters)
		if d.amount == p.left {
			d.quarters = p.quarters
		}
		p.left -= d.amount
		p.quarters -= d.quarters
	}
	r.applied = d
	r.writeDrawdown(s, d, "credit.applied")
	if s.chance(60) {
		s.afterInOffice(3*hour, 2*fullDay, func() { r.takeBackCredit(s) })
	}
}

// takeBackCredit undoes applyCredit while the invoice is not paid and the package has
// not expired.
func (r *receivable) takeBackCredit(s *sim) {
	d := r.applied
	if d == nil || r.paid || d.pack != nil && d.pack.expired {
		return
	}
	r.applied = nil
	credit := &r.client.credit
	if d.pack == nil {
		credit.general += d.amount
	} else {
		d.pack.left += d.amount
		d.pack.quarters += d.quarters
		if !slices.Contains(credit.packs, d.pack) {
			credit.packs = append(credit.packs, d.pack)
		}
	}
	r.writeDrawdown(s, d, "credit.taken_back")
}

// writeDrawdown writes a credit.applied or credit.taken_back, which take the same
// fields.
func (r *receivable) writeDrawdown(s *sim, d *drawdown, typ string) {
	o := s.obj.reset()
	o.text("credit_id", s.id("cr_", &s.ids.credit))
	o.text("client_id", r.client.id)
	o.text("invoice_id", r.id)
	o.text("invoice_number", r.number)
	o.money("amount", d.amount)
	if s.chance(200) {
		o.date("date", s.today())
	}
	if s.chance(100) {
		o.text("note", s.pick(creditNotes))
	}
	if d.pack != nil {
		o.text("package_id", d.pack.id)
		if d.quarters > 0 {
			o.hours("hours", d.quarters)
		}
	}
	if r.contractor != nil {
		o.text("contractor_id", r.contractor.id)
	}
	o.text("period", r.period.key)
	s.emit(typ)
}
