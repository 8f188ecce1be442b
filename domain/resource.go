package domain

import "github.com/ledgerfeed/ledgerfeed/domain/jsonform"

// The parts of a row, in the order in which they are shown. Each has the fields that one permission
// opens. A row is stored in its parts, so that fields that a key may not see are never read from
// the database.
const (
	Base   jsonform.Part = iota // opened by the endpoint's own permission
	Pay                         // opened by pay:read
	Margin                      // opened by margin:read
)

// Fragments are the stored parts of a row, as JSON. Base lacks the closing brace and the others
// begin with a comma, so the parts that a key may see, joined and followed by a brace, are the row
// that it sees. The fold reads rows back from their fragments; a row has no other stored form.
type Fragments struct {
	Base, Pay, Margin string // Pay and Margin are empty if the resource has no such part
}

// Row joins the parts into a JSON object. Before the call, empty the parts that the reader may not
// see.
func (f Fragments) Row() string { return f.Base + f.Pay + f.Margin + "}" }

func fragments[R any](fields jsonform.Fields[R], r *R) Fragments {
	var f Fragments
	b := fields.AppendPart(make([]byte, 0, 1024), r, Base)
	f.Base = string(b)
	if fields.HasPart(Pay) {
		f.Pay = string(fields.AppendPart(b[:0], r, Pay))
	}
	if fields.HasPart(Margin) {
		f.Margin = string(fields.AppendPart(b[:0], r, Margin))
	}
	return f
}

func readFragments[R any](f Fragments, fields jsonform.Fields[R], r *R) error {
	for part, text := range [...]string{Base: f.Base, Pay: f.Pay, Margin: f.Margin} {
		part := jsonform.Part(part)
		if part != Base && text == "" {
			continue
		}
		if err := fields.ReadPart(text, r, part); err != nil {
			return err
		}
	}
	return nil
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

// Fragments returns the stored part of a client's credit without the history, which answers append
// as further fields.
func (r *Credit) Fragments() Fragments { return fragments(creditFields, r) }

// Read fills a credit from its stored part.
func (r *Credit) Read(f Fragments) error { return readFragments(f, creditFields, r) }

// Fragments returns the stored part of a history row.
func (r *CreditMove) Fragments() Fragments { return fragments(creditMoveFields, r) }

// Read fills a history row from its stored part.
func (r *CreditMove) Read(f Fragments) error { return readFragments(f, creditMoveFields, r) }

// Fragments returns the stored part of a tombstone.
func (r *Tombstone) Fragments() Fragments { return fragments(tombstoneFields, r) }

// Read fills a tombstone from its stored part.
func (r *Tombstone) Read(f Fragments) error { return readFragments(f, tombstoneFields, r) }
