package client_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

// decimals are texts that are JSON numbers too.
func decimals() *rapid.Generator[string] {
	return rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?`)
}

// TestDecimalKeepsWhatWasWritten: strings stay strings and numbers stay numbers, to the last digit.
func TestDecimalKeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := decimals().Draw(t, "text")
		if rapid.Bool().Draw(t, "quoted") {
			text = `"` + text + `"`
		}
		var d client.Decimal
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(d); err != nil || string(got) != text {
			t.Fatalf("%s became %s: %v", text, got, err)
		}
	})
}

// TestDecimalComparesByValue: as exact fractions do, also after a way through text.
func TestDecimalComparesByValue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := decimals().Draw(t, "a"), decimals().Draw(t, "b")
		if rapid.Bool().Draw(t, "equal") {
			b = a + "0"
			if _, whole := new(big.Int).SetString(a, 10); whole {
				b = a + ".0"
			}
		}
		x, y := parse(t, a), parse(t, b)
		want := fraction(t, a).Cmp(fraction(t, b))
		if x.Cmp(y) != want || y.Cmp(x) != -want || x.Rat().Cmp(fraction(t, a)) != 0 {
			t.Fatalf("%s and %s compare as %d, want %d", a, b, x.Cmp(y), want)
		}
		var again client.Decimal
		if text, err := x.MarshalText(); err != nil || again.UnmarshalText(text) != nil || again != x || x.String() != a {
			t.Fatalf("%s became %s: %v", a, again, err)
		}
	})
}

// fraction makes a fraction in a way of its own: digits over a power of ten.
func fraction(t *rapid.T, text string) *big.Rat {
	digits, places := "", int64(0)
	for i, c := range text {
		if c == '.' {
			places = int64(len(text) - i - 1)
		} else {
			digits += string(c)
		}
	}
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		t.Fatal(text)
	}
	return new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(places), nil))
}

func parse(t *rapid.T, text string) client.Decimal {
	d, err := client.ParseDecimal(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDecimalRefusesOtherTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "-", ".5", "5.", "1.2.3", "+1", "1e3", "--1", "1,5", " 1", "NaN", "0x1", "١"} {
		if d, err := client.ParseDecimal(text); err == nil {
			t.Errorf("%q became %s", text, d)
		}
	}
	for _, text := range []string{`1e3`, `"1e3"`, `true`, `{}`, `""`, `"1\n"`} {
		var d client.Decimal
		if err := json.Unmarshal([]byte(text), &d); err == nil {
			t.Errorf("%s became %s", text, d)
		}
	}
	var zero client.Decimal
	if err := json.Unmarshal([]byte(`null`), &zero); err != nil || zero.String() != "0" || zero.Rat().Sign() != 0 {
		t.Errorf("null: %s, %v", zero, err)
	}
}
