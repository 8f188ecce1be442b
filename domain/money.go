package domain

import "math"

// Money is an amount in hundredths of a currency's unit (docs/contract/log.md, "Forms").
// It is an integer so that sums are exact; the currency travels beside it.
type Money int64

// OptMoney is an amount that may be absent, shown as null.
type OptMoney struct {
	Money
	Set bool

	asGiven string // where an entry wrote it with leading zeros or as -0.00; else empty
}

// appendGiven appends the amount as its entry wrote it: the canonical form
// leaves strings alone, an answer does not show the zeros.
func (o *OptMoney) appendGiven(b []byte) []byte {
	if o.asGiven != "" {
		return appendString(b, o.asGiven)
	}
	return appendValue(b, o)
}

// The number of digits an amount may have before its point.
const (
	maxMoneyDigits = 12
	moneyPlaces    = 2 // after it
)

// ParseMoney reads the form `^\d{1,12}\.\d{2}$`, or with a leading minus sign
// where signed allows it. It reports false for any other form.
func ParseMoney(s string, signed bool) (Money, bool) {
	negative := false
	if signed && s != "" && s[0] == '-' {
		negative, s = true, s[1:]
	}
	m, ok := parseHundredths(s)
	if !ok || len(s) > maxMoneyDigits+3 {
		return 0, false
	}
	if negative {
		m = -m
	}
	return m, true
}

// parseHundredths reads digits, a point and two digits, of any length that an
// int64 holds.
func parseHundredths(s string) (Money, bool) {
	n := len(s)
	if n < 4 || s[n-3] != '.' {
		return 0, false
	}
	var v int64
	for i := range n {
		if i == n-3 {
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

// Append appends the public form, `^-?\d+\.\d{2}$`.
func (m Money) Append(b []byte) []byte {
	u := uint64(m)
	if m < 0 {
		b = append(b, '-')
		u = -u
	}
	b = appendUint(b, u/100)
	cents := u % 100
	return append(b, '.', byte('0'+cents/10), byte('0'+cents%10))
}

// String returns the public form.
func (m Money) String() string { return string(m.Append(nil)) }

// moneyAsGiven makes the amount that an entry wrote as text.
func moneyAsGiven(m Money, text string) OptMoney {
	o := OptMoney{Money: m, Set: true}
	if m.String() != text {
		o.asGiven = text
	}
	return o
}
