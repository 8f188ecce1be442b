package readapi_test

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// totalOracle says what the totals of a list have (docs/contract/decisions.md, "Responses": totals).
type totalOracle struct {
	list      string
	separated []string
	sums      []string // in order; of hours and session_count numbers, of all others money
	status    string   // the field that rows show the status in; empty: no group
	day       string   // the field that the month is of
}

func totalOracles() []totalOracle {
	return []totalOracle{
		{
			"invoices", []string{"type", "reversed"},
			[]string{"gross_amount", "credit_applied", "net_due", "delivered_value", "recognized_revenue", "billable_hours", "payout_amount", "margin_amount"},
			"client_billing_status", "period_start",
		},
		{"charges", nil, []string{"amount", "pay_amount"}, "status", "date"},
		{"time-entries", nil, []string{"hours", "session_count", "bill_amount", "pay_amount"}, "status", "work_date"},
		{"payments", []string{"direction"}, []string{"amount"}, "", "confirmed_at"},
	}
}

// total is one row of the oracle.
type total struct {
	key   []any // what rows are sorted by
	shown map[string]any
	sums  map[string]*big.Rat
	count int
}

// expect adds up the rows of a list, given as JSON.
func (o *totalOracle) expect(t testing.TB, rows []string, groups []string, v view) []map[string]any {
	t.Helper()
	var totals []*total
	for _, text := range rows {
		var row map[string]any
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&row); err != nil {
			t.Fatal(err)
		}
		one := o.start(row, groups)
		at := slices.IndexFunc(totals, func(other *total) bool { return slices.Equal(other.key, one.key) })
		if at < 0 {
			at, totals = len(totals), append(totals, one)
		}
		totals[at].add(row, o.sums)
	}
	slices.SortFunc(totals, func(a, b *total) int { return compareKeys(a.key, b.key) })
	list := []map[string]any{}
	for _, one := range totals {
		one.shown["count"] = json.Number(fmt.Sprint(one.count))
		for _, name := range o.sums {
			if name == "margin_amount" && !v.margin || (name == "payout_amount" || name == "pay_amount") && !v.pay {
				continue
			}
			one.shown[name] = shownSum(name, one.sums[name])
		}
		list = append(list, one.shown)
	}
	return list
}

func (o *totalOracle) start(row map[string]any, groups []string) *total {
	one := &total{shown: map[string]any{}, sums: map[string]*big.Rat{}}
	put := func(name string, shown, key any) {
		one.shown[name], one.key = shown, append(one.key, key)
	}
	for _, g := range groups {
		switch g {
		case "month":
			month := row[o.day].(string)[:7]
			put(g, month, month)
		case "status":
			put(g, row[o.status], row[o.status])
		default:
			var id any
			if party, ok := row[g].(map[string]any); ok {
				id = party["id"]
			}
			put(g, row[g], id)
		}
	}
	put("currency", row["currency"], row["currency"])
	for _, name := range o.separated {
		put(name, row[name], row[name])
	}
	return one
}

func (one *total) add(row map[string]any, sums []string) {
	one.count++
	for _, name := range sums {
		if row[name] == nil {
			continue
		}
		n, _ := new(big.Rat).SetString(fmt.Sprint(row[name]))
		if one.sums[name] == nil {
			one.sums[name] = new(big.Rat)
		}
		one.sums[name].Add(one.sums[name], n)
	}
}

func shownSum(name string, sum *big.Rat) any {
	switch {
	case sum == nil:
		return nil
	case strings.Contains(name, "hours"), name == "session_count":
		text := sum.FloatString(4)
		return json.Number(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
	}
	return sum.FloatString(2)
}

// compareKeys sorts texts by bytes, false before true and null last.
func compareKeys(a, b []any) int {
	for i := range a {
		order := 0
		switch x := a[i].(type) {
		case nil:
			if b[i] != nil {
				order = 1
			}
		case string:
			order = -1
			if y, ok := b[i].(string); ok {
				order = strings.Compare(x, y)
			}
		case bool:
			order = cmp.Compare(fmt.Sprint(x), fmt.Sprint(b[i]))
		}
		if order != 0 {
			return order
		}
	}
	return 0
}

// totalQueries draws a query of an endpoint: any of its filters, and groups.
func totalQuery(r *rand.Rand, o *totalOracle, filters map[string][]string, client, contractor string) (filter url.Values, groups []string) {
	filter = url.Values{}
	for name, values := range filters {
		if r.IntN(4) == 0 {
			filter.Set(name, resolve(values[r.IntN(len(values))], client, contractor))
		}
	}
	if filter.Has("date_from") && filter.Has("date_to") && filter.Get("date_from") > filter.Get("date_to") {
		filter.Del("date_to")
	}
	all := []string{"client", "contractor", "month", "status"}
	if o.status == "" {
		all = all[:3]
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return filter, all[:r.IntN(3)]
}

// TestTotalsAreSums compares totals with an independent fold over the rows of the list, in random
// queries. The history has parties without a name, rows without a contractor, several currencies,
// amounts below zero and sums beyond 64 bits.
func TestTotalsAreSums(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 11, s.clock.Now(), 70*24*time.Hour, 600)...)
	var lines []string
	for i, amount := range []string{"999999999999.99", "999999999999.98", "0.01"} {
		lines = append(lines,
			fmt.Sprintf(`{"workspace_id":"acme","type":"invoice.recorded","data":{"invoice_id":"in_big_%d","number":"B","client_id":"nobody","period":"2026-W40","gross_amount":%q,"currency":"JPY","billable_hours":0.0001,"margin_amount":"-999999999999.99","payout_amount":%q}}`, i, amount, amount),
			fmt.Sprintf(`{"workspace_id":"acme","type":"charge.recorded","data":{"charge_id":"ch_big_%d","client_id":"nobody","date":"0001-01-31","category":"x","kind":"y","billed_to_client":%t,"amount":%q,"currency":"CHF","period":"2026-10","pay_amount":%q}}`, i, i == 1, amount, amount),
			fmt.Sprintf(`{"workspace_id":"acme","type":"time_entry.recorded","data":{"time_entry_id":"te_big_%d","work_date":"9999-12-31","client_id":"nobody","contractor_id":"no_one","service":"x","hours":99999999999999.9999,"session_count":9007199254740991,"period":"2026-10","currency":"CHF","bill_amount":%q}}`, i, amount),
			fmt.Sprintf(`{"workspace_id":"acme","type":"credit.topped_up","data":{"credit_id":"big_%d","client_id":"nobody","amount":%q,"currency":"JPY"}}`, i, amount),
		)
	}
	s.append(append(lines, `{"workspace_id":"acme","type":"payout.paid","data":{"payment_id":"po_alone","contractor_id":"no_one","amount":"5.00","currency":"CHF","source":"bank","confirmed_at":"2026-10-01T00:30:00+02:00"}}`)...)
	s.project("acme", 0)
	client, contractor := s.someParties("acme")
	draws := 150
	if testkit.Full() {
		draws = 10_000
	}
	r := rand.New(rand.NewPCG(1, 2))
	keys := map[view]string{}
	for v, permissions := range views() {
		keys[v] = s.keyLimited("acme", 1_000_000, permissions...)
	}
	for range draws {
		o := totalOracles()[r.IntN(4)]
		filters := lists()["/v1/"+o.list]
		filter, groups := totalQuery(r, &o, filters, client, contractor)
		query := url.Values{}
		for name, values := range filter {
			query[name] = values
		}
		if len(groups) > 0 {
			query.Set("group_by", strings.Join(groups, ","))
		}
		path := "/v1/totals/" + o.list + "?" + query.Encode()
		for v, key := range keys {
			want := o.expect(t, texts(s.expected("acme", "/v1/"+o.list, filter, v)), groups, v)
			answer := s.get(path, key)
			got := parseTotals(t, answer)
			if !equalJSON(t, got.Data, want) || got.LogPosition != s.states["acme"].Position {
				t.Fatalf("%s with %+v at %d\n got %s\nwant %s", path, v, got.LogPosition, answer.body, testkit.Must(json.Marshal(want))(t))
			}
		}
	}
}

type totalsAnswer struct {
	Data        []map[string]any `json:"data"`
	LogPosition int64            `json:"log_position"`
}

func parseTotals(t testing.TB, r reply) (a totalsAnswer) {
	t.Helper()
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	decoder := json.NewDecoder(strings.NewReader(string(r.body)))
	decoder.UseNumber()
	if err := decoder.Decode(&a); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	return a
}

func equalJSON(t testing.TB, a, b any) bool {
	t.Helper()
	return bytes.Equal(testkit.Must(json.Marshal(a))(t), testkit.Must(json.Marshal(b))(t))
}

// TestTotalsForms covers the order of members, CSV, conditional requests and what is refused.
func TestTotalsForms(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	if got := s.get("/v1/totals/invoices", key); string(got.body) != `{"data":[],"log_position":0}` {
		t.Fatalf("of an empty log: %d %s", got.status, got.body)
	}
	s.append(
		`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"c2","name":"Zürich \"West\", \\AG"}}`,
		`{"workspace_id":"acme","type":"invoice.recorded","data":{"invoice_id":"in_1","number":"1","client_id":"c2","period":"2026-10","gross_amount":"10.00","currency":"EUR","margin_amount":"-3.50","billable_hours":7.50}}`,
		`{"workspace_id":"acme","type":"invoice.recorded","data":{"invoice_id":"in_2","number":"2","client_id":"c1","contractor_id":"k1","period":"2026-W44","gross_amount":"0.05","currency":"EUR"}}`,
	)
	s.project("acme", 0)
	first := s.get("/v1/totals/invoices?group_by=contractor,client&date_from=2026-10-31&date_to=2026-11-01", key)
	want := `{"data":[` +
		`{"contractor":{"id":"k1","name":null},"client":{"id":"c1","name":null},"currency":"EUR","type":"invoice","reversed":false,"count":1,` +
		`"gross_amount":"0.05","credit_applied":"0.00","net_due":"0.05","delivered_value":null,"recognized_revenue":null,"billable_hours":null,"payout_amount":null,"margin_amount":null},` +
		`{"contractor":null,"client":{"id":"c2","name":"Zürich \"West\", \\AG"},"currency":"EUR","type":"invoice","reversed":false,"count":1,` +
		`"gross_amount":"10.00","credit_applied":"0.00","net_due":"10.00","delivered_value":null,"recognized_revenue":null,"billable_hours":7.5,"payout_amount":null,"margin_amount":"-3.50"}` +
		`],"log_position":3}`
	if string(first.body) != want || first.header.Get("Log-Position") != "3" {
		t.Fatalf(" got %s\nwant %s", first.body, want)
	}
	if again := s.get("/v1/totals/invoices?group_by=contractor,client&date_from=2026-10-31&date_to=2026-11-01", key, "If-None-Match", first.header.Get("ETag")); again.status != http.StatusNotModified {
		t.Errorf("unchanged: %d", again.status)
	}
	asCSV := s.get("/v1/totals/invoices?group_by=client", key, "Accept", "text/csv")
	rows := testkit.Must(csv.NewReader(strings.NewReader(string(asCSV.body))).ReadAll())(t)
	wantRows := [][]string{
		{"client.id", "client.name", "currency", "type", "reversed", "count", "gross_amount", "credit_applied", "net_due", "delivered_value", "recognized_revenue", "billable_hours", "payout_amount", "margin_amount"},
		{"c1", "", "EUR", "invoice", "false", "1", "0.05", "0.00", "0.05", "", "", "", "", ""},
		{"c2", "Zürich \"West\", \\AG", "EUR", "invoice", "false", "1", "10.00", "0.00", "10.00", "", "", "7.5", "", "-3.50"},
	}
	if !slices.EqualFunc(rows, wantRows, slices.Equal) || !strings.HasPrefix(asCSV.header.Get("Content-Type"), "text/csv") || asCSV.header.Get("ETag") == "" {
		t.Errorf("%v: %q", asCSV.header, rows)
	}
	if other := s.get("/v1/totals/invoices", key, "Accept", "application/x-ndjson"); other.header.Get("Content-Type") != "application/json" {
		t.Errorf("another form: %v", other.header)
	}
	for path, field := range map[string]string{
		"invoices?group_by=": "group_by", "invoices?group_by=client,client": "group_by", "invoices?group_by=client,month,status": "group_by",
		"invoices?group_by=currency": "group_by", "payments?group_by=status": "group_by", "charges?status=sent": "status",
		"payments?contractor_id=k1": "contractor_id", "invoices?limit=5": "limit", "invoices?include=removed": "include", "invoices?cursor=x": "cursor",
		"time-entries?open=true": "open", "invoices?open=yes": "open", "invoices?date_from=2026-13-01": "date_from", "invoices?updated_since=2026-10-02T09:15:00Z": "updated_since",
	} {
		r := s.get("/v1/totals/"+path, key)
		if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), `"field":"`+field+`"`) || !strings.Contains(string(r.body), `"code":"invalid_parameter"`) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	both := s.get("/v1/totals/invoices?date_from=2026-10-02&date_to=2026-10-01", key)
	if both.status != http.StatusBadRequest || !strings.Contains(string(both.body), `"field":"date_from"`) || !strings.Contains(string(both.body), `"field":"date_to"`) {
		t.Errorf("%d %s", both.status, both.body)
	}
	for _, r := range route.Table() {
		if r.Kind != route.Totals {
			continue
		}
		if refused := s.get(r.Path, s.key("acme", without(r.Permission)...)); refused.status != http.StatusForbidden {
			t.Errorf("%s without %s: %d", r.Path, r.Permission, refused.status)
		}
	}
}

// TestTotalsWithTooManyGroups: an answer is bounded.
func TestTotalsWithTooManyGroups(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	testkit.AsOwner(t, s.pool, `INSERT INTO charge (workspace_id, id, position, billed, client_id, period, base, pay, status, day, currency, amount)
		SELECT 'acme', 'ch_' || n, n, true, 'cl_' || n, '2026-10', '{"id":1', '', 'sent', '2026-10-01', 'EUR', n FROM generate_series(1, 10001) n`)
	key := s.key("acme", allPermissions()...)
	refused := s.get("/v1/totals/charges?group_by=client", key)
	if refused.status != http.StatusBadRequest || !strings.Contains(string(refused.body), `"field":"group_by"`) || !strings.Contains(string(refused.body), "narrower filter") {
		t.Errorf("%d %.300s", refused.status, refused.body)
	}
	testkit.AsOwner(t, s.pool, `DELETE FROM charge WHERE id = 'ch_10001'`)
	if got := parseTotals(t, s.get("/v1/totals/charges?group_by=client,month", key)); len(got.Data) != route.MaxTotals {
		t.Errorf("%d rows", len(got.Data))
	}
	if got := parseTotals(t, s.get("/v1/totals/charges", key)); fmt.Sprint(got.Data[0]["amount"]) != "500050.00" {
		t.Errorf("%v", got.Data)
	}
}
