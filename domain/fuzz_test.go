package domain_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// FuzzDecodeDraft: what the strict decoder takes is JSON to the standard library
// too, its canonical form decodes to the same draft, and its rows are read back.
func FuzzDecodeDraft(f *testing.F) {
	for i, typ := range domain.Types() {
		f.Add([]byte(line(i, typ.Name, dataOf(typ, all, nil))))
		f.Add([]byte(line(i, typ.Name, dataOf(typ, required, nil))))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		d, err := domain.DecodeDraft(in)
		if err != nil {
			var refused *domain.DraftError
			if !errors.As(err, &refused) || err.Error() == "" {
				t.Fatalf("%q: %v is no DraftError", in, err)
			}
			return
		}
		if !json.Valid(in) || !json.Valid([]byte(d.Data)) {
			t.Fatalf("%q is taken, but is not JSON", in)
		}
		if d.ID == "" {
			d.ID = "e"
		}
		if d.CreatedAt.IsZero() {
			d.CreatedAt = time.Date(2026, 10, 2, 9, 15, 0, 0, time.UTC)
		}
		e := d.EntryAt(1, domain.Genesis(d.WorkspaceID))
		again, err := domain.DecodeDraft(e.AppendNDJSON(nil))
		if err != nil || again != d {
			t.Fatalf("%+v is decoded again as %+v, %v", d, again, err)
		}
		if p := e.PublicEvent(); p != d.PublicEvent() || (p != "" && !json.Valid([]byte(p))) {
			t.Fatalf("public form %s of the entry, %s of the draft", p, d.PublicEvent())
		}
		st := newStore()
		st.fold(t, []domain.Entry{e})
		st.fold(t, nil)
		if len(st.anomalies) == 1 && st.anomalies[0].Reason == domain.Unreadable {
			t.Fatalf("%q was taken and is unreadable", in)
		}
	})
}

// FuzzReadFragments reads damaged rows. A row that can be read at all is
// written in a form that reads back the same.
func FuzzReadFragments(f *testing.F) {
	var lines []string
	for i, typ := range domain.Types() {
		if !strings.HasSuffix(typ.Name, ".deleted") {
			lines = append(lines, line(i, typ.Name, dataOf(typ, all, nil)))
		}
	}
	readers := []func() stored{
		func() stored { return new(domain.Invoice) }, func() stored { return new(domain.Charge) },
		func() stored { return new(domain.TimeEntry) }, func() stored { return new(domain.Payment) },
		func() stored { return new(domain.Client) }, func() stored { return new(domain.Contractor) },
		func() stored { return new(domain.Credit) }, func() stored { return new(domain.CreditMove) },
	}
	names := []string{"invoice", "charge", "time_entry", "payment", "client", "contractor", "credit", "credit_move"}
	rows := inOneGo(f, entriesOf(f, lines))
	for kind, name := range names {
		for _, row := range rows.tables[name] {
			f.Add(byte(kind), row.parts.Base, row.parts.Pay, row.parts.Margin)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, base, pay, margin string) {
		fresh := readers[int(kind)%len(readers)]
		r := fresh()
		if r.Read(domain.Fragments{Base: base, Pay: pay, Margin: margin}) != nil {
			return
		}
		kept := r.Fragments()
		again := fresh()
		if err := again.Read(kept); err != nil || again.Fragments() != kept {
			t.Fatalf("%s\nis read back as %s, %v", kept.Row(), again.Fragments().Row(), err)
		}
	})
}

// FuzzParseTime compares date-times with the standard library's.
func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-10-02T09:15:00.120Z", "2026-10-02t11:15:00.1209999+02:00", "2016-12-31T23:59:60Z", "0001-01-01T00:00:00Z", "2026-10-02T09:15:00+00:60", "2026-10-02T09:15:00-24:00"} {
		f.Add(s)
	}
	// The standard library takes offsets of 24 hours and of 60 minutes, which RFC 3339 does not have.
	form := regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := domain.ParseTime(s)
		want, err := time.Parse(time.RFC3339Nano, strings.ToUpper(s))
		wanted := form.MatchString(s) && err == nil && want.UTC().Year() >= 1 && want.UTC().Year() <= 9999
		if wanted && s[:4] == "0000" { // the year before the offset is applied counts too
			wanted = false
		}
		if ok != wanted {
			t.Fatalf("%q: taken %v, want %v (%v)", s, ok, wanted, err)
		}
		if ok && (!got.Equal(want.Truncate(time.Millisecond)) || got.Location() != time.UTC) {
			t.Fatalf("%q: %v, want %v", s, got, want)
		}
		if ok {
			if again, ok := domain.ParseTime(domain.FormatTime(got)); !ok || !again.Equal(got) {
				t.Fatalf("%q: shown as %s, read as %v", s, domain.FormatTime(got), again)
			}
		}
	})
}

// FuzzPeriod compares period keys with their form, and what they resolve to with
// the calendar.
func FuzzPeriod(f *testing.F) {
	for _, s := range []string{"2026-10", "2026-W42", "2026-BW21", "2026-BW27", "2025-BW27", "2025-W53", "9999-W52"} {
		f.Add(s)
	}
	form := regexp.MustCompile(`^\d{4}-(0[1-9]|1[0-2]|W(0[1-9]|[1-4]\d|5[0-3])|BW(0[1-9]|1\d|2[0-7]))$`)
	f.Fuzz(func(t *testing.T, key string) {
		info, ok := domain.Period(key)
		if !ok {
			return
		}
		if !form.MatchString(key) {
			t.Fatalf("%q is taken", key)
		}
		row := doc{}
		setPeriod(row, key)
		if info.Label != row["period_label"] && key[0] != '0' || info.Start != row["period_start"] || info.End != row["period_end"] {
			t.Fatalf("%q: %+v, want %v", key, info, row)
		}
	})
}

// FuzzParseMoney compares amounts with the contract's regular expressions.
func FuzzParseMoney(f *testing.F) {
	for _, s := range []string{"0.00", "-0.00", "-3.50", "999999999999.99", "1234567890123.00", "1.5", ""} {
		f.Add(s)
	}
	unsigned, signed := regexp.MustCompile(`^\d{1,12}\.\d{2}$`), regexp.MustCompile(`^-?\d{1,12}\.\d{2}$`)
	f.Fuzz(func(t *testing.T, s string) {
		if _, ok := domain.ParseMoney(s, false); ok != unsigned.MatchString(s) {
			t.Fatalf("%q unsigned: taken %v", s, ok)
		}
		m, ok := domain.ParseMoney(s, true)
		if ok != signed.MatchString(s) {
			t.Fatalf("%q signed: taken %v", s, ok)
		}
		if want := amount(rat(orElse(map[bool]any{true: s}[ok], "0"))); m.String() != want {
			t.Fatalf("%q: shown as %s, want %s", s, m, want)
		}
	})
}
