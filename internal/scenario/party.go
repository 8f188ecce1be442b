package scenario

// clientRecorded writes the client as it stands.
func (s *sim) clientRecorded(c *client) {
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
	o.text("city", c.place.city)
	o.text("state", c.place.state)
	o.text("zip", c.place.zip)
	o.text("country", c.place.country)
	o.close()
	o.name("contacts")
	o.b = append(o.b, '[')
	for i, p := range c.contacts {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = append(o.b, '{')
		o.text("first_name", p.first)
		o.text("last_name", p.last)
		o.text("title", p.title)
		o.text("email", p.email)
		o.text("phone", p.phone)
		o.flag("is_primary", i == 0)
		o.flag("receives_invoices", i < 2)
		o.close()
	}
	o.b = append(o.b, ']')
	o.date("contract_start_date", c.contractFrom)
	if c.left {
		o.date("contract_end_date", s.today())
	}
	s.emit("client.recorded")
}

func (s *sim) contractorRecorded(c *contractor) {
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

// clientJoins records a client, and plans what becomes of it. at gives the
// moment of a share of the span, and ok whether that is still to come.
func (s *sim) clientJoins(c *client, at func(share float64) (ms int64, ok bool)) {
	c.joined = true
	c.contractFrom = s.today() - day(s.between(0, 20))
	s.clientRecorded(c)
	s.activate()
	if c.prepays {
		s.after(2*hour, 9*fullDay, func() { s.reviewCredit(c) })
	}
	if ms, ok := at(c.renameAt); ok {
		s.queue.push(s.office(ms), func() {
			if !c.left {
				c.name = c.laterName
				s.clientRecorded(c)
			}
		})
	}
	if ms, ok := at(c.leaveAt); ok {
		s.queue.push(s.office(ms), func() { s.clientLeaves(c) })
	}
	s.afterInOffice(60*fullDay, 240*fullDay, func() { s.clientUpdates(c) })
}

func (s *sim) contractorJoins(c *contractor, at func(share float64) (ms int64, ok bool)) {
	c.joined = true
	s.contractorRecorded(c)
	s.activate()
	if ms, ok := at(c.renameAt); ok {
		s.queue.push(s.office(ms), func() {
			c.name = c.laterName
			s.contractorRecorded(c)
		})
	}
}

// clientUpdates changes a client from time to time.
func (s *sim) clientUpdates(c *client) {
	if c.left {
		return
	}
	s.changeClient(c)
	s.afterInOffice(60*fullDay, 240*fullDay, func() { s.clientUpdates(c) })
}

// changeClient records a new plan, address or contact.
func (s *sim) changeClient(c *client) {
	switch s.rng.IntN(3) {
	case 0:
		c.plan = s.pick(plans)
	case 1:
		c.street = s.pick(streets)
	default:
		c.contacts[s.rng.IntN(len(c.contacts))] = newContact(s.rng)
	}
	s.clientRecorded(c)
}

// clientLeaves ends the contract; open invoices still take their course.
func (s *sim) clientLeaves(c *client) {
	c.left = true
	s.clientRecorded(c)
	s.activate()
}

// activate lets work begin where both sides have joined, and end where the
// client has left.
func (s *sim) activate() {
	s.active = s.active[:0]
	for _, e := range s.cast.engagements {
		if e.client.joined && !e.client.left && e.contractor.joined {
			s.active = append(s.active, e)
		}
	}
}
