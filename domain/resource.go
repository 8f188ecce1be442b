package domain

// Fragments are the stored parts of a row. The base has no closing brace and
// the others begin with a comma: a row is the parts that a key may see, one
// after the other, and a brace.
type Fragments struct {
	Base, Pay, Margin string // Pay and Margin are empty where the resource has no such part
}

// Row joins the parts; readers without a permission pass an empty part.
func (f Fragments) Row() string { return f.Base + f.Pay + f.Margin + "}" }

func fragments[R any](fields []Field[R], r *R) Fragments {
	var f Fragments
	b := appendPart(make([]byte, 0, 1024), fields, r, Base)
	f.Base = string(b)
	if has(fields, Pay) {
		f.Pay = string(appendPart(b[:0], fields, r, Pay))
	}
	if has(fields, Margin) {
		f.Margin = string(appendPart(b[:0], fields, r, Margin))
	}
	return f
}

func has[R any](fields []Field[R], part Part) bool {
	for i := range fields {
		if fields[i].Part == part {
			return true
		}
	}
	return false
}

// read fills a record from its stored parts.
func (f Fragments) read(base, pay, margin func() error) error {
	if err := base(); err != nil {
		return err
	}
	if f.Pay != "" {
		if err := pay(); err != nil {
			return err
		}
	}
	if f.Margin != "" {
		return margin()
	}
	return nil
}

func readFragments[R any](f Fragments, fields []Field[R], r *R) error {
	return f.read(
		func() error { return scanFragment(f.Base, fields, r, Base) },
		func() error { return scanFragment(f.Pay, fields, r, Pay) },
		func() error { return scanFragment(f.Margin, fields, r, Margin) },
	)
}

// Fragments returns the stored parts of an invoice.
func (r *Invoice) Fragments() Fragments { return fragments(invoiceFields, r) }

// Read fills an invoice from its stored parts.
func (r *Invoice) Read(f Fragments) error { return readFragments(f, invoiceFields, r) }

// Fragments returns the stored parts of a charge.
func (r *Charge) Fragments() Fragments { return fragments(chargeFields, r) }

// Read fills a charge from its stored parts.
func (r *Charge) Read(f Fragments) error { return readFragments(f, chargeFields, r) }

// Fragments returns the stored parts of a time entry.
func (r *TimeEntry) Fragments() Fragments { return fragments(timeEntryFields, r) }

// Read fills a time entry from its stored parts.
func (r *TimeEntry) Read(f Fragments) error { return readFragments(f, timeEntryFields, r) }

// Fragments returns the stored parts of a payment.
func (r *Payment) Fragments() Fragments { return fragments(paymentFields, r) }

// Read fills a payment from its stored parts.
func (r *Payment) Read(f Fragments) error { return readFragments(f, paymentFields, r) }

// Fragments returns the stored parts of a client.
func (r *Client) Fragments() Fragments { return fragments(clientFields, r) }

// Read fills a client from its stored parts.
func (r *Client) Read(f Fragments) error { return readFragments(f, clientFields, r) }

// Fragments returns the stored parts of a contractor.
func (r *Contractor) Fragments() Fragments { return fragments(contractorFields, r) }

// Read fills a contractor from its stored parts.
func (r *Contractor) Read(f Fragments) error { return readFragments(f, contractorFields, r) }

// Fragments returns the stored part of a client's credit: everything but the
// history, which follows as further fields.
func (r *Credit) Fragments() Fragments { return fragments(creditFields, r) }

// Read fills a credit from its stored part.
func (r *Credit) Read(f Fragments) error { return readFragments(f, creditFields, r) }

// Fragments returns the stored part of a history row.
func (r *CreditMove) Fragments() Fragments { return fragments(creditMoveFields, r) }

// Read fills a history row from its stored part.
func (r *CreditMove) Read(f Fragments) error { return readFragments(f, creditMoveFields, r) }
