package pages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// byAge groups unpaid invoices by the days since their period ended. The other groups are the API's.
const byAge = "age"

// maxGroups is how many rows of grouped totals a page shows.
const maxGroups = 100

// totals are sums over the rows of a list.
type totals struct {
	Title  string
	Heads  []cell
	Rows   [][]cell
	Hint   string // below the rows; empty: none
	Unread bool   // they could not be read in time
}

// way returns by what the list's totals are grouped: what was asked for, or nothing.
func (l *list) way(asked string) string {
	for _, w := range l.waysToGroup(nil, asked) {
		if w.Current {
			return asked
		}
	}
	return ""
}

// waysToGroup are the links to a selection's totals by something.
func (l *list) waysToGroup(chosen url.Values, by string) (all []web.Link) {
	if len(l.Sums) == 0 {
		return nil
	}
	for _, group := range []string{route.ByMonth, route.ByClient, route.ByContractor, route.ByStatus} {
		if slices.Contains(l.totals.Total.Groups, group) {
			all = append(all, web.Link{Label: "By " + group, URL: l.address(chosen, "by", group), Current: by == group})
		}
	}
	if l.has("open") {
		all = append(all, web.Link{Label: "Unpaid by age", URL: l.address(chosen, "by", byAge, "open", "true"), Current: by == byAge})
	}
	return all
}

// addUp starts to read the totals of what is chosen. The function that it returns waits for them.
func (p *Data) addUp(r *web.Request, l *list, chosen url.Values, by string, body *dataListBody) (wait func()) {
	ctx, cancel := context.WithTimeout(r.Context(), p.BesideTimeout)
	var reading sync.WaitGroup
	body.Totals = &totals{Unread: true}
	switch by {
	case "":
	case byAge:
		body.Grouped = &totals{Title: "Unpaid by age", Unread: true}
	default:
		body.Grouped = &totals{Title: "By " + by, Unread: true}
	}
	reading.Go(func() { // one after the other: the workspace has few connections
		err := p.readTotals(ctx, r, l, chosen, "", body.Totals)
		switch by {
		case "":
		case byAge:
			err = errors.Join(err, p.readAges(ctx, r, l, chosen, body.Grouped))
		default:
			err = errors.Join(err, p.readTotals(ctx, r, l, chosen, by, body.Grouped))
		}
		if err != nil {
			r.Warn("cannot read totals", err)
		}
	})
	return sync.OnceFunc(func() { reading.Wait(); cancel() })
}

// readTotals reads the totals of what is chosen. If by is empty, they are not grouped.
func (p *Data) readTotals(ctx context.Context, r *web.Request, l *list, chosen url.Values, by string, t *totals) error {
	asked := url.Values{}
	maps.Copy(asked, chosen)
	if by != "" {
		asked.Set("group_by", by)
	}
	read, err := p.Reader.Get(ctx, p.ask(r, "/v1/totals/"+l.Slug, asked, 0))
	if err != nil || read.Status != http.StatusOK {
		return err
	}
	var envelope struct{ Data []json.RawMessage }
	if err := json.Unmarshal(read.Body, &envelope); err != nil {
		return fmt.Errorf("read totals: %w", err)
	}
	rows := make([]record, len(envelope.Data))
	for i, text := range envelope.Data {
		if rows[i], err = readRow(text); err != nil {
			return err
		}
	}
	t.show(l, chosen, by, rows)
	return nil
}

// show fills in the rows.
func (t *totals) show(l *list, chosen url.Values, by string, rows []record) {
	var columns []string
	if by != "" {
		columns = append(columns, by)
	}
	hints := l.hints(chosen, by, rows)
	columns = append(append(columns, "currency"), l.totals.Total.Separated...)
	columns = append(append(columns, "count"), l.Sums...)
	for _, name := range columns {
		t.Heads = append(t.Heads, cell{Label: web.Field(name), Number: name == "count" || slices.Contains(l.Sums, name)})
	}
	switch by {
	case route.ByMonth: // the latest first, as in lists
		slices.SortStableFunc(rows, func(x, y record) int { return cmp.Compare(y.text(by), x.text(by)) })
	case route.ByClient, route.ByContractor:
		slices.SortStableFunc(rows, func(x, y record) int {
			_, a := x.party(by)
			_, b := y.party(by)
			return cmp.Compare(a, b)
		})
	}
	if n := len(rows); n > maxGroups {
		rows = rows[:maxGroups]
		hints = append(hints, "The first "+web.Count(maxGroups)+" of "+web.Plural(n, "row", "rows")+" are shown. Choose a shorter time or another filter to see the others.")
	}
	t.Hint = strings.Join(hints, " ")
	for _, read := range rows {
		var cells []cell
		for _, name := range columns {
			c := read.cell(l.totals.Field(name))
			c.Unit = ""
			switch {
			case name == "currency":
				c.Lines = []string{cmp.Or(read.text(name), "no currency")}
			case name == by:
				c = groupCell(l, chosen, by, read, c)
			case l.totals.Field(name).Form == domain.FormCount && !c.Empty():
				c.Lines = []string{web.Digits(c.Lines[0])}
			}
			cells = append(cells, c)
		}
		t.Rows = append(t.Rows, cells)
	}
	t.Unread = false
}

// hints say what the sums include that a person may not expect.
func (l *list) hints(chosen url.Values, by string, rows []record) (all []string) {
	switch l.Slug {
	case "invoices":
		if by == "" {
			all = append(all, billed(rows)...)
		}
		if by == route.ByMonth {
			all = append(all, "Each invoice counts in the month in which its period begins.")
		}
		if slices.ContainsFunc(rows, func(read record) bool { return read.text("type") == "package" }) {
			all = append(all, "Packages and the invoices that use them up are both counted.")
		}
	case "time-entries", "charges":
		if by != route.ByStatus && !chosen.Has("status") {
			all = append(all, "Declined "+strings.ToLower(l.Name)+" are counted too: “By status” shows them apart.")
		}
	}
	return all
}

// sums are exact sums of money by currency.
type sums map[string]*big.Rat

func (s sums) add(currency string, amount *big.Rat) {
	if s[currency] == nil {
		s[currency] = new(big.Rat)
	}
	s[currency].Add(s[currency], amount)
}

// lines returns the sums as people read them.
func (s sums) lines() (all []string) {
	for _, currency := range slices.Sorted(maps.Keys(s)) {
		all = append(all, web.Value("amount", strconv.Quote(s[currency].FloatString(2)))[0]+" "+currency)
	}
	return all
}

// billed says what was billed in all, if credit notes took some of it back.
func billed(rows []record) []string {
	all, kinds := sums{}, map[bool]bool{}
	for _, read := range rows {
		amount, ok := new(big.Rat).SetString(read.text("gross_amount"))
		if !ok {
			continue // null
		}
		credited := read.text("type") == "credit_note"
		if kinds[credited] = true; credited {
			amount.Neg(amount)
		}
		all.add(read.text("currency"), amount)
	}
	if len(kinds) < 2 {
		return nil
	}
	return []string{"Gross amounts less credit notes: " + strings.Join(all.lines(), ", ") + ".", "Reversed invoices stay in the sums. Credit notes take them back."}
}

// groupCell names a group. It links to the group's rows where a filter finds exactly these.
func groupCell(l *list, chosen url.Values, by string, read record, c cell) cell {
	c.Href = ""
	filter, value := by, read.text(by)
	switch by {
	case route.ByMonth:
		if month, err := time.Parse("2006-01", value); err == nil {
			c.Lines = []string{month.Format("January 2006")}
		}
		return c
	case route.ByClient, route.ByContractor:
		filter = by + "_id"
		value, _ = read.party(by)
	}
	if value != "" && l.has(filter) {
		c.Href, c.Look = l.address(chosen, filter, value), ""
	}
	return c
}

// agesFrom returns the days with which the ages of unpaid invoices begin, and their names.
func agesFrom() (days []int, names []string) {
	return []int{1, 31, 61, 91}, []string{"Period not over", "1 to 30 days", "31 to 60 days", "61 to 90 days", "Over 90 days"}
}

// due is what is unpaid of an age.
type due struct {
	count  int64
	amount big.Rat
}

// readAges groups unpaid invoices by the days since the last day of their period: invoices have no
// due date. Totals have no such group, and several of them would not be of one moment, so it reads
// the whole list of what is chosen.
func (p *Data) readAges(ctx context.Context, r *web.Request, l *list, chosen url.Values, t *totals) (err error) {
	defer func() {
		if fault := recover(); fault == http.ErrAbortHandler { //nolint:errorlint // a panic value is compared as net/http does
			err = errors.New("the list of unpaid invoices was broken off")
		} else if fault != nil {
			panic(fault)
		}
	}()
	today := r.Now.UTC().Truncate(24 * time.Hour)
	from, names := agesFrom()
	found := map[string][]due{} // by currency
	status, err := p.Reader.Rows(ctx, p.ask(r, l.Path, chosen, 0), nowhere{}, func(row []byte) error {
		read, err := readRow(row)
		if err != nil {
			return err
		}
		end, err := time.Parse(time.DateOnly, read.text("period_end"))
		if err != nil {
			return fmt.Errorf("read the end of an invoice's period: %w", err)
		}
		amount, ok := new(big.Rat).SetString(read.text("net_due"))
		if !ok {
			return fmt.Errorf("read what is due: %s", read["net_due"])
		}
		currency := read.text("currency")
		if found[currency] == nil {
			found[currency] = make([]due, len(names))
		}
		age, _ := slices.BinarySearch(from, int(today.Sub(end)/(24*time.Hour))+1)
		d := &found[currency][age]
		d.count++
		d.amount.Add(&d.amount, amount)
		return nil
	}, func() error { return nil })
	if err != nil || status != http.StatusOK {
		return err
	}
	t.showAges(found)
	return nil
}

func (t *totals) showAges(found map[string][]due) {
	_, names := agesFrom()
	t.Heads = []cell{{Label: "Since the period ended"}, {Label: web.Field("currency")}, {Label: web.Field("count"), Number: true}, {Label: web.Field("net_due"), Number: true}}
	for _, currency := range slices.Sorted(maps.Keys(found)) {
		for i, name := range names {
			d := &found[currency][i]
			t.Rows = append(t.Rows, []cell{
				{Lines: []string{name}}, {Lines: []string{currency}}, {Lines: []string{web.Count(d.count)}},
				{Lines: web.Value("net_due", strconv.Quote(d.amount.FloatString(2)))},
			})
		}
	}
	t.Hint = "Invoices have no due date here, so their age is the days since the last day of their period."
	t.Unread = false
}

// nowhere is the writer of a list that is only added up.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
