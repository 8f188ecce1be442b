package domain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

func TestPeriods(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]domain.PeriodInfo{
		"2026-10":   {Label: "October 2026", Start: "2026-10-01", End: "2026-10-31"},
		"2024-02":   {Label: "February 2024", Start: "2024-02-01", End: "2024-02-29"},
		"2100-02":   {Label: "February 2100", Start: "2100-02-01", End: "2100-02-28"},
		"2026-12":   {Label: "December 2026", Start: "2026-12-01", End: "2026-12-31"},
		"2026-W42":  {Label: "Week 42, 2026", Start: "2026-10-12", End: "2026-10-18"},
		"2026-W01":  {Label: "Week 1, 2026", Start: "2025-12-29", End: "2026-01-04"},
		"2027-W01":  {Label: "Week 1, 2027", Start: "2027-01-04", End: "2027-01-10"},
		"2020-W53":  {Label: "Week 53, 2020", Start: "2020-12-28", End: "2021-01-03"},
		"2026-BW21": {Label: "Weeks 41-42, 2026", Start: "2026-10-05", End: "2026-10-18"},
		"2025-BW01": {Label: "Weeks 1-2, 2025", Start: "2024-12-30", End: "2025-01-12"},
		"2026-BW26": {Label: "Weeks 51-52, 2026", Start: "2026-12-14", End: "2026-12-27"},
		"2026-BW27": {Label: "Week 53, 2026", Start: "2026-12-28", End: "2027-01-03"},
		"2020-BW27": {Label: "Week 53, 2020", Start: "2020-12-28", End: "2021-01-03"},
	} {
		if got, ok := domain.Period(key); !ok || got != want {
			t.Errorf("%s: %+v, %v; want %+v", key, got, ok, want)
		}
	}
	for _, key := range []string{
		"", "2026", "2026-", "2026-1", "2026-00", "2026-13", "2026-100", "2026-10-01", " 2026-10", "2026-10 ", "2026_10",
		"26-10", "02026-10", "-026-10", "+026-10", "2026-+1", "2026-1x", "２０２６-10", "2026-W", "2026-W1", "2026-W00",
		"2026-W54", "2025-W53", "2026-w42", "2026W42", "2026-W042", "2026-BW", "2026-BW1", "2026-BW00", "2026-BW28",
		"2025-BW27", "2026-bw21", "2026-BW021", "2026-B21", "2026-WB21", "2026-Q4", "0000-01",
	} {
		if info, ok := domain.Period(key); ok {
			t.Errorf("%q is taken as %+v", key, info)
		}
	}
}

// TestWeeksTileTheYears goes through three centuries of weeks: each key covers the
// days of that ISO week in Go's calendar, and there are no gaps.
func TestWeeksTileTheYears(t *testing.T) {
	t.Parallel()
	next := time.Date(1899, 12, 31, 0, 0, 0, 0, time.UTC)
	for next.Weekday() != time.Monday {
		next = next.AddDate(0, 0, 1)
	}
	for next.Year() < 2200 {
		year, week := next.ISOWeek()
		key := weekKey(year, week)
		info, ok := domain.Period(key)
		last := next.AddDate(0, 0, 6)
		if !ok || info.Start != next.Format(time.DateOnly) || info.End != last.Format(time.DateOnly) {
			t.Fatalf("%s: %+v, %v; want %s to %s", key, info, ok, next.Format(time.DateOnly), last.Format(time.DateOnly))
		}
		pair, ok := domain.Period(pairKey(year, (week+1)/2))
		if !ok || (week%2 == 1 && pair.Start != info.Start) || (week%2 == 0 && pair.End != info.End) || (week == 53 && pair.End != info.End) {
			t.Fatalf("%s: the two-week period is %+v, %v", key, pair, ok)
		}
		following := next.AddDate(0, 0, 7)
		if y, _ := following.ISOWeek(); y != year {
			if _, ok := domain.Period(weekKey(year, week+1)); ok {
				t.Fatalf("%d has a week after its last, %d", year, week)
			}
		}
		next = following
	}
}

func weekKey(year, week int) string { return pad(year, 4) + "-W" + pad(week, 2) }

func pairKey(year, pair int) string { return pad(year, 4) + "-BW" + pad(pair, 2) }

func pad(n, width int) string {
	s := ""
	for ; n > 0 || width > 0; width-- {
		s = string(rune('0'+n%10)) + s
		n /= 10
	}
	return s
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"2026-10-02T09:15:00Z":                 "2026-10-02T09:15:00.000Z",
		"2026-10-02t09:15:00z":                 "2026-10-02T09:15:00.000Z",
		"2026-10-02T09:15:00.1Z":               "2026-10-02T09:15:00.100Z",
		"2026-10-02T09:15:00.12Z":              "2026-10-02T09:15:00.120Z",
		"2026-10-02T09:15:00.1209Z":            "2026-10-02T09:15:00.120Z",
		"2026-10-02T09:15:59.9999999999999Z":   "2026-10-02T09:15:59.999Z",
		"2026-10-02T09:15:00.0009Z":            "2026-10-02T09:15:00.000Z",
		"2026-10-02T09:15:00+00:00":            "2026-10-02T09:15:00.000Z",
		"2026-10-02T09:15:00-00:00":            "2026-10-02T09:15:00.000Z",
		"2026-10-02T11:15:00+02:00":            "2026-10-02T09:15:00.000Z",
		"2026-10-02T03:45:00.5-05:30":          "2026-10-02T09:15:00.500Z",
		"2026-01-01T00:30:00+23:59":            "2025-12-31T00:31:00.000Z",
		"2024-02-29T23:59:59-23:59":            "2024-03-01T23:58:59.000Z",
		"0001-01-01T00:00:00Z":                 "0001-01-01T00:00:00.000Z",
		"9999-12-31T23:59:59.999999Z":          "9999-12-31T23:59:59.999Z",
		"1969-12-31T23:59:59.9999Z":            "1969-12-31T23:59:59.999Z", // cut towards the past too
		"2026-10-02T09:15:00.120000000000000Z": "2026-10-02T09:15:00.120Z",
	} {
		if got, ok := domain.ParseTime(in); !ok || domain.FormatTime(got) != want {
			t.Errorf("%s: %s, %v; want %s", in, domain.FormatTime(got), ok, want)
		}
	}
	for _, in := range []string{
		"", "2026-10-02", "2026-10-02T09:15:00", "2026-10-02T09:15Z", "2026-10-02 09:15:00Z", "2026-10-02T9:15:00Z",
		"2026-10-02T24:00:00Z", "2026-10-02T23:60:00Z", "2016-12-31T23:59:60Z", "2026-10-02T09:15:00,5Z", "2026-10-02T09:15:00.Z",
		"2026-10-02T09:15:00+0200", "2026-10-02T09:15:00+02", "2026-10-02T09:15:00+24:00", "2026-10-02T09:15:00+02:60",
		"2026-10-02T09:15:00 Z", "2026-10-02T09:15:00ZZ", "2026-10-02T09:15:00.5", "2026-02-29T00:00:00Z", "2026-04-31T00:00:00Z",
		"2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-10-00T00:00:00Z", "26-10-02T09:15:00Z", "12026-10-02T09:15:00Z",
		"0000-01-01T00:00:00Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "2026-10-02T09:15:00\u221202:00",
		"+026-10-02T09:15:00Z", "2026-10-02T+9:15:00Z", "２026-10-02T09:15:00Z", "2026-10-02T09:15:00UTC",
	} {
		if got, ok := domain.ParseTime(in); ok {
			t.Errorf("%q is taken as %s", in, domain.FormatTime(got))
		}
	}
}

func TestParseMoney(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0.00": "0.00", "0.01": "0.01", "420.00": "420.00", "007.50": "7.50",
		"999999999999.99": "999999999999.99", "000000000000.00": "0.00",
	} {
		for _, signed := range []bool{false, true} {
			if m, ok := domain.ParseMoney(in, signed); !ok || m.String() != want {
				t.Errorf("%s: %s, %v; want %s", in, m, ok, want)
			}
		}
	}
	for in, want := range map[string]string{"-3.50": "-3.50", "-0.01": "-0.01", "-0.00": "0.00", "-999999999999.99": "-999999999999.99"} {
		if m, ok := domain.ParseMoney(in, true); !ok || m.String() != want {
			t.Errorf("%s: %s, %v; want %s", in, m, ok, want)
		}
		if m, ok := domain.ParseMoney(in, false); ok {
			t.Errorf("%s is taken unsigned as %s", in, m)
		}
	}
	for _, in := range []string{
		"", ".", "1", "1.", "1.0", "1.000", ".50", "-.50", "+1.00", "--1.00", "1,00", "1 000.00", " 1.00", "1.00 ", "1.0a", "1e2.00",
		"1234567890123.00", "0000000000001.00", "-1234567890123.00", "1.2.3", "１.00", "1.-1", "0x1.00", "NaN", "1..00", "-",
	} {
		for _, signed := range []bool{false, true} {
			if m, ok := domain.ParseMoney(in, signed); ok {
				t.Errorf("%q is taken as %s", in, m)
			}
		}
	}
}

func TestIsID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "A-Z_09", "-", "_", strings.Repeat("x", 64)} {
		if !domain.IsID(id) {
			t.Errorf("%q is refused", id)
		}
	}
	for _, id := range []string{"", "a b", "a.b", "a/b", "é", "a\n", "a\x00", "Ａ", strings.Repeat("x", 65)} {
		if domain.IsID(id) {
			t.Errorf("%q is taken", id)
		}
	}
}
