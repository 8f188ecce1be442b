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
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

const (
	// dataPageSize is how many rows a page lists, and relatedSize how many the page of another row does.
	dataPageSize = 50
	relatedSize  = 10
)

// Data serves the pages of the workspace's data: the lists of the API for people. Each page is what a
// key with the permissions of the session would get.
type Data struct {
	Reader   *readapi.Reader  // reads what API callers get
	Replayer *replay.Replayer // says which entries made a row
	Log      *eventlog.Log    // appends the entries that forget somebody

	Retention     time.Duration // how long events are shown
	BesideTimeout time.Duration // how long a page waits for totals, related rows and the history

	lists []list
}

// NewData prepares the pages.
func NewData(p Data) *Data {
	p.lists = lists()
	return &p
}

// Routes returns the routes of the pages.
func (p *Data) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Pattern: "/data", Access: web.SignedIn, Handle: p.overviewPage},
		{Method: http.MethodGet, Pattern: "/data/{list}", Access: web.SignedIn, Heavy: true, Handle: p.listPage},
		{Method: http.MethodGet, Pattern: "/data/{list}/{id}", Access: web.SignedIn, Heavy: true, Handle: p.rowPage},
		{Method: http.MethodGet, Pattern: "/data/{list}/{id}/forget", Access: web.Admin, Handle: p.forgetPage},
		{Method: http.MethodPost, Pattern: "/data/{list}/{id}/forget", Access: web.Admin, Handle: p.forget},
		{Method: http.MethodGet, Pattern: FilePattern, Access: web.SignedIn, Handle: p.file},
	}
}

// list is a list of the API, as people know it.
type list struct {
	*route.Route
	Slug        string // such as time-entries
	Name        string // such as Time entries
	Description string
	Columns     []string // fields that a page of the list shows; the first one names the row
	Sums        []string // of the totals that pages show; empty: the list has none

	paged  bool            // each row has a page of its own
	totals *route.Resource // nil: the list has none
}

// lists returns the lists of rows, in the order of the API's description.
func lists() []list {
	var all []list
	table := route.Table()
	at := func(path string) *route.Route {
		if i := slices.IndexFunc(table, func(r route.Route) bool { return r.Path == path }); i >= 0 {
			return &table[i]
		}
		return nil
	}
	for i := range table {
		r := &table[i]
		if r.Kind != route.Rows {
			continue
		}
		name := strings.TrimPrefix(r.Summary, "List ")
		l := list{Route: r, Slug: strings.TrimPrefix(r.Path, "/v1/"), Name: strings.ToUpper(name[:1]) + name[1:]}
		l.Description, l.Columns, l.Sums = forPeople(l.Slug)
		l.paged = at(r.Path+"/{id}") != nil
		if totals := at("/v1/totals/" + l.Slug); totals != nil {
			l.totals = totals.Resource
		}
		all = append(all, l)
	}
	return all
}

// forPeople says what is in a list, and what its pages show.
func forPeople(slug string) (description string, columns, sums []string) {
	switch slug {
	case "invoices":
		return "Invoices, packages and credit notes, without drafts.",
			[]string{"number", "client", "period_label", "client_billing_status", "gross_amount", "net_due", "updated_at"},
			[]string{"gross_amount", "credit_applied", "net_due"}
	case "charges":
		return "Charges, except removed ones.",
			[]string{"category", "client", "contractor", "date", "status", "amount"}, []string{"amount"}
	case "payments":
		return "Payments that the accounting system has confirmed.",
			[]string{"direction", "client", "contractor", "invoice_number", "confirmed_at", "amount"}, []string{"amount"}
	case "time-entries":
		return "Time entries, except deleted ones.",
			[]string{"service", "client", "contractor", "work_date", "status", "hours", "bill_amount"}, []string{"hours", "bill_amount"}
	case "contractors":
		return "Contractors, one row each.", []string{"name", "title", "email", "status", "updated_at"}, nil
	case "clients":
		return "Clients with their contacts, one row each.", []string{"name", "plan_name", "status", "billing_status", "updated_at"}, nil
	case "credits":
		return "What each client has paid in advance and not used up.", []string{"client", "general_credit", "balance", "updated_at"}, nil
	case "credit-history":
		return "Every movement of client credit.", []string{"kind", "client", "date", "invoice_number", "note", "amount"}, nil
	}
	return "", []string{"id"}, nil
}

func (p *Data) list(slug string) (*list, error) {
	if i := slices.IndexFunc(p.lists, func(l list) bool { return l.Slug == slug }); i >= 0 {
		return &p.lists[i], nil
	}
	return nil, web.ErrNotFound
}

type dataOverviewBody struct {
	Lists   []list
	SeesPay bool
}

func (p *Data) overviewPage(r *web.Request) error {
	return r.Show("data", web.View{Title: "Data", Section: "data", Body: &dataOverviewBody{p.lists, r.Session.MaySeePay()}})
}

// cell is a value of a row for people.
type cell struct {
	Label  string
	Lines  []string  // times are in RFC 3339, for web.Moments
	Look   string    // of a badge; empty: it is text
	Href   string    // of what the value names; empty: nothing
	Unit   string    // follows the value; empty: nothing
	At     time.Time // of a value that is a time; zero: it is none
	Now    time.Time // a time is shown by how far it is from Now; zero: in full
	Number bool
	Parts  [][]cell // objects in the value, one after the other, in place of Lines
	Many   bool     // Parts is a list, even of one
}

// Empty reports whether there is no value.
func (c cell) Empty() bool {
	return len(c.Parts) == 0 && len(c.Lines) == 1 && c.Lines[0] == web.Nothing
}

// Tip is the whole text of a value that its column may cut; empty: it is short, or says more on its own.
func (c cell) Tip() string {
	const short = 12
	text := strings.TrimSpace(strings.Join(c.Lines, " ") + " " + c.Unit)
	if !c.At.IsZero() || utf8.RuneCountInString(text) <= short {
		return ""
	}
	return text
}

// from shows the times of a list's objects by how far they are from now, because their columns are narrow.
func (c cell) from(now time.Time) cell {
	for _, part := range c.Parts {
		for i := range part {
			if c.Many {
				part[i].Now = now
			}
		}
	}
	return c
}

// record is a row of a list: its values as JSON, by name.
type record map[string]string

func readRow(text []byte) (record, error) {
	members, err := jsonform.Members(string(text))
	if err != nil {
		return nil, fmt.Errorf("read a row: %w", err)
	}
	r := record{}
	for _, m := range members {
		r[m.Name] = m.JSON
	}
	return r, nil
}

// text returns a text of the row; empty: there is none.
func (r record) text(name string) (text string) {
	_ = json.Unmarshal([]byte(r[name]), &text)
	return text
}

// party returns the id and name of a party that the row names; both are empty if there is none.
func (r record) party(field string) (id, name string) {
	var p struct{ ID, Name string }
	_ = json.Unmarshal([]byte(r[field]), &p)
	return p.ID, p.Name
}

// creditedInvoice returns the id of the invoice that a credit note credits; empty: it is none.
func (r record) creditedInvoice() string {
	var note struct {
		SourceInvoiceID string `json:"source_invoice_id"`
	}
	_ = json.Unmarshal([]byte(r["credit_note"]), &note)
	return note.SourceInvoiceID
}

// cell returns a value of the row.
func (r record) cell(f *jsonform.FieldDescription) cell {
	value := r[f.Name]
	c := cell{Label: web.Field(f.Name), Lines: web.Value(f.Name, value)}
	if c.Empty() {
		return c
	}
	c.Number = isNumber(f.Form)
	switch f.Form {
	case domain.FormMoney, domain.FormSignedMoney:
		c.Unit = r.text("currency")
	case domain.FormDateTime:
		c.At, _ = domain.ParseTime(r.text(f.Name))
	case domain.FormObject, domain.FormArray:
		if id, name := r.party(f.Name); id != "" && isParty(f) {
			c.Lines, c.Href = []string{cmp.Or(name, id)}, rowAddress(f.Name+"s", id)
			break
		}
		c.Parts, c.Many = parts(f, value, r["currency"]), f.Form == domain.FormArray
	case domain.FormID:
		switch f.Name {
		case "invoice_id", "source_invoice_id":
			c.Href = rowAddress("invoices", r.text(f.Name))
		}
	case domain.FormText, domain.FormEnum:
		if f.Name == "invoice_number" && r.text("invoice_id") != "" {
			c.Href = rowAddress("invoices", r.text("invoice_id"))
		}
		if strings.HasSuffix(f.Name, "status") {
			c.Look = statusLook(r.text(f.Name))
		}
	}
	return c
}

// isNumber reports whether values of a form are numbers, money among them.
func isNumber(form jsonform.Form) bool {
	switch form {
	case domain.FormMoney, domain.FormSignedMoney, domain.FormHours, domain.FormNumber, domain.FormInteger, domain.FormCount:
		return true
	}
	return false
}

// isParty reports whether a field names a client or a contractor.
func isParty(f *jsonform.FieldDescription) bool { return f.Object == "PartyReference" }

// parts returns the objects of a value, each as its values. Their amounts are in the currency of the row.
func parts(f *jsonform.FieldDescription, value, currency string) (all [][]cell) {
	objects := []json.RawMessage{json.RawMessage(value)}
	if f.Form == domain.FormArray && json.Unmarshal([]byte(value), &objects) != nil {
		return nil
	}
	for _, object := range objects {
		part, err := readRow(object)
		if err != nil {
			return nil
		}
		if currency != "" {
			part["currency"] = currency
		}
		all = append(all, part.cells(f.Fields))
	}
	return all
}

// cells returns the values of fields.
func (r record) cells(fields []jsonform.FieldDescription) (all []cell) {
	for i := range fields {
		if _, given := r[fields[i].Name]; given {
			all = append(all, r.cell(&fields[i]))
		}
	}
	return all
}

// title names the row on its page: such as INV-1042, or Occupational therapy.
func (r record) title(l *list) string {
	first := l.Columns[0]
	if id, name := r.party(first); id != "" {
		return cmp.Or(name, id)
	}
	return cmp.Or(strings.Join(web.Value(first, cmp.Or(strings.Replace(r[first], "null", "", 1), r["id"])), ""), l.Name)
}

// tags say what is unusual about the row.
func (r record) tags() (tags []string) {
	if typ := r.text("type"); typ != "" && typ != "invoice" {
		tags = append(tags, strings.ReplaceAll(typ, "_", " "))
	}
	for name, tag := range map[string]string{"reversed": "reversed", "billed_externally": "billed elsewhere", "is_flat_fee": "flat fee"} {
		if r[name] == "true" {
			tags = append(tags, tag)
		}
	}
	if r["billed_to_client"] == "false" {
		tags = append(tags, "not billed")
	}
	slices.Sort(tags)
	return tags
}

// statusLook is the look of a status of a row.
func statusLook(status string) string {
	switch status {
	case "paid", "active", "approved":
		return "good"
	case "sent", "sent_to_payroll":
		return "wait"
	case "declined":
		return "bad"
	}
	return "quiet"
}

// rowAddress is the address of the page of a row.
func rowAddress(slug, id string) string {
	if id == "" {
		return ""
	}
	return "/data/" + slug + "/" + url.PathEscape(id)
}

// dataRow is a row as a list shows it.
type dataRow struct {
	Href  string // of its page; empty: it has none
	Title string
	Tags  []string
	Cells []cell // without the first one, which Title shows
}

// table is some rows of a list.
type table struct {
	List  *list
	Rows  []dataRow
	Title string   // of a table beside others
	More  string   // address of the list with more of them
	Cut   bool     // these are the newest, and there are more
	Sums  []string // of the amounts of all of them, by currency; nil: they are not added up
	Inner []cell   // what each row lists

	columns []string // fields; the first one names the row
}

// table makes a table of a page. without are columns that it leaves out, because all rows have the same
// there.
func (p *Data) table(ctx context.Context, r *web.Request, l *list, page *readapi.Page, without ...string) (*table, error) {
	t := &table{List: l}
	for i, name := range l.Columns {
		if i == 0 || !slices.Contains(without, name) {
			t.columns = append(t.columns, name)
		}
	}
	rows := make([]record, len(page.Rows))
	for i := range page.Rows {
		var err error
		if rows[i], err = readRow(page.Rows[i].JSON); err != nil {
			return nil, err
		}
	}
	if l.Slug == "credit-history" {
		p.addCurrency(ctx, r, rows)
	}
	for i, read := range rows {
		t.add(read, page.Rows[i].ID, r.Now)
	}
	return t, nil
}

// addCurrency adds to movements of credit the currency of their clients' credit, which they lack.
func (p *Data) addCurrency(ctx context.Context, r *web.Request, rows []record) {
	credits, err := p.list("credits")
	if err != nil {
		return
	}
	var clients []string
	for _, read := range rows {
		id, _ := read.party("client")
		clients = append(clients, id)
	}
	slices.Sort(clients)
	ctx, cancel := context.WithTimeout(ctx, p.BesideTimeout)
	defer cancel()
	found, err := p.bases(ctx, readapi.AskBases{WorkspaceID: r.Session.WorkspaceID, Resource: credits.Resource, IDs: slices.Compact(clients)})
	if err != nil {
		r.Warn("cannot read the currencies of credit", err)
	}
	for _, read := range rows {
		id, _ := read.party("client")
		read["currency"] = strconv.Quote(found[id].text("currency"))
	}
}

// add adds a row.
func (t *table) add(read record, id string, now time.Time) {
	l := t.List
	d := dataRow{Title: read.title(l), Tags: read.tags()}
	switch client, _ := read.party("client"); {
	case l.paged:
		d.Href = rowAddress(l.Slug, id)
	case l.Columns[0] == "client":
		d.Href = rowAddress("clients", client)
	}
	unit := ""
	for _, name := range t.columns[1:] {
		c := read.cell(l.Resource.Field(name))
		c.Now = now
		if l.Slug == "credit-history" && name == "amount" {
			c.Lines = []string{signOf(read.text("kind")) + c.Lines[0]}
		}
		if c.Unit == unit { // amounts of a row are of one currency
			c.Unit = ""
		}
		unit = cmp.Or(c.Unit, unit)
		d.Cells = append(d.Cells, c)
	}
	t.Rows = append(t.Rows, d)
	if l.Slug == "credits" {
		if c := read.cell(l.Resource.Field("packages")); !c.Empty() {
			t.Inner = append(t.Inner, c)
		}
	}
}

// signOf is the sign of a movement of credit. Top-ups have kinds in the words of the workspace.
func signOf(kind string) string {
	switch kind {
	case "applied", "expired":
		return "−"
	}
	return "+"
}

// Heads returns the labels of the columns.
func (t *table) Heads() []cell {
	heads := []cell{{Label: web.Field(t.columns[0])}}
	for _, name := range t.columns[1:] {
		heads = append(heads, cell{Label: web.Field(name), Number: isNumber(t.List.Resource.Field(name).Form)})
	}
	return heads
}

// filterField is a filter of a list as a form has it.
type filterField struct {
	Name, Label, Value string
	Type               string     // of an input: date or text; empty: it is a choice
	Options            []web.Pair // of a choice: value and label
	Fault              string
}

// chip is a filter, with the address of the list without it, or with nothing but it.
type chip struct{ Label, Address string }

// note says which rows a choice has, and where the others are that a person may mean.
type note struct {
	Text  string
	Other *chip // nil: there are none
}

type dataListBody struct {
	List     *list
	Table    *table
	Filters  []filterField
	Chips    []chip
	Counts   []note
	Presets  []chip
	Wrong    bool    // a filter is wrong: its fault stands in place of rows, totals and files
	Totals   *totals // nil: not asked for
	Grouped  *totals // the same by something; nil: not asked for
	Ways     []web.Link
	Workbook string // address of the selection as a file, and as CSV
	CSV      string
	AddUp    string // address of the page with totals; empty: it has them, or the list has none
	SeesPay  bool
	web.Pager
}

// selection returns the filters of the request that the list has, as a query.
func (l *list) selection(r *web.Request) url.Values {
	chosen := url.Values{}
	for i := range l.Params {
		switch param := &l.Params[i]; param.Form {
		case route.FormLimit, route.FormCursor, route.FormTime, route.FormInclude:
		default:
			if v := r.Query(param.Name); v != "" {
				chosen.Set(param.Name, v)
			}
		}
	}
	return chosen
}

// understands returns an error if the address of the request has a filter that the list lacks, or one
// twice: there would be more rows than the address says. own are further parameters of the page.
func (l *list) understands(r *web.Request, chosen url.Values, own ...string) error {
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if slices.Contains(own, name) || strings.TrimSpace(strings.Join(query[name], "")) == chosen.Get(name) {
			continue
		}
		return &web.PageError{Status: http.StatusBadRequest, Title: "No such filter",
			Text: fmt.Sprintf("The list %s has no filter %q, or its address has it twice. Go back to the list, and choose from its filters.", l.Name, name), Back: "/data/" + l.Slug}
	}
	return nil
}

// has reports whether the list has a filter.
func (l *list) has(filter string) bool {
	return slices.ContainsFunc(l.Params, func(p route.Param) bool { return p.Name == filter })
}

// address is the address of the list with filters.
func (l *list) address(chosen url.Values, more ...string) string {
	v := url.Values{}
	maps.Copy(v, chosen)
	for i := 0; i+1 < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	if len(v) == 0 {
		return "/data/" + l.Slug
	}
	return "/data/" + l.Slug + "?" + v.Encode()
}

// fileAddress is the address of the list with filters as a file.
func (l *list) fileAddress(chosen url.Values, extension string) string {
	address := "/files/" + l.Slug + extension
	if len(chosen) > 0 {
		address += "?" + chosen.Encode()
	}
	return address
}

func (p *Data) listPage(r *web.Request) error {
	l, err := p.list(r.Path("list"))
	if err != nil {
		return err
	}
	chosen := l.selection(r)
	if err := l.understands(r, chosen, "at", "by", "totals"); err != nil {
		return err
	}
	var at *readapi.Place
	if cursor := r.Query("at"); cursor != "" {
		if at, err = web.ParseCursor[readapi.Place](cursor); err != nil {
			return r.Redirect(l.address(chosen))
		}
	}
	body := &dataListBody{List: l, SeesPay: r.Session.MaySeePay(), Presets: l.presets(r.Now)}
	by := l.way(r.Query("by"))
	if by == byAge {
		chosen.Set("open", "true")
	}
	wait := func() {}
	if len(l.Sums) > 0 && (narrow(chosen) || r.Query("totals") != "" || by != "") {
		wait = p.addUp(r, l, chosen, by, body)
	}
	defer wait()
	page, err := p.Reader.Page(r.Context(), p.ask(r, l.Path, chosen, dataPageSize), at)
	if err != nil {
		return err
	}
	if page.Status != http.StatusOK && page.Status != http.StatusBadRequest {
		return errUnread
	}
	if at != nil && len(page.Rows) == 0 {
		return r.Redirect(l.address(chosen)) // the rows beside the place have changed since
	}
	if body.Table, err = p.table(r.Context(), r, l, page); err != nil {
		return err
	}
	body.filter(l, chosen, page)
	body.Workbook, body.CSV = l.fileAddress(chosen, ".xlsx"), l.fileAddress(chosen, ".csv")
	wait()
	if body.Wrong = page.Status == http.StatusBadRequest; body.Wrong {
		body.Totals, body.Grouped = nil, nil
	} else {
		body.Counts = l.counts(chosen)
		body.Ways = l.waysToGroup(chosen, by)
		if body.Totals == nil && len(l.Sums) > 0 {
			body.AddUp = l.address(chosen, "totals", "all")
		}
	}
	if page.Newer != nil {
		body.Newest, body.Newer = l.address(chosen), l.address(chosen, "at", web.FormatCursor(page.Newer))
	}
	if page.Older != nil {
		body.Older = l.address(chosen, "at", web.FormatCursor(page.Older))
	}
	return r.Show("data-list", web.View{Title: l.Name, Section: "data", Body: body})
}

// narrow reports whether a selection has few rows, however many the list has, so that its totals come
// with the page without being asked for.
func narrow(chosen url.Values) bool {
	for _, name := range []string{"period", "date_from", "client_id", "contractor_id"} {
		if chosen.Has(name) {
			return true
		}
	}
	return false
}

// errUnread is the page for data that could not be read.
var errUnread = &web.PageError{Status: http.StatusServiceUnavailable, Title: "Not now", Text: "The data cannot be read at the moment. Try again in a minute."}

// ask is a question of the session to the API.
func (p *Data) ask(r *web.Request, path string, chosen url.Values, limit int) readapi.Ask {
	query := url.Values{}
	maps.Copy(query, chosen)
	if limit > 0 {
		query.Set("limit", fmt.Sprint(limit))
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return readapi.Ask{WorkspaceID: r.Session.WorkspaceID, Permissions: web.PermissionsOf(r.Session.MaySeePay()), Path: path}
}

// filter fills in the form, and what is chosen.
func (b *dataListBody) filter(l *list, chosen url.Values, page *readapi.Page) {
	for i := range l.Params {
		param := &l.Params[i]
		f := filterField{Name: param.Name, Label: filterLabel(param.Name), Value: chosen.Get(param.Name)}
		switch param.Form {
		case route.FormLimit, route.FormCursor, route.FormTime, route.FormInclude:
			continue
		case route.FormDateFrom, route.FormDateTo:
			f.Type = "date"
		case route.FormEnum, route.FormOpen:
			for _, v := range param.Values {
				f.Options = append(f.Options, web.Pair{Name: v, Value: optionLabel(param.Name, v)})
			}
		default:
			f.Type = "text"
		}
		for _, fault := range page.Faults {
			if fault.Field == param.Name {
				f.Fault = fault.Message
			}
		}
		b.Filters = append(b.Filters, f)
		if f.Value != "" {
			b.Chips = append(b.Chips, chip{chosenLabel(&f), l.address(without(chosen, param.Name))})
		}
	}
}

// counts says which rows a period or days choose, because the two choose different ones, and what is not
// taken off the amounts of open invoices.
func (l *list) counts(chosen url.Values) (all []note) {
	rows := strings.ToLower(l.Name)
	from, to := chosen.Get("date_from"), chosen.Get("date_to")
	if period := chosen.Get("period"); period != "" {
		c := note{Text: "Only " + rows + " of the exact period " + period + "."}
		first, err := time.Parse("2006-01", period)
		if err == nil {
			c.Text += " Weekly periods in this month are not among them."
		}
		if err == nil && from == "" && to == "" {
			c.Other = &chip{"By days: all of " + first.Format("January 2006"), l.address(without(chosen, "period"), daysOf(first)...)}
		}
		all = append(all, c)
	}
	if chosen.Get("open") == "true" {
		all = append(all, note{Text: "Payments in part and later credit notes are not taken off: see each invoice’s payments."})
	}
	if from == "" && to == "" {
		return all
	}
	c := note{Text: map[string]string{
		"invoices":     "Invoices with any day of their period in the range, whatever the period is called. Each counts in full.",
		"charges":      "Charges by their date.",
		"time-entries": "Time entries by the day of the work.",
		"payments":     "Payments by the day on which they were confirmed, in UTC.",
	}[l.Slug]}
	if first, err := time.Parse(time.DateOnly, from); err == nil && l.has("period") && !chosen.Has("period") && slices.Equal(daysOf(first), []string{"date_from", from, "date_to", to}) {
		c.Other = &chip{"Only the exact period " + from[:7], l.address(without(chosen, "date_from", "date_to"), "period", from[:7])}
	}
	return append(all, c)
}

// daysOf returns the filters for the days of a month, by its first day.
func daysOf(first time.Time) []string {
	return []string{"date_from", first.Format(time.DateOnly), "date_to", first.AddDate(0, 1, -1).Format(time.DateOnly)}
}

// without returns a selection without some filters.
func without(chosen url.Values, names ...string) url.Values {
	left := maps.Clone(chosen)
	for _, name := range names {
		left.Del(name)
	}
	return left
}

// chosenLabel says what a filter finds.
func chosenLabel(f *filterField) string {
	switch {
	case f.Name == "open" && f.Value == "true":
		return "Not paid yet"
	case f.Name == "open":
		return "Not open"
	}
	return f.Label + ": " + optionLabel(f.Name, f.Value)
}

func filterLabel(name string) string {
	switch name {
	case "date_from":
		return "From"
	case "date_to":
		return "To"
	case "client_id":
		return "Client ID"
	case "contractor_id":
		return "Contractor ID"
	}
	return web.Field(name)
}

func optionLabel(name, value string) string {
	switch {
	case name == "open" && value == "true":
		return "yes: not paid yet"
	case name == "open":
		return "no"
	case name == "status", name == "type", name == "direction":
		return strings.ReplaceAll(value, "_", " ")
	}
	return value
}

// presets are filters that people often want.
func (l *list) presets(now time.Time) (all []chip) {
	if l.has("open") {
		all = append(all, chip{"Unpaid", l.address(nil, "open", "true", "totals", "all")})
	}
	if l.has("date_from") {
		first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
		for _, month := range []struct {
			label string
			first time.Time
		}{{"This month", first}, {"Last month", first.AddDate(0, -1, 0)}} {
			all = append(all, chip{month.label, l.address(nil, daysOf(month.first)...)})
		}
	}
	return all
}

// group is a part of a row's values.
type group struct {
	Title string // empty: what the row is about
	Cells []cell
}

type dataRowBody struct {
	List    *list
	ID      string
	Title   string
	Lead    []cell // what people look for first, beside the title
	Tags    []string
	Facts   []group
	Inner   []cell // values that are objects
	Related []*table
	History []historyEntry
	Long    bool   // the log is too long to say which entries made the row
	Removed bool   // the row has left the list
	Party   string // client or contractor; empty: the row is of another kind
	Beside  *chip  // a selection with its sums that people look for here; nil: none
	SeesPay bool
}

// historyEntry is an entry that changed a row.
type historyEntry struct {
	replay.EntryName
	At     time.Time
	Fields string // whose values it changed
	Event  bool   // it is an event
}

func (p *Data) rowPage(r *web.Request) error {
	l, err := p.list(r.Path("list"))
	if err != nil {
		return err
	}
	id := r.Path("id")
	if !l.paged || !domain.IsID(id) {
		return web.ErrNotFound
	}
	read, err := p.Reader.Get(r.Context(), p.ask(r, l.Path+"/"+id, nil, 0))
	if err != nil {
		return err
	}
	body := &dataRowBody{List: l, ID: id, Title: id, SeesPay: r.Session.MaySeePay()}
	if s, err := subject(r); err == nil {
		body.Party = s.Kind
	}
	switch {
	case read.Status == http.StatusNotFound && len(read.Removed) > 0:
		body.Removed = true
		return r.Show("data-row", web.View{Title: id, Section: "data", Body: body})
	case read.Status == http.StatusNotFound:
		return web.ErrNotFound
	case read.Status != http.StatusOK:
		return errUnread
	}
	found, err := readRow(read.Body)
	if err != nil {
		return err
	}
	body.show(l, found, r.Now)
	switch l.Slug {
	case "clients":
		body.Beside = &chip{"Open invoices", "/data/invoices?client_id=" + url.QueryEscape(id) + "&open=true"}
	case "contractors":
		if body.SeesPay {
			body.Beside = &chip{"Payouts by contractor", "/data/payments?by=contractor&direction=paid_to_contractor"}
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), p.BesideTimeout)
	defer cancel()
	var reading sync.WaitGroup
	related := relatedTo(l.Slug, id, found)
	body.Related = make([]*table, len(related))
	reading.Go(func() {
		for i := range related { // one after the other: the workspace has few connections
			var err error
			if body.Related[i], err = p.related(ctx, r, &related[i]); err != nil {
				r.Warn("cannot read related rows", err)
			}
		}
	})
	reading.Go(func() { p.history(ctx, r, l, id, body) })
	reading.Wait()
	body.Related = slices.DeleteFunc(body.Related, func(t *table) bool { return t == nil })
	return r.Show("data-row", web.View{Title: body.Title, Section: "data", Body: body})
}

// show fills in the values.
func (b *dataRowBody) show(l *list, found record, now time.Time) {
	b.Title, b.Tags = found.title(l), found.tags()
	amounts := 0
	for _, name := range l.Columns {
		c := found.cell(l.Resource.Field(name))
		if c.Unit != "" {
			amounts++ // two of them would need their labels
		}
		if !c.Empty() && (c.Look != "" || c.Unit != "" && amounts == 1) {
			b.Lead = append(b.Lead, c)
		}
	}
	titles := map[jsonform.Part]string{domain.Pay: "Pay", domain.Margin: "Margin"}
	for i := range l.Resource.Fields {
		f := &l.Resource.Fields[i]
		if _, given := found[f.Name]; !given || f.Name == "id" || f.Name == "period" || f.Name == "currency" {
			continue
		}
		c := found.cell(f)
		if len(c.Parts) > 0 {
			b.Inner = append(b.Inner, c.from(now))
			continue
		}
		title := titles[f.Part]
		if n := len(b.Facts); n == 0 || b.Facts[n-1].Title != title {
			b.Facts = append(b.Facts, group{Title: title})
		}
		last := &b.Facts[len(b.Facts)-1]
		last.Cells = append(last.Cells, c)
	}
}

// relation is a list with rows that belong to another row.
type relation struct {
	slug    string
	title   string     // empty: the name of the list
	of      []string   // the columns that say the same in each row, which are left out
	chosen  url.Values // filters that find them; nil: they are found by a column
	column  string
	value   string // of the column
	credits string // of the rows, only credit notes of this invoice; empty: all
	sum     bool   // of the amounts is shown
}

// relatedTo returns what belongs to a row of a list.
func relatedTo(slug, id string, found record) (all []relation) {
	switch slug {
	case "invoices":
		if credited := found.creditedInvoice(); credited != "" {
			all = append(all, relation{slug: "invoices", title: "The invoice that it credits", column: "id", value: credited})
		} else if client, _ := found.party("client"); client != "" {
			all = append(all, relation{slug: "invoices", title: "Credit notes", of: []string{"client"}, chosen: url.Values{"client_id": {client}, "type": {"credit_note"}}, credits: id})
		}
		for _, slug := range []string{"charges", "time-entries", "payments"} {
			all = append(all, relation{slug: slug, of: []string{"client", "invoice_number"}, column: "invoice_id", value: id})
		}
	case "clients":
		all = append(all, relation{slug: "credits", column: "id", value: id})
		for _, slug := range []string{"invoices", "charges", "time-entries", "payments", "credit-history"} {
			all = append(all, relation{slug: slug, of: []string{"client"}, chosen: url.Values{"client_id": {id}}})
		}
	case "contractors":
		all = append(all, relation{slug: "payments", title: "Payouts", of: []string{"contractor"}, column: "contractor_id", value: id, sum: true})
		for _, slug := range []string{"invoices", "time-entries", "charges"} {
			all = append(all, relation{slug: slug, of: []string{"contractor"}, chosen: url.Values{"contractor_id": {id}}})
		}
	}
	return all
}

// related reads the rows of a relation; nil: there are none.
func (p *Data) related(ctx context.Context, r *web.Request, of *relation) (*table, error) {
	l, err := p.list(of.slug)
	if err != nil {
		return nil, err
	}
	with := func(at *readapi.Place) (*readapi.Page, error) {
		return p.Reader.With(ctx, p.ask(r, l.Path, nil, route.MaxLimit), of.column, of.value, at)
	}
	var page *readapi.Page
	switch {
	case of.column != "":
		page, err = with(nil)
	case of.credits != "":
		page, err = p.creditNotes(ctx, p.ask(r, l.Path, of.chosen, route.MaxLimit), of.credits)
	default:
		page, err = p.Reader.Page(ctx, p.ask(r, l.Path, of.chosen, relatedSize), nil)
	}
	if err != nil {
		return nil, err
	}
	if page.Status != http.StatusOK {
		return nil, errors.New(l.Path + " could not be read in time")
	}
	t, err := p.table(ctx, r, l, page, of.of...)
	if err != nil || len(t.Rows) == 0 {
		return nil, err
	}
	t.Title = cmp.Or(of.title, l.Name)
	if t.Cut = page.Older != nil; t.Cut && of.chosen != nil {
		t.More = l.address(of.chosen)
	}
	if of.sum {
		if t.Sums, err = sumsOf(page, with); err != nil {
			r.Warn("cannot add up related rows", err)
		}
	}
	return t, nil
}

// creditNotes reads a client's credit notes, and keeps those of an invoice.
func (p *Data) creditNotes(ctx context.Context, ask readapi.Ask, invoice string) (*readapi.Page, error) {
	var all []readapi.Ranked
	for at := (*readapi.Place)(nil); ; {
		page, err := p.Reader.Page(ctx, ask, at)
		if err != nil || page.Status != http.StatusOK {
			return page, err
		}
		for i := range page.Rows {
			read, err := readRow(page.Rows[i].JSON)
			if err != nil {
				return nil, err
			}
			if read.creditedInvoice() == invoice {
				all = append(all, page.Rows[i])
			}
		}
		if at = page.Older; at == nil {
			page.Rows = all
			return page, nil
		}
	}
}

// mostSummed is how many pages of related rows are added up.
const mostSummed = 20

// sumsOf adds up the amounts of the rows of a page and of those after it, by currency; nil: there are
// too many.
func sumsOf(page *readapi.Page, older func(*readapi.Place) (*readapi.Page, error)) (lines []string, err error) {
	all := sums{}
	for pages := 1; ; pages++ {
		for i := range page.Rows {
			read, err := readRow(page.Rows[i].JSON)
			if err != nil {
				return nil, err
			}
			amount, ok := new(big.Rat).SetString(read.text("amount"))
			if !ok {
				return nil, fmt.Errorf("add up amounts: %s", read["amount"])
			}
			all.add(read.text("currency"), amount)
		}
		if page.Older == nil {
			return all.lines(), nil
		}
		if pages == mostSummed {
			return nil, nil
		}
		if page, err = older(page.Older); err != nil || page.Status != http.StatusOK {
			return nil, cmp.Or[error](err, errUnread)
		}
	}
}

// history reads which entries made the row, if the log is short.
func (p *Data) history(ctx context.Context, r *web.Request, l *list, id string, body *dataRowBody) {
	explained, err := p.Replayer.Explain(ctx, replay.ExplainRequest{WorkspaceID: r.Session.WorkspaceID, Resource: l.Slug, ID: id, Most: replay.MostForEffect})
	if err != nil {
		r.Warn("cannot read which entries made a row", err)
	}
	if body.Long = explained == nil; body.Long {
		p.events(ctx, r, id, body)
		return
	}
	hidden, err := p.hidden(ctx, r, explained.History)
	if err != nil {
		r.Warn("cannot read which entries a viewer may see", err)
		return
	}
	public := domain.PublicTypes()
	for i := len(explained.History) - 1; i >= 0; i-- {
		e := &explained.History[i]
		if slices.Contains(hidden, e.Position) {
			continue
		}
		var fields []string
		for _, name := range e.Fields {
			f := slices.IndexFunc(l.Resource.Fields, func(f jsonform.FieldDescription) bool { return f.Name == name })
			if f < 0 || name == "updated_at" || !body.SeesPay && l.Resource.Fields[f].Part != domain.Base {
				continue
			}
			fields = append(fields, web.Field(name))
		}
		if len(fields) == 0 && !e.Deleted {
			continue // nothing that this person sees
		}
		at, _ := domain.ParseTime(e.CreatedAt)
		body.History = append(body.History, historyEntry{EntryName: e.EntryName, At: at, Fields: strings.Join(fields, ", "),
			Event: slices.Contains(public, e.Type) && at.After(r.Now.Add(-p.Retention))})
	}
}

// hidden returns the positions of entries whose events the session may not see. The page leaves out such
// an entry as a whole, because its time alone would tell of the event.
func (p *Data) hidden(ctx context.Context, r *web.Request, history []replay.ExplainedEntry) (positions []int64, err error) {
	if r.Session.MaySeePay() {
		return nil, nil
	}
	all := make([]int64, len(history))
	for i := range history {
		all[i] = history[i].Position
	}
	err = p.Reader.Beside(ctx, r.Session.WorkspaceID, 0, func(ctx context.Context, pool pg.DB) (err error) {
		positions, err = pg.Collect(ctx, pool, pgx.RowTo[int64], `
			SELECT e.position FROM event_log e WHERE e.workspace_id = $1 AND e.position = ANY ($2) AND `+eventlog.NeedsPay("e"), r.Session.WorkspaceID, all)
		return err
	})
	return positions, err
}

// events reads the newest events that name the row.
func (p *Data) events(ctx context.Context, r *web.Request, id string, body *dataRowBody) {
	var found *eventlog.Found
	err := p.Reader.Beside(ctx, r.Session.WorkspaceID, 0, func(ctx context.Context, pool pg.DB) (err error) {
		found, err = eventlog.NewFeed(pool).Search(ctx, eventlog.Search{
			WorkspaceID: r.Session.WorkspaceID, Text: id, Oldest: r.Now.Add(-p.Retention), NoPay: !body.SeesPay,
		})
		return err
	})
	if err != nil {
		r.Warn("cannot search for the events of a row", err)
		return
	}
	for _, hit := range found.Hits[:min(len(found.Hits), relatedSize)] {
		e, err := parse(hit.JSON)
		if err != nil {
			r.Warn("cannot read an event", err)
			return
		}
		body.History = append(body.History, historyEntry{EntryName: replay.EntryName{EventID: e.ID, Type: e.Type}, At: e.CreatedAt, Event: true})
	}
}
