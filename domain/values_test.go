package domain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// TestMoneyAndDecimalsAreShownExactly holds what is shown against rationals.
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

// TestSumsBeyondTheRangeStop: a figure that does not fit is never shown as
// another one.
func TestSumsBeyondTheRangeStop(t *testing.T) {
	t.Parallel()
	lines := []string{line(1, "credit.topped_up", `{"credit_id":"r","client_id":"c","amount":"0.00","currency":"EUR","package":{"package_id":"g","service":"s","hours":0}}`)}
	for n := 2; n <= 924; n++ {
		lines = append(lines, line(n, "credit.taken_back", fmt.Sprintf(`{"credit_id":"b%d","client_id":"c","invoice_id":"i","amount":"0.00","package_id":"g","hours":999999999999.9999}`, n)))
	}
	log := entriesOf(t, lines)
	s := domain.NewState()
	for i := range log[:923] {
		s.Apply(&log[i])
	}
	if got := s.Credits.Get("c").Packages[0].HoursRemaining.String(); got != "921999999999999.9078" {
		t.Errorf("hours_remaining is %s", got)
	}
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "exceeds the range") {
			t.Errorf("the sum went on: %s", said)
		}
	}()
	s.Apply(&log[923])
}

func TestNamesOfRows(t *testing.T) {
	t.Parallel()
	client, credit := domain.SplitCreditMoveKey(domain.CreditMoveKey("c-1", "r_2"))
	if client != "c-1" || credit != "r_2" {
		t.Errorf("the key of a history row is taken apart as %s and %s", client, credit)
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
