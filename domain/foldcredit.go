package domain

// repeatedMove reports, and notes, a credit id that its client has already.
func (f *fold) repeatedMove(d *Data) bool {
	if f.s.CreditMoves.Get(CreditMoveKey(d.ClientID, d.CreditID)) == nil {
		return false
	}
	f.anomaly(Repeat)
	return true
}

// knownPackage finds the package an entry is about, or notes the anomaly. An
// entry that names none is about the general credit: nil, true.
func (f *fold) knownPackage(d *Data) (*Package, bool) {
	if d.PackageID == "" {
		return nil, true
	}
	if c := f.s.Credits.Get(d.ClientID); c != nil {
		if p := c.pack(d.PackageID); p != nil {
			return p, true
		}
	}
	f.anomaly(UnknownObject)
	return nil, false
}

// move writes the credit and adds the history row.
func (f *fold) move(d *Data, kind string, amount MoneyTotal, set func(*Credit)) {
	f.s.Credits.write(f, d.ClientID, set)
	f.s.CreditMoves.write(f, CreditMoveKey(d.ClientID, d.CreditID), func(m *CreditMove) {
		m.ClientID, m.CreditID = d.ClientID, d.CreditID
		m.Date = or(d.Date, f.at[:len("2006-01-02")])
		m.Kind = kind
		m.Amount = amount
		m.InvoiceID, m.InvoiceNumber, m.Note = d.InvoiceID, d.InvoiceNumber, d.Note
	})
}

func (f *fold) creditToppedUp(d *Data) {
	if f.repeatedMove(d) {
		return
	}
	if d.Package != nil {
		if c := f.s.Credits.Get(d.ClientID); c != nil && c.pack(d.Package.PackageID) != nil {
			f.anomaly(Repeat)
			return
		}
	}
	f.move(d, or(d.Kind, moveTopUp), totalMoney(d.Amount.Money), func(c *Credit) {
		c.Currency = d.Currency
		if d.Package == nil {
			c.General = c.General.plus(d.Amount.Money)
			return
		}
		c.Packages = append(c.Packages, Package{
			ID:              d.Package.PackageID,
			Service:         d.Package.Service,
			AmountGranted:   d.Amount.Money,
			AmountRemaining: totalMoney(d.Amount.Money),
			HoursRemaining:  totalDecimal(d.Package.Hours),
			ExpiresAt:       d.Package.ExpiresAt,
			Status:          packageActive,
		})
	})
}

func (f *fold) creditApplied(d *Data) {
	if f.repeatedMove(d) {
		return
	}
	p, ok := f.knownPackage(d)
	if !ok {
		return
	}
	short := false
	f.move(d, moveApplied, totalMoney(d.Amount.Money), func(c *Credit) {
		if p == nil {
			c.General, short = c.General.floorZero(d.Amount.Money)
			return
		}
		p.AmountRemaining, short = p.AmountRemaining.floorZero(d.Amount.Money)
		if p.HoursRemaining.Set {
			rest, lacking := p.HoursRemaining.floorZero(totalOf(int64(d.Hours.Decimal)))
			p.HoursRemaining.total = rest
			short = short || lacking
		}
		if p.Status == packageActive && p.AmountRemaining.isZero() {
			p.Status = packageUsedUp
		}
	})
	if r := f.invoice(d.InvoiceID); r != nil {
		r.CreditApplied = r.CreditApplied.plus(d.Amount.Money)
		r.settle()
		f.s.Invoices.touch(f, r)
	}
	if short {
		f.anomaly(Overdrawn)
	}
}

func (f *fold) creditTakenBack(d *Data) {
	if f.repeatedMove(d) {
		return
	}
	p, ok := f.knownPackage(d)
	if !ok {
		return
	}
	f.move(d, moveTakenBack, totalMoney(d.Amount.Money), func(c *Credit) {
		if p == nil {
			c.General = c.General.plus(d.Amount.Money)
			return
		}
		p.AmountRemaining = p.AmountRemaining.plus(d.Amount.Money)
		if p.HoursRemaining.Set {
			p.HoursRemaining.total = p.HoursRemaining.plus(totalOf(int64(d.Hours.Decimal)))
		}
		if p.Status == packageUsedUp {
			p.Status = packageActive
		}
	})
	if r := f.invoice(d.InvoiceID); r != nil {
		var short bool
		r.CreditApplied, short = r.CreditApplied.floorZero(d.Amount.Money)
		if short {
			f.anomaly(Overdrawn)
		}
		r.settle()
		f.s.Invoices.touch(f, r)
	}
}

func (f *fold) creditExpired(d *Data) {
	if f.repeatedMove(d) {
		return
	}
	p, ok := f.knownPackage(d)
	if !ok {
		return
	}
	f.move(d, moveExpired, p.AmountRemaining, func(*Credit) {
		p.Status = packageExpired
		p.AmountRemaining = MoneyTotal{}
		p.HoursRemaining.total = total{}
	})
}
