package domain_test

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// TestMoneyAndDecimalsAreShownExactly compares what is shown with big rationals.
func TestMoneyAndDecimalsAreShownExactly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-100_000, 100_000)).Draw(t, "n")
		if got, want := domain.Money(n).String(), amount(rat(fmt.Sprintf("%d/100", n))); got != want {
			t.Errorf("%d hundredths are shown as %s, want %s", n, got, want)
		}
		want := shortest(fmt.Sprintf("%d/10000", n))
		if got := domain.Decimal(n).String(); got != fmt.Sprint(want) {
			t.Errorf("%d ten-thousandths are shown as %s, want %s", n, got, want)
		}
	})
}

// TestSumsAreExactBeyondInt64 adds up the largest amounts and hours until the sums
// no longer fit into an int64, and reads back what is written of them.
func TestSumsAreExactBeyondInt64(t *testing.T) {
	t.Parallel()
	const times = 92_300
	lines := []string{line(1, "credit.topped_up", `{"credit_id":"r","client_id":"c","amount":"0.00","currency":"EUR","package":{"package_id":"g","service":"s","hours":0}}`)}
	for n := 2; n <= times+1; n++ {
		lines = append(lines, line(n, "credit.taken_back", fmt.Sprintf(`{"credit_id":"b%d","client_id":"c","invoice_id":"i","amount":"999999999999.99","package_id":"g","hours":99999999999999.9999}`, n)))
	}
	lines = append(lines,
		line(times+2, "credit.topped_up", `{"credit_id":"t","client_id":"c","amount":"999999999999.99","currency":"EUR"}`),
		line(times+3, "credit.applied", `{"credit_id":"a","client_id":"c","invoice_id":"i","amount":"0.99","package_id":"g","hours":0.9999}`))
	log := entriesOf(t, lines)
	s := domain.NewState()
	for i := range log {
		s.Apply(&log[i])
	}
	c := s.Credits.Get("c")
	sum := func(one, off string, places int) string {
		unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
		of := func(text string) *big.Int {
			r, _ := new(big.Rat).SetString(text)
			return r.Mul(r, new(big.Rat).SetInt(unit)).Num()
		}
		all := of(one)
		all.Sub(all.Mul(all, big.NewInt(times)), of(off))
		return new(big.Rat).SetFrac(all, unit).FloatString(places)
	}
	if got, want := c.Packages[0].HoursRemaining.String(), sum("99999999999999.9999", "0.9999", 4); got != strings.TrimRight(want, "0") {
		t.Errorf("hours_remaining is %s, want %s", got, want)
	}
	amount := sum("999999999999.99", "0.99", 2)
	if got := c.Packages[0].AmountRemaining.String(); got != amount {
		t.Errorf("amount_remaining is %s, want %s", got, amount)
	}
	kept := &domain.Credit{}
	if err := kept.Read(c.Fragments()); err != nil {
		t.Fatal(err)
	}
	if kept.Fragments() != c.Fragments() || !strings.Contains(kept.Fragments().Base, amount) {
		t.Errorf("written and read again: %+v, want %+v", kept.Fragments(), c.Fragments())
	}
}

func TestNamesOfRows(t *testing.T) {
	t.Parallel()
	client, credit := domain.SplitCreditMoveKey(domain.CreditMoveKey("c-1", "r_2"))
	if client != "c-1" || credit != "r_2" {
		t.Errorf("the key of a history row is split into %s and %s", client, credit)
	}
	var n domain.Needs
	for _, e := range entriesOf(t, []string{
		line(1, "time_entry.approved", `{"time_entry_id":"t1"}`),
		line(2, "time_entry.approved", `{"time_entry_id":"t2","invoice_id":"i"}`),
		line(3, "time_entry.declined", `{"time_entry_id":"t1"}`),
	}) {
		n.Add(&e)
	}
	if got := slices.Sorted(slices.Values(n.TimeEntries.List())); !slices.Equal(got, []string{"t1", "t2"}) || n.Invoices != nil {
		t.Errorf("needs %v and %v", got, n.Invoices)
	}
	var public []string
	for _, typ := range writtenTypes() {
		if typ.public {
			public = append(public, typ.name)
		}
	}
	if got := domain.PublicTypes(); !slices.Equal(got, public) {
		t.Errorf("public types %v, want %v", got, public)
	}
}
