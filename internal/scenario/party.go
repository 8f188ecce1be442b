package scenario

// moment converts a share of the span to a moment. ok is false where that moment
// is not to come: the share is 0, or the moment is past or after the span.
type moment func(share float64) (ms int64, ok bool)

// join records a client, and plans what becomes of it.
func (c *client) join(s *sim, at moment) {
	c.joined = true
	c.contractFrom = s.today() - day(s.between(0, 20))
	c.record(s)
	s.activate()
	if c.prepays {
		s.after(2*hour, 9*fullDay, func() { c.reviewCredit(s) })
	}
	if ms, ok := at(c.renameAt); ok {
		s.queue.push(s.office(ms), func() {
			if !c.left {
				c.name = c.laterName
				c.record(s)
			}
		})
	}
	if ms, ok := at(c.leaveAt); ok {
		s.queue.push(s.office(ms), func() { c.leave(s) })
	}
	s.afterInOffice(60*fullDay, 240*fullDay, func() { c.changeRegularly(s) })
}

// changeRegularly changes a client every few months.
func (c *client) changeRegularly(s *sim) {
	if c.left {
		return
	}
	c.change(s)
	s.afterInOffice(60*fullDay, 240*fullDay, func() { c.changeRegularly(s) })
}

// change records a new plan, address or contact.
func (c *client) change(s *sim) {
	switch s.rng.IntN(3) {
	case 0:
		c.plan = s.pick(plans)
	case 1:
		c.street = s.pick(streets)
	default:
		c.contacts[s.rng.IntN(len(c.contacts))] = newContact(s.rng)
	}
	c.record(s)
}

// leave ends the contract; invoices that are open still take their course.
func (c *client) leave(s *sim) {
	c.left = true
	c.record(s)
	s.activate()
}

// record writes the client as it is now.
func (c *client) record(s *sim) {
	o := s.obj.reset()
	o.text("client_id", c.id)
	o.text("name", c.name)
	if c.left {
		o.text("status", "ended")
		o.text("billing_status", "paused")
	} else if s.chance(300) {
		o.text("status", "active")
		o.text("billing_status", "active")
	}
	o.text("plan_name", c.plan)
	o.open("billing_address")
	o.text("line_1", string(appendDigits(nil, c.rate/40, 1))+" "+c.street)
	if c.rate%1000 == 0 {
		o.text("line_2", "2nd floor")
	}
	o.text("city", c.location.city)
	o.text("state", c.location.state)
	o.text("zip", c.location.zip)
	o.text("country", c.location.country)
	o.close()
	o.openArray("contacts")
	for i, p := range c.contacts {
		o.openElement()
		o.text("first_name", p.first)
		o.text("last_name", p.last)
		o.text("title", p.title)
		o.text("email", p.email)
		o.text("phone", p.phone)
		o.flag("is_primary", i == 0)
		o.flag("receives_invoices", i < 2)
		o.close()
	}
	o.closeArray()
	o.date("contract_start_date", c.contractFrom)
	if c.left {
		o.date("contract_end_date", s.today())
	}
	s.emit("client.recorded")
}

// join records a contractor, and plans a change of name.
func (c *contractor) join(s *sim, at moment) {
	c.joined = true
	c.record(s)
	s.activate()
	if ms, ok := at(c.renameAt); ok {
		s.queue.push(s.office(ms), func() {
			c.name = c.laterName
			c.record(s)
		})
	}
}

// record writes the contractor as they are now.
func (c *contractor) record(s *sim) {
	o := s.obj.reset()
	o.text("contractor_id", c.id)
	o.text("name", c.name)
	o.text("email", c.email)
	if s.chance(300) {
		o.text("status", "active")
	}
	o.text("title", c.title)
	s.emit("contractor.recorded")
}
