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
	quarters    int64 // hours left; 0 also for a package without hours
	timed       bool  // whether it has hours
	expires     day   // 0 for never
	expired     bool
	reserved    bool // for a service that is not asked for; it will expire
}

// draw is an application of credit to an invoice.
type draw struct {
	pack             *pack // nil for general credit
	amount, quarters int64
}

// usable gives a package to draw on, nil if there is none.
func (c *credit) usable(today day) *pack {
	for _, p := range c.packs {
		if p.left > 0 && !p.reserved && (p.expires == 0 || p.expires >= today) {
			return p
		}
	}
	return nil
}

// reviewCredit tops a prepaying client up when its credit is used, and comes
// back to it later.
func (s *sim) reviewCredit(c *client) {
	if c.left {
		return
	}
	if c.credit.usable(s.today()) == nil || s.chance(250) {
		s.topUp(c)
	}
	s.afterInOffice(25*fullDay, 60*fullDay, func() { s.reviewCredit(c) })
}

// topUp buys credit: general, a package, or a package by an invoice of its own.
func (s *sim) topUp(c *client) {
	if s.chance(250) {
		kind := ""
		if s.chance(300) {
			kind = "goodwill"
		}
		s.topUpGeneral(c, s.between(2_000, 60_000), kind, "", "")
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
		s.topUpPackage(c, p, nil)
		return
	}
	b := s.newBill(c, nil, c.rhythm.period(s.today()))
	b.sold, b.gross = p, p.left
	s.recordBill(b, false, "ready_to_send")
	s.afterInOffice(minute, 3*hour, func() { s.issue(b, b.number) })
}

// grant tops the package up that the invoice was for.
func (s *sim) grant(b *bill) { s.topUpPackage(b.client, b.sold, b) }

func (s *sim) topUpPackage(c *client, p *pack, b *bill) {
	if p.expires > 0 {
		p.expires = max(p.expires, s.today()+30)
	}
	c.credit.packs = slices.DeleteFunc(c.credit.packs, func(p *pack) bool { return p.left == 0 })
	c.credit.packs = append(c.credit.packs, p)
	o := s.topUpStart(c, p.left, "")
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
	if b != nil {
		o.text("invoice_id", b.id)
		o.text("invoice_number", b.document)
		o.text("period", b.period.key)
	}
	s.emit("credit.topped_up")
	if p.expires > 0 && s.history {
		s.queue.push((p.expires+1).start()+s.between(minute, hour), func() { s.expire(c, p) })
	}
}

// topUpGeneral adds to the general credit, for an invoice or of its own.
func (s *sim) topUpGeneral(c *client, amount int64, kind, invoiceID, number string) {
	c.credit.general += amount
	o := s.topUpStart(c, amount, kind)
	o.text("invoice_id", invoiceID)
	o.text("invoice_number", number)
	s.emit("credit.topped_up")
}

func (s *sim) topUpStart(c *client, amount int64, kind string) *object {
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

// applyCredit pays for an invoice, or a part of it, with what there is; never
// with more.
func (s *sim) applyCredit(b *bill) {
	acc := &b.client.credit
	p := acc.usable(s.today())
	if p == nil && acc.general == 0 || s.chance(350) {
		return
	}
	d := &draw{pack: p}
	if p == nil {
		d.amount = min(acc.general, b.gross)
		acc.general -= d.amount
	} else {
		d.amount = min(p.left, b.gross)
		d.quarters = min(p.quarters, b.quarters)
		if d.amount == p.left {
			d.quarters = p.quarters
		}
		p.left -= d.amount
		p.quarters -= d.quarters
	}
	b.applied = d
	s.creditMoved(b, d, "credit.applied")
	if s.chance(60) {
		s.afterInOffice(3*hour, 2*fullDay, func() { s.takeBackCredit(b) })
	}
}

// takeBackCredit undoes an application while the invoice is not paid and the
// package can still be used.
func (s *sim) takeBackCredit(b *bill) {
	d := b.applied
	if d == nil || b.paid || d.pack != nil && d.pack.expired {
		return
	}
	b.applied = nil
	if d.pack == nil {
		b.client.credit.general += d.amount
	} else {
		d.pack.left += d.amount
		d.pack.quarters += d.quarters
		if acc := &b.client.credit; !slices.Contains(acc.packs, d.pack) {
			acc.packs = append(acc.packs, d.pack)
		}
	}
	s.creditMoved(b, d, "credit.taken_back")
}

func (s *sim) creditMoved(b *bill, d *draw, typ string) {
	o := s.obj.reset()
	o.text("credit_id", s.id("cr_", &s.ids.credit))
	o.text("client_id", b.client.id)
	o.text("invoice_id", b.id)
	o.text("invoice_number", b.number)
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
	if b.contractor != nil {
		o.text("contractor_id", b.contractor.id)
	}
	o.text("period", b.period.key)
	s.emit(typ)
}

// lapsed gives a package with something left whose last day is over. A Living
// looks for it, as its queue does not follow the calendar; a history plans the
// expiry, which finds what is left then.
func (c *credit) lapsed(today day) *pack {
	for _, p := range c.packs {
		if p.left > 0 && p.expires > 0 && p.expires < today {
			return p
		}
	}
	return nil
}

// expire ends a package that has something left.
func (s *sim) expire(c *client, p *pack) {
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
