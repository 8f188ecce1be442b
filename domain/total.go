package domain

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// total is a running sum that is never negative, in the unit of its summands. Each amount fits into
// an int64, but the sum of very many must not stop the fold (docs/contract/log.md, "A fold that
// never stops"). So a total has 128 bits: enough for all amounts that could ever be appended.
type total struct{ high, low uint64 }

// totalOf returns the total of one value, which must not be negative.
func totalOf(n int64) total { return total{low: uint64(n)} }

func (t total) isZero() bool { return t == total{} }

// plus adds two totals.
func (t total) plus(o total) total {
	low, carry := bits.Add64(t.low, o.low, 0)
	high, _ := bits.Add64(t.high, o.high, carry)
	return total{high, low}
}

// minus subtracts o from t. If o is larger, rest is 0 and short is true.
func (t total) minus(o total) (rest total, short bool) {
	low, borrow := bits.Sub64(t.low, o.low, 0)
	high, under := bits.Sub64(t.high, o.high, borrow)
	if under > 0 {
		return total{}, true
	}
	return total{high, low}, false
}

// timesTenPlus appends a decimal digit. It returns false if the result needs more than 128 bits.
func (t total) timesTenPlus(digit byte) (total, bool) {
	over, high := bits.Mul64(t.high, 10)
	carried, low := bits.Mul64(t.low, 10)
	high, carry := bits.Add64(high, carried, 0)
	sum := total{high, low}.plus(total{low: uint64(digit)})
	return sum, over == 0 && carry == 0 && sum.high >= high
}

// split divides by a small number.
func (t total) split(by uint64) (whole total, rest uint64) {
	high, rest := t.high/by, t.high%by
	low, rest := bits.Div64(rest, t.low, by)
	return total{high, low}, rest
}

// appendTo appends the digits.
func (t total) appendTo(b []byte) []byte {
	if t.high == 0 {
		return strconv.AppendUint(b, t.low, 10)
	}
	rest, digit := t.split(10)
	return append(rest.appendTo(b), byte('0'+digit))
}

// parseTotal reads digits with at most places decimals, in units of 10^-places.
func parseTotal(s string, places int) (t total, ok bool) {
	whole, decimals, _ := strings.Cut(s, ".")
	if whole == "" || len(decimals) > places {
		return total{}, false
	}
	digits := whole + decimals + strings.Repeat("0", places-len(decimals))
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return total{}, false
		}
		if t, ok = t.timesTenPlus(digits[i] - '0'); !ok {
			return total{}, false
		}
	}
	return t, true
}

// scan reads a sum from its text.
func (t *total) scan(s *jsonform.Scanner, text string, places int) error {
	v, ok := parseTotal(text, places)
	if !ok {
		return s.Fail("expected a sum")
	}
	*t = v
	return nil
}

// MoneyTotal is a sum of amounts, in hundredths of a currency's unit.
type MoneyTotal struct{ total }

func totalMoney(m Money) MoneyTotal { return MoneyTotal{totalOf(int64(m))} }

func (t MoneyTotal) plus(m Money) MoneyTotal { return MoneyTotal{t.total.plus(totalOf(int64(m)))} }

// minus subtracts m from t. If the result would be below 0.00, rest is 0.00 and short is true
// (docs/contract/log.md, "A fold that never stops": overdrawn).
func (t MoneyTotal) minus(m Money) (rest MoneyTotal, short bool) {
	rest.total, short = t.total.minus(totalOf(int64(m)))
	return rest, short
}

// Hundredths returns the sum as a whole number of hundredths.
func (t MoneyTotal) Hundredths() string { return string(t.total.appendTo(nil)) }

// String returns the public form, `^\d+\.\d{2}$`.
func (t MoneyTotal) String() string { return string(t.appendTo(nil)) }

func (t MoneyTotal) appendTo(b []byte) []byte {
	whole, cents := t.split(100)
	return append(whole.appendTo(b), '.', byte('0'+cents/10), byte('0'+cents%10))
}

// AppendJSON appends the public form as a string.
func (t *MoneyTotal) AppendJSON(b []byte) []byte { return append(t.appendTo(append(b, '"')), '"') }

// ScanJSON reads the public form.
func (t *MoneyTotal) ScanJSON(s *jsonform.Scanner) error {
	text, err := s.Text()
	if err != nil {
		return err
	}
	return t.scan(s, text, moneyPlaces)
}

// OptDecimalTotal is a sum of numbers, in ten-thousandths, that may be absent.
type OptDecimalTotal struct {
	total
	Set bool
}

func totalDecimal(d OptDecimal) OptDecimalTotal {
	return OptDecimalTotal{totalOf(int64(d.Decimal)), d.Set}
}

// String returns the shortest form, as Decimal.String does.
func (t OptDecimalTotal) String() string { return string(t.appendTo(nil)) }

func (t OptDecimalTotal) appendTo(b []byte) []byte {
	whole, rest := t.split(decimalOne)
	if rest == 0 {
		return whole.appendTo(b)
	}
	fraction := Decimal(rest).appendTo(nil) // 0.25
	return append(whole.appendTo(b), fraction[1:]...)
}

// AppendJSON appends the shortest form, or null.
func (t *OptDecimalTotal) AppendJSON(b []byte) []byte {
	if !t.Set {
		return append(b, "null"...)
	}
	return t.appendTo(b)
}

// ScanJSON reads the shortest form.
func (t *OptDecimalTotal) ScanJSON(s *jsonform.Scanner) error {
	text, err := s.Number()
	if err != nil {
		return err
	}
	t.Set = true
	return t.scan(s, text, decimalPlaces)
}
