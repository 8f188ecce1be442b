package domain

func (f *fold) clientRecorded(d *Data) {
	s := f.s
	old := s.Clients.Get(d.ClientID)
	renamed := old == nil || old.Name != d.Name
	s.Clients.write(f, d.ClientID, func(c *Client) {
		c.Name = d.Name
		c.Status = or(d.Status, "active")
		c.BillingStatus = or(d.BillingStatus, "active")
		c.PlanName = d.PlanName
		c.BillingAddress = d.BillingAddress
		c.Contacts = d.Contacts
		c.ContractStartDate = d.ContractStartDate
		c.ContractEndDate = d.ContractEndDate
	})
	if s.Credits.Get(d.ClientID) == nil {
		s.Credits.write(f, d.ClientID, func(*Credit) {}) // exists as soon as the client does
	}
	if !renamed {
		return
	}
	rename(f, &s.Invoices, byClient, d.ClientID, func(r *Invoice) { r.Client.Name = d.Name })
	rename(f, &s.Charges, byClient, d.ClientID, func(r *Charge) { r.Client.Name = d.Name })
	rename(f, &s.TimeEntries, byClient, d.ClientID, func(r *TimeEntry) { r.Client.Name = d.Name })
	rename(f, &s.Payments, byClient, d.ClientID, func(r *Payment) { r.Client.Name = d.Name })
}

func (f *fold) contractorRecorded(d *Data) {
	s := f.s
	old := s.Contractors.Get(d.ContractorID)
	renamed := old == nil || old.Name != d.Name
	s.Contractors.write(f, d.ContractorID, func(c *Contractor) {
		c.Name = d.Name
		c.Email = d.Email
		c.Status = or(d.Status, "active")
		c.Title = d.Title
	})
	if !renamed {
		return
	}
	rename(f, &s.Invoices, byContractor, d.ContractorID, func(r *Invoice) { r.Contractor.Name = d.Name })
	rename(f, &s.Charges, byContractor, d.ContractorID, func(r *Charge) { r.Contractor.Name = d.Name })
	rename(f, &s.TimeEntries, byContractor, d.ContractorID, func(r *TimeEntry) { r.Contractor.Name = d.Name })
	rename(f, &s.Payments, byContractor, d.ContractorID, func(r *Payment) { r.Contractor.Name = d.Name })
}

// rename changes every row that refers to a party.
func rename[R any, P rowOf[R]](f *fold, t *Table[R, P], rel relation, id string, set func(P)) {
	t.each(rel, id, func(r P) {
		set(r)
		t.touch(f, r)
	})
}

// client is the reference to a client in a row written now.
func (f *fold) client(id string) Party {
	p := Party{ID: id}
	if c := f.s.Clients.Get(id); c != nil {
		p.Name = c.Name
	}
	return p
}

// contractor is the reference to a contractor in a row written now.
func (f *fold) contractor(id string) Party {
	p := Party{ID: id}
	if c := f.s.Contractors.Get(id); c != nil {
		p.Name = c.Name
	}
	return p
}
