package domain

import (
	"strconv"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// PeriodInfo is what a period key stands for (docs/contract/log.md, "Periods").
type PeriodInfo struct {
	Label string // "October 2026", "Week 42, 2026", "Weeks 41-42, 2026"
	Start string // first day, YYYY-MM-DD
	End   string // last day, YYYY-MM-DD
}

// Period resolves a period key. It returns false for a malformed key, for a week that its year does
// not have, and for a period that ends after the year 9999.
func Period(key string) (PeriodInfo, bool) {
	if len(key) < 7 || key[4] != '-' {
		return PeriodInfo{}, false
	}
	year, ok := digits(key[:4])
	if !ok || year < minYear {
		return PeriodInfo{}, false
	}
	rest := key[5:]
	switch {
	case len(rest) == 2:
		return monthPeriod(year, rest)
	case len(rest) == 3 && rest[0] == 'W':
		week, ok := digits(rest[1:])
		if !ok || week < 1 || week > weeksIn(year) {
			return PeriodInfo{}, false
		}
		return weeksPeriod(year, week, week)
	case len(rest) == 4 && rest[:2] == "BW":
		pair, ok := digits(rest[2:])
		last := 2 * pair
		if pair == 27 && weeksIn(year) == 53 {
			last = 53
		}
		if !ok || pair < 1 || last > weeksIn(year) {
			return PeriodInfo{}, false
		}
		return weeksPeriod(year, 2*pair-1, last)
	}
	return PeriodInfo{}, false
}

func monthPeriod(year int, mm string) (PeriodInfo, bool) {
	month, ok := digits(mm)
	if !ok || month < 1 || month > 12 {
		return PeriodInfo{}, false
	}
	first := time.Date(year, time.Month(month), 1, 0, 0, 0, 0, time.UTC)
	return PeriodInfo{
		Label: time.Month(month).String() + " " + padYear(year),
		Start: first.Format(time.DateOnly),
		End:   first.AddDate(0, 1, -1).Format(time.DateOnly),
	}, true
}

func weeksPeriod(year, first, last int) (PeriodInfo, bool) {
	label := "Week " + strconv.Itoa(first)
	if last > first {
		label = "Weeks " + strconv.Itoa(first) + "-" + strconv.Itoa(last)
	}
	monday := weekOne(year)
	end := monday.AddDate(0, 0, 7*last-1)
	return PeriodInfo{
		Label: label + ", " + padYear(year),
		Start: monday.AddDate(0, 0, 7*(first-1)).Format(time.DateOnly),
		End:   end.Format(time.DateOnly),
	}, end.Year() <= maxYear // a day past 9999 has no YYYY-MM-DD
}

// weekOne returns the Monday of ISO week 1, which is the week of 4 January.
func weekOne(year int) time.Time {
	fourth := time.Date(year, time.January, 4, 0, 0, 0, 0, time.UTC)
	return fourth.AddDate(0, 0, -((int(fourth.Weekday()) + 6) % 7))
}

// weeksIn returns how many ISO weeks a year has. The week of 28 December is
// always the last.
func weeksIn(year int) int {
	_, week := time.Date(year, time.December, 28, 0, 0, 0, 0, time.UTC).ISOWeek()
	return week
}

// padYear writes a year with four digits, as keys do.
func padYear(year int) string {
	s := strconv.Itoa(year)
	for len(s) < 4 {
		s = "0" + s
	}
	return s
}

// digits parses a short string of ASCII digits.
func digits(s string) (int, bool) {
	v := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		v = v*10 + int(s[i]-'0')
	}
	return v, s != ""
}

// periodFields returns the four fields that show a row's period. at points to the period key.
func periodFields[R any](at func(*R) *string) []jsonform.Field[R] {
	derived := func(name, example, doc string, form Form, pick func(PeriodInfo) string) jsonform.Field[R] {
		return jsonform.Field[R]{Name: name, Form: form, Example: example, Doc: doc, Derive: func(b []byte, r *R) []byte {
			info, _ := Period(*at(r))
			return jsonform.AppendText(b, pick(info))
		}}
	}
	return []jsonform.Field[R]{
		{Name: "period", Form: FormPeriod, Example: `"2026-10"`, Doc: "Billing period key: monthly YYYY-MM, weekly YYYY-Www, every two weeks YYYY-BWnn.", At: func(r *R) any { return at(r) }},
		derived("period_label", `"October 2026"`, "The period in words.", FormText, func(p PeriodInfo) string { return p.Label }),
		derived("period_start", `"2026-10-01"`, "First day of the period.", FormDate, func(p PeriodInfo) string { return p.Start }),
		derived("period_end", `"2026-10-31"`, "Last day of the period.", FormDate, func(p PeriodInfo) string { return p.End }),
	}
}

// ClosedPeriod says that a period is closed, for the workspace (ClientID is
// empty) or for one client. Its Row.ID is ClosedPeriodKey.
type ClosedPeriod struct {
	Row
	Period, ClientID string
}

// ClosedPeriodKey returns the id of a closed period in a State.
func ClosedPeriodKey(period, clientID string) string { return period + "/" + clientID }

// closed reports whether a period is closed for a client, or for the workspace.
func (f *fold) closed(period, clientID string) bool {
	return f.Closures.Get(ClosedPeriodKey(period, "")) != nil ||
		f.Closures.Get(ClosedPeriodKey(period, clientID)) != nil
}

// periodClosed is the data of period.closed.
type periodClosed struct{ references }

var periodClosedType = define(entryType[periodClosed]{
	typeHead: typeHead{
		name: "period.closed", object: "period", public: true,
		when: "A billing period was closed, for the workspace or, with a client_id, for that client. Its invoices have period_closed from now on.",
	},
	fields: []jsonform.Field[periodClosed]{
		{Name: "period", Form: FormPeriod, Required: true, At: func(d *periodClosed) any { return &d.Period }},
		{Name: "client_id", Form: FormID, At: func(d *periodClosed) any { return &d.ClientID }},
	},
	effect: closePeriod,
	needs:  func(n *Needs, d *periodClosed) { n.Periods.add(d.Period) },
	mass:   func(m *MassEffects, d *periodClosed) { m.InvoicesIn.add(d.Period) },
})

func closePeriod(f *fold, d *periodClosed) {
	key := ClosedPeriodKey(d.Period, d.ClientID)
	if f.Closures.Get(key) == nil {
		f.Closures.write(f.stamp, key, func(c *ClosedPeriod) { c.Period, c.ClientID = d.Period, d.ClientID })
	}
	closed := change{
		of:    []reference{{byPeriod, d.Period}},
		where: []choice{is("period_closed", false)},
		set:   []value{{"period_closed", true}},
	}
	if d.ClientID != "" {
		closed.of = append(closed.of, reference{byClient, d.ClientID})
	}
	changeAll(f, &f.Invoices, closed)
}
