package readapi_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// The forms of whole lists.
const (
	ndjson  = answer.TypeNDJSON
	csvForm = answer.TypeCSV
)

// rowLists are the paths of the lists that are answered whole.
func rowLists() map[string]map[string][]string {
	all := lists()
	delete(all, "/v1/events")
	return all
}

// everything returns the query that also shows the rows that have left a list, if any can leave it.
func everything(path string) string {
	if takes(path, "include") {
		return "include=removed"
	}
	return ""
}

// whole reads a whole list in NDJSON, or fails the test.
func (s *stand) whole(path, key string, query url.Values) (rows []string, cursor string) {
	s.t.Helper()
	target := path + "?" + query.Encode()
	r := s.get(target, key, "Accept", ndjson)
	if r.status != http.StatusOK || r.header.Get("Content-Type") != ndjson {
		s.t.Fatalf("GET %s as NDJSON: %d %s %s", target, r.status, r.header.Get("Content-Type"), r.body)
	}
	rows, cursor, whole := parseNDJSON(r.body)
	if !whole || cursor != r.header.Get("Next-Cursor") {
		s.t.Fatalf("GET %s as NDJSON: whole %v, cursor %s in the header and %s at the end", target, whole, r.header.Get("Next-Cursor"), cursor)
	}
	return rows, cursor
}

// parseNDJSON reads a whole list; whole is false if its last line is missing.
func parseNDJSON(body []byte) (rows []string, cursor string, whole bool) {
	lines := strings.Split(string(body), "\n")
	if len(lines) < 2 || lines[len(lines)-1] != "" {
		return nil, "", false
	}
	var end struct {
		HasMore    *bool   `json:"has_more"`
		NextCursor *string `json:"next_cursor"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-2]), &end); err != nil || end.HasMore == nil || *end.HasMore || end.NextCursor == nil {
		return nil, "", false
	}
	return lines[:len(lines)-2], *end.NextCursor, true
}

// wholeCSV reads a whole list in CSV, or fails the test.
func (s *stand) wholeCSV(path, key string, query url.Values) (table [][]string, cursor string) {
	s.t.Helper()
	target := path + "?" + query.Encode()
	r := s.get(target, key, "Accept", csvForm)
	if r.status != http.StatusOK || r.header.Get("Content-Type") != "text/csv; charset=utf-8; header=present" {
		s.t.Fatalf("GET %s as CSV: %d %s %s", target, r.status, r.header.Get("Content-Type"), r.body)
	}
	return testkit.Must(csv.NewReader(bytes.NewReader(r.body)).ReadAll())(s.t), r.header.Get("Next-Cursor")
}

// cellsOf are the cells of a row of JSON, by the names of their columns: written again, in a
// way that is not the program's.
func cellsOf(t testing.TB, row string) map[string]string {
	t.Helper()
	cells := map[string]string{}
	var add func(prefix string, raw json.RawMessage)
	add = func(prefix string, raw json.RawMessage) {
		switch raw[0] {
		case '{':
			var members map[string]json.RawMessage
			if err := json.Unmarshal(raw, &members); err != nil {
				t.Fatal(err)
			}
			for name, value := range members {
				add(strings.TrimPrefix(prefix+"."+name, "."), value)
			}
		case '"':
			var text string
			if err := json.Unmarshal(raw, &text); err != nil {
				t.Fatal(err)
			}
			cells[prefix] = text
		case 'n':
		default:
			cells[prefix] = string(raw)
		}
	}
	add("", json.RawMessage(row))
	return cells
}

// sameRows compares a table with rows of JSON.
func sameRows(t testing.TB, what string, table [][]string, rows []string) {
	t.Helper()
	if len(table) != len(rows)+1 {
		t.Errorf("%s: %d rows of CSV, want %d", what, len(table)-1, len(rows))
		return
	}
	for i, row := range rows {
		want := cellsOf(t, row)
		for j, name := range table[0] {
			if table[i+1][j] != want[name] {
				t.Errorf("%s: row %d, %s is %q, want %q", what, i, name, table[i+1][j], want[name])
			}
			delete(want, name)
		}
		if len(want) > 0 {
			t.Errorf("%s: row %d: there are no columns for %v", what, i, want)
		}
	}
}

// TestAWholeListIsItsPages: each list in each form is what its pages are together, with
// every filter, for every permission set, and ends with the cursor of the last page.
func TestAWholeListIsItsPages(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	now := s.clock.Now()
	s.append(history(t, "acme", 3, now, 70*24*time.Hour, 700)...)
	s.append(
		`{"workspace_id":"acme","type":"invoice.recorded","data":{"invoice_id":"in_draft","number":"D-1","draft":true,"client_id":"c1","period":"2026-10","gross_amount":"1.00","currency":"EUR"}}`,
		`{"workspace_id":"acme","type":"charge.created","data":{"charge_id":"ch_hidden","client_id":"c1","date":"2026-10-01","category":"=x, \"y\"\nz","kind":"y","billed_to_client":false,"amount":"1.00","currency":"EUR","period":"2026-10"}}`,
		`{"workspace_id":"acme","type":"charge.created","data":{"charge_id":"ch_gone","client_id":"c1","date":"2026-10-01","category":"x","kind":"y","amount":"1.00","currency":"EUR","period":"2026-10"}}`,
		`{"workspace_id":"acme","type":"charge.deleted","data":{"charge_id":"ch_gone"}}`,
		`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"c1","name":"Renamed","contacts":[{"email":"a,b@example.com"}]}}`,
	)
	s.append(history(t, "other", 4, now, 70*24*time.Hour, 100)...)
	s.project("acme", 0)
	s.project("other", 0)
	client, contractor := s.someParties("acme")
	for v, permissions := range views() {
		key := s.key("acme", permissions...)
		for path, filters := range rowLists() {
			queries := []url.Values{{}}
			if takes(path, "updated_since") {
				queries = append(queries, url.Values{"updated_since": {"2030-01-01T00:00:00Z"}}, url.Values{"updated_since": {now.Add(-240 * time.Hour).Format(time.RFC3339)}})
			}
			for name, values := range filters {
				for _, value := range values {
					queries = append(queries, url.Values{name: {resolve(value, client, contractor)}})
				}
			}
			queries = append(queries, pairs(filters, client, contractor)...)
			for _, q := range slices.Clone(queries) {
				if !takes(path, "include") {
					break
				}
				q = maps.Clone(q)
				q.Set("include", "removed")
				queries = append(queries, q)
			}
			for _, q := range queries {
				what := fmt.Sprintf("%s?%s, %+v", path, q.Encode(), v)
				want, last := s.walk(path, key, q)
				got, cursor := s.whole(path, key, q)
				if !slices.Equal(got, want) || cursor != last {
					t.Errorf("%s: %d rows, the pages have %d; the same cursor at the end: %v", what, len(got), len(want), cursor == last)
				}
				if !q.Has("updated_since") && !slices.Equal(got, texts(s.expected("acme", path, q, v))) {
					t.Errorf("%s: the rows are not those of the fold", what)
				}
				table, cursor := s.wholeCSV(path, key, q)
				sameRows(t, what, table, want)
				if cursor != last || slices.Contains(table[0], "removed") != q.Has("include") {
					t.Errorf("%s: columns %q; the same cursor: %v", what, table[0], cursor == last)
				}
			}
		}
	}
}

// TestAWholeListGoesOn: from the cursor of a page or of another whole list, in either form,
// and from that of a whole list in pages.
func TestAWholeListGoesOn(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	lines := history(t, "acme", 5, s.clock.Now(), 30*24*time.Hour, 500)
	s.append(lines[:400]...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	type begun struct {
		page page
		end  string
	}
	lists := map[string]begun{}
	for path := range rowLists() {
		first := s.page(path, key)
		all, end := s.whole(path, key, nil)
		rest, cursor := s.whole(path, key, url.Values{"cursor": {*first.NextCursor}})
		if want := all[len(first.Data):]; !slices.Equal(rest, want) || cursor != end {
			t.Errorf("%s after a page: %d rows, want %d; the same cursor: %v", path, len(rest), len(want), cursor == end)
		}
		lists[path] = begun{first, end}
	}
	s.append(lines[400:]...)
	s.project("acme", 0)
	for path, l := range lists {
		q := url.Values{"cursor": {l.end}}
		pages, last := s.walk(path, key, q)
		rows, cursor := s.whole(path, key, q)
		table, csvCursor := s.wholeCSV(path, key, q)
		if len(pages) == 0 && path == "/v1/time-entries" || !slices.Equal(rows, pages) || cursor != last || csvCursor != last {
			t.Errorf("%s from the end: %d rows, the pages have %d", path, len(rows), len(pages))
		}
		sameRows(t, path, table, pages)
		if rows, _ = s.whole(path, key, url.Values{"cursor": {last}}); len(rows) != 0 {
			t.Errorf("%s at the end: %q", path, rows)
		}
		if r := s.get(path+"?status=sent&cursor="+l.end, key, "Accept", ndjson); r.status != http.StatusBadRequest {
			t.Errorf("%s with another parameter: %d", path, r.status)
		}
	}
}

// TestFormsOfALimit: a whole list takes no limit, and a page's cursor with one is not its.
func TestAWholeListHasNoLimit(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 8, s.clock.Now(), 24*time.Hour, 60)...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	for path := range rowLists() {
		cursor := *s.page(path+"?limit=1", key).NextCursor
		for _, accept := range []string{ndjson, csvForm} {
			for query, field := range map[string]string{"limit=10": "limit", "limit=0": "limit", "cursor=" + cursor: "cursor", "status=nonsense&x=1": "x"} {
				r := s.get(path+"?"+query, key, "Accept", accept)
				checkHeaders(t, path, r)
				if r.status != http.StatusBadRequest || !bytes.Contains(r.body, []byte(`"field":"`+field+`"`)) {
					t.Errorf("%s?%s as %s: %d %s", path, query, accept, r.status, r.body)
				}
			}
		}
	}
	// However wrong the limit is, the error says where limits belong, and none is proposed.
	for _, query := range []string{"?limit=10", "?limit=x", "?limit=", "?limit=1&limit=2"} {
		r := s.get("/v1/invoices.csv"+query, key)
		if !bytes.Contains(r.body, []byte("leave it out, or ask /v1/invoices with Accept: application/json for pages")) || bytes.Contains(r.body, []byte("from 1 to 100")) {
			t.Errorf("invoices.csv%s: %s", query, r.body)
		}
	}
	if r := s.get("/v1/invoices.ndjson?x=1", key); !bytes.Contains(r.body, []byte("which has cursor, updated_since, ")) {
		t.Errorf("an unknown parameter: %s", r.body)
	}
	if r := s.get("/v1/invoices.ndjson?cursor="+*s.page("/v1/invoices?limit=1", key).NextCursor, key); !bytes.Contains(r.body, []byte("it is of pages with a limit")) {
		t.Errorf("a cursor of pages: %s", r.body)
	}
	if r := s.get("/v1/payments", s.key("acme", access.InvoicesRead), "Accept", csvForm); r.status != http.StatusForbidden {
		t.Errorf("without the permission: %d", r.status)
	}
}

// TestAcceptChoosesTheForm: a whole list comes to callers that name it.
func TestAcceptChoosesTheForm(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 8, s.clock.Now(), 24*time.Hour, 60)...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	for accept, want := range map[string]string{
		"": "json", "*/*": "json", "application/json": "json", "application/*": "json", "text/*": "json", "text/html, application/xhtml+xml, */*;q=0.8": "json",
		ndjson: "ndjson", csvForm: "csv", "TEXT/CSV": "csv", "text/csv; charset=UTF-8; header=present": "csv", `text/csv;charset="utf-8"`: "csv",
		"text/csv, */*": "csv", "text/csv;q=0.5, */*;q=0.4": "csv", "text/csv;q=0.5, */*": "json", "text/csv, application/json": "json",
		"text/csv;q=0.9, application/x-ndjson": "ndjson", "text/csv, application/x-ndjson;q=0.9": "csv", "application/json;q=0.1, text/csv;q=0.2": "csv",
		"text/csv;q=0": "json", "text/csv;q=0, */*": "json", "text/csv;q=x": "json", "text/csv;header=absent": "json", "text/csv;charset=latin1": "json",
		"application/x-ndjson;profile=x": "json", "text/html": "json", "application/json;q=0, text/csv": "csv", `text/plain;x="a,text/csv"`: "json", ",;, ": "json",
	} {
		r := s.get("/v1/clients", key, "Accept", accept)
		kind, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
		if kind = kind[strings.LastIndexAny(kind, "/-")+1:]; r.status != http.StatusOK || kind != want || r.header.Get("Vary") != "Accept, Accept-Encoding" {
			t.Errorf("Accept: %s gives %d %s, want %s; Vary: %s", accept, r.status, kind, want, r.header.Get("Vary"))
		}
	}
	if r := s.get("/v1/clients", key, "Accept", "text/html", "Accept", csvForm); r.header.Get("Trailer") != "" || !strings.HasPrefix(r.header.Get("Content-Type"), csvForm) {
		t.Errorf("two headers give %v", r.header)
	}
	for _, path := range []string{"/v1/events", "/v1/clients/c1/credit", "/v1/me", "/v1/clients/c1"} {
		if r := s.get(path, key, "Accept", csvForm); strings.HasPrefix(r.header.Get("Content-Type"), csvForm) || r.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s as CSV: %v", path, r.header)
		}
	}
}
