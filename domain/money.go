package domain

import (
	"math"
	"strconv"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Money is an amount in hundredths of a currency's unit (docs/contract/log.md, "Forms used below").
// It is an integer so that sums are exact. The currency is a separate field.
type Money int64

// The number of digits an amount may have.
const (
	maxMoneyDigits = 12 // before the point
	moneyPlaces    = 2  // after it
)

// parseMoney reads `^\d{1,12}\.\d{2}$`, with an optional minus sign if signed is set. It returns
// false for any other form.
func parseMoney(s string, signed bool) (Money, bool) {
	digits := s
	if signed && s != "" && s[0] == '-' {
		digits = s[1:]
	}
	if len(digits) > maxMoneyDigits+1+moneyPlaces {
		return 0, false
	}
	return parseHundredths(s, signed)
}

// parseHundredths reads digits, a point and two digits, with an optional minus sign if signed is
// set. It returns false if the value does not fit into an int64.
func parseHundredths(s string, signed bool) (Money, bool) {
	if signed && s != "" && s[0] == '-' {
		m, ok := parseHundredths(s[1:], false)
		return -m, ok
	}
	n := len(s)
	if n < 1+1+moneyPlaces || s[n-1-moneyPlaces] != '.' {
		return 0, false
	}
	var v int64
	for i := range n {
		if i == n-1-moneyPlaces {
			continue
		}
		c := s[i]
		if c < '0' || c > '9' || v > (math.MaxInt64-9)/10 {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return Money(v), true
}

// appendTo appends the public form, `^-?\d+\.\d{2}$`.
func (m Money) appendTo(b []byte) []byte {
	u := uint64(m)
	if m < 0 {
		b = append(b, '-')
		u = -u
	}
	b = strconv.AppendUint(b, u/100, 10)
	cents := u % 100
	return append(b, '.', byte('0'+cents/10), byte('0'+cents%10))
}

// String returns the public form.
func (m Money) String() string { return string(m.appendTo(nil)) }

// AppendJSON appends the public form as a string.
func (m *Money) AppendJSON(b []byte) []byte { return append(m.appendTo(append(b, '"')), '"') }

// ScanJSON reads the public form of any amount that fits into an int64.
func (m *Money) ScanJSON(s *jsonform.Scanner) error {
	text, err := s.Text()
	if err != nil {
		return err
	}
	v, ok := parseHundredths(text, true)
	if !ok {
		return s.Fail("expected an amount")
	}
	*m = v
	return nil
}

// OptMoney is an amount that may be absent, shown as null.
type OptMoney struct {
	Money
	Set bool

	asGiven string // the text in the entry, if it differs from the public form: leading zeros, or -0.00
}

// Given reports whether the amount is present.
func (o *OptMoney) Given() bool { return o.Set }

// AppendGiven appends the amount as its entry wrote it: the canonical form
// leaves strings alone, and only answers drop leading zeros.
func (o *OptMoney) AppendGiven(b []byte) []byte {
	if o.asGiven != "" {
		return jsonform.AppendString(b, o.asGiven)
	}
	return o.Money.AppendJSON(b)
}

// AppendJSON appends the public form as a string, or null.
func (o *OptMoney) AppendJSON(b []byte) []byte {
	if !o.Set {
		return append(b, "null"...)
	}
	return o.Money.AppendJSON(b)
}

// DecodeJSON takes an amount; FormSignedMoney allows a minus sign.
func (o *OptMoney) DecodeJSON(s *jsonform.Scanner, form jsonform.Form) (bool, error) {
	text, ok, err := s.TextOrSkip()
	if !ok {
		return false, err
	}
	m, ok := parseMoney(text, form == FormSignedMoney)
	if !ok {
		return false, nil
	}
	*o = OptMoney{Money: m, Set: true}
	if m.String() != text {
		o.asGiven = text
	}
	return true, nil
}

// ScanJSON reads the public form.
func (o *OptMoney) ScanJSON(s *jsonform.Scanner) error {
	o.Set = true
	return o.Money.ScanJSON(s)
}

// Decimal is a number with at most four decimals, stored as ten-thousandths so that it is exact
// (docs/contract/log.md, "Forms": hours and number).
type Decimal int64

const (
	decimalOne       = 10_000
	decimalPlaces    = 4
	maxDecimalDigits = 14 // before the point

	// DecimalBound is above every number of an entry, as it has too many digits.
	DecimalBound = 100_000_000_000_000
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

// DecodeJSON takes a number; FormHours does not allow negative ones.
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
