package domain

import (
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func (t total) big() *big.Int {
	n := new(big.Int).Lsh(new(big.Int).SetUint64(t.high), 64)
	return n.Add(n, new(big.Int).SetUint64(t.low))
}

// Totals are compared with big integers.
func TestTotalsAreIntegers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) total {
			return total{rapid.Uint64Max(1<<62).Draw(t, name), rapid.OneOf(rapid.Uint64(), rapid.Uint64Max(1000)).Draw(t, name)}
		}
		a, b := draw("a"), draw("b")
		if rapid.Bool().Draw(t, "small") {
			a.high, b.high = a.high%3, b.high%3
		}
		if got, want := a.plus(b).big(), new(big.Int).Add(a.big(), b.big()); got.Cmp(want) != 0 {
			t.Errorf("%v + %v = %v, want %v", a, b, got, want)
		}
		rest, short := a.minus(b)
		want := new(big.Int).Sub(a.big(), b.big())
		if short != (want.Sign() < 0) || !short && rest.big().Cmp(want) != 0 || short && !rest.isZero() {
			t.Errorf("%v - %v = %v, %t; want %v", a, b, rest, short, want)
		}
		if got := string(a.appendTo(nil)); got != a.big().String() {
			t.Errorf("%v is shown as %s", a, got)
		}
		money := MoneyTotal{a}
		if want := new(big.Rat).SetFrac(a.big(), big.NewInt(100)).FloatString(2); money.String() != want {
			t.Errorf("%v is shown as %s, want %s", a, money, want)
		}
		if got, ok := parseTotal(money.String(), moneyPlaces); !ok || got != a {
			t.Errorf("%s is read as %v, %t", money, got, ok)
		}
		hours := OptDecimalTotal{total: a, Set: true}
		if got, ok := parseTotal(hours.String(), decimalPlaces); !ok || got != a {
			t.Errorf("%s is read as %v, %t", hours, got, ok)
		}
		if a.high == 0 && a.low < 1<<63 && hours.String() != Decimal(a.low).String() {
			t.Errorf("%v is shown as %s, want %s", a, hours, Decimal(a.low))
		}
	})
}

func TestTotalsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", ".", ".5", "-1.00", "1.000", "1e3", "x", "1.x", fmt.Sprintf("%d%d%d", ^uint64(0), ^uint64(0), 1)} {
		if v, ok := parseTotal(text, moneyPlaces); ok {
			t.Errorf("%q is read as %v", text, v)
		}
	}
}
