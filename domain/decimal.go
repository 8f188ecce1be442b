package domain

import (
	"math"
	"strconv"
)

// Decimal is a number of at most four decimals, kept in ten-thousandths so
// that it is exact (docs/contract/log.md, "Forms": hours and number).
type Decimal int64

// OptDecimal is a number that may be absent, shown as null.
type OptDecimal struct {
	Decimal
	Set bool
}

// OptInt is a whole number that may be absent, shown as null.
type OptInt struct {
	Int int64
	Set bool
}

// OptBool is a boolean that an entry may leave out; the catalogue then gives
// its default.
type OptBool struct {
	Bool bool
	Set  bool
}

// Or returns the value, or the default of an absent one.
func (o OptBool) Or(def bool) bool {
	if o.Set {
		return o.Bool
	}
	return def
}

const (
	decimalOne       = 10_000
	decimalPlaces    = 4
	maxDecimalDigits = 14 // before the point of hours or percent
	maxInt64Digits   = 19 // before the point of whatever an int64 may hold
	maxExponent      = 1_000_000
)

// Append appends the shortest form: 7.5, 8, -0.25 (docs/contract/decisions.md, "Responses").
func (d Decimal) Append(b []byte) []byte {
	u := uint64(d)
	if d < 0 {
		b = append(b, '-')
		u = -u
	}
	b = appendUint(b, u/decimalOne)
	frac := u % decimalOne
	if frac == 0 {
		return b
	}
	b = append(b, '.')
	for div := uint64(decimalOne / 10); frac > 0; div /= 10 {
		b = append(b, byte('0'+frac/div))
		frac %= div
	}
	return b
}

// String returns the shortest form.
func (d Decimal) String() string { return string(d.Append(nil)) }

// parseDecimal reads a JSON number exactly, exponents included, with at most
// `places` decimals and maxWhole digits before the point, and within an int64.
// It never goes through a float. The result is in units of 10^-places.
func parseDecimal(s string, places, maxWhole int) (int64, bool) {
	i, negative := 0, false
	if i < len(s) && s[i] == '-' {
		negative = true
		i++
	}
	digits := make([]byte, 0, 32)
	point := -1
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			digits = append(digits, c)
			continue
		case c == '.':
			point = len(digits)
			continue
		}
		break
	}
	if point < 0 {
		point = len(digits)
	}
	if i < len(s) { // 'e' or 'E': the scanner has checked the grammar
		exp, err := strconv.Atoi(s[i+1:])
		if err != nil || exp < -maxExponent || exp > maxExponent {
			return 0, isZero(digits) // far outside every range, unless it is a zero
		}
		point += exp
	}
	// The value is 0.digits × 10^point.
	for len(digits) > 0 && digits[0] == '0' {
		digits, point = digits[1:], point-1
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	if len(digits) == 0 {
		return 0, true
	}
	if point > maxWhole || len(digits)-point > places {
		return 0, false
	}
	var v int64
	for k := range point + places {
		var digit int64
		if k < len(digits) {
			digit = int64(digits[k] - '0')
		}
		if v > (math.MaxInt64-digit)/10 {
			return 0, false
		}
		v = v*10 + digit
	}
	if negative {
		v = -v
	}
	return v, true
}

func isZero(digits []byte) bool {
	for _, c := range digits {
		if c != '0' {
			return false
		}
	}
	return true
}

func appendUint(b []byte, u uint64) []byte { return strconv.AppendUint(b, u, 10) }
