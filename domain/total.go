package domain

import (
	"math/bits"
	"strings"
)

// total is a running sum that is never negative, in the units of what it sums.
// One amount fits into an int64, but no number of them may stop the fold
// (docs/contract/log.md, "A fold that never stops"): in 128 bits all that could ever be
// appended fit.
type total struct{ high, low uint64 }

// totalOf makes a total of one value, which is not negative.
func totalOf(n int64) total { return total{low: uint64(n)} }

func (t total) isZero() bool { return t == total{} }

// plus adds two totals.
func (t total) plus(o total) total {
	low, carry := bits.Add64(t.low, o.low, 0)
	high, _ := bits.Add64(t.high, o.high, carry)
	return total{high, low}
}

// floorZero takes o from t, stopping at 0; short says that it had to.
func (t total) floorZero(o total) (rest total, short bool) {
	low, borrow := bits.Sub64(t.low, o.low, 0)
	high, under := bits.Sub64(t.high, o.high, borrow)
	if under > 0 {
		return total{}, true
	}
	return total{high, low}, false
}

// timesTenPlus shifts in a digit; it reports false when there is no room.
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

// append appends the digits.
func (t total) append(b []byte) []byte {
	if t.high == 0 {
		return appendUint(b, t.low)
	}
	rest, digit := t.split(10)
	return append(rest.append(b), byte('0'+digit))
}

// parseTotal reads digits with so many decimals or fewer.
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

// MoneyTotal is a sum of amounts, in hundredths of a currency's unit.
type MoneyTotal struct{ total }

func totalMoney(m Money) MoneyTotal { return MoneyTotal{totalOf(int64(m))} }

func (t MoneyTotal) plus(m Money) MoneyTotal { return MoneyTotal{t.total.plus(totalOf(int64(m)))} }

// floorZero takes m from t; what would fall below 0.00 becomes 0.00, and short
// says so (docs/contract/log.md, "A fold that never stops", overdrawn).
func (t MoneyTotal) floorZero(m Money) (rest MoneyTotal, short bool) {
	rest.total, short = t.total.floorZero(totalOf(int64(m)))
	return rest, short
}

// Append appends the public form, `^\d+\.\d{2}$`.
func (t MoneyTotal) Append(b []byte) []byte {
	whole, cents := t.split(100)
	return append(whole.append(b), '.', byte('0'+cents/10), byte('0'+cents%10))
}

// String returns the public form.
func (t MoneyTotal) String() string { return string(t.Append(nil)) }

// OptDecimalTotal is a sum of numbers that may be absent, in ten-thousandths.
type OptDecimalTotal struct {
	total
	Set bool
}

func totalDecimal(d OptDecimal) OptDecimalTotal {
	return OptDecimalTotal{totalOf(int64(d.Decimal)), d.Set}
}

// Append appends the shortest form, as Decimal's.
func (t OptDecimalTotal) Append(b []byte) []byte {
	whole, rest := t.split(decimalOne)
	if rest == 0 {
		return whole.append(b)
	}
	fraction := Decimal(rest).Append(nil) // 0.25
	return append(whole.append(b), fraction[1:]...)
}

// String returns the shortest form.
func (t OptDecimalTotal) String() string { return string(t.Append(nil)) }
