package domain

import (
	"strconv"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Decimal is a number of at most four decimals, kept in ten-thousandths so that
// it is exact (docs/contract/log.md, "Forms": hours and number).
type Decimal int64

const (
	decimalOne       = 10_000
	decimalPlaces    = 4
	maxDecimalDigits = 14 // before the point
)

// appendTo appends the shortest form: 7.5, 8, -0.25 (docs/contract/decisions.md,
// "Responses").
func (d Decimal) appendTo(b []byte) []byte {
	u := uint64(d)
	if d < 0 {
		b = append(b, '-')
		u = -u
	}
	b = strconv.AppendUint(b, u/decimalOne, 10)
	fraction := u % decimalOne
	if fraction == 0 {
		return b
	}
	b = append(b, '.')
	for div := uint64(decimalOne / 10); fraction > 0; div /= 10 {
		b = append(b, byte('0'+fraction/div))
		fraction %= div
	}
	return b
}

// String returns the shortest form.
func (d Decimal) String() string { return string(d.appendTo(nil)) }

// OptDecimal is a number that may be absent, shown as null.
type OptDecimal struct {
	Decimal
	Set bool
}

// Given reports whether the number is present.
func (o *OptDecimal) Given() bool { return o.Set }

// AppendGiven appends the shortest form.
func (o *OptDecimal) AppendGiven(b []byte) []byte { return o.appendTo(b) }

// AppendJSON appends the shortest form, or null.
func (o *OptDecimal) AppendJSON(b []byte) []byte {
	if !o.Set {
		return append(b, "null"...)
	}
	return o.appendTo(b)
}

// DecodeJSON takes a number; FormHours allows none below 0.
func (o *OptDecimal) DecodeJSON(s *jsonform.Scanner, form jsonform.Form) (bool, error) {
	text, ok, err := s.NumberOrSkip()
	if !ok {
		return false, err
	}
	n, ok := jsonform.ParseNumber(text, decimalPlaces, maxDecimalDigits)
	if !ok || n < 0 && form == FormHours {
		return false, nil
	}
	*o = OptDecimal{Decimal(n), true}
	return true, nil
}

// ScanJSON reads the shortest form.
func (o *OptDecimal) ScanJSON(s *jsonform.Scanner) error {
	o.Set = true
	return s.ScanNumber(decimalPlaces, (*int64)(&o.Decimal))
}
