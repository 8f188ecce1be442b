package readapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// endpoints are all paths with their permission, and a resource that exists.
func endpoints() map[string]access.Permission {
	return map[string]access.Permission{
		"/v1/invoices": access.InvoicesRead, "/v1/invoices/in_1": access.InvoicesRead,
		"/v1/charges": access.InvoicesRead, "/v1/charges/ch_1": access.InvoicesRead,
		"/v1/payments": access.PaymentsRead, "/v1/payments/pm_1": access.PaymentsRead,
		"/v1/time-entries": access.TimeEntriesRead, "/v1/time-entries/te_1": access.TimeEntriesRead,
		"/v1/contractors": access.ContractorsRead, "/v1/contractors/co_1": access.ContractorsRead,
		"/v1/clients": access.ClientsRead, "/v1/clients/cl_1": access.ClientsRead, "/v1/clients/cl_1/credit": access.CreditsRead,
		"/v1/credits": access.CreditsRead, "/v1/credit-history": access.CreditsRead,
		"/v1/totals/invoices": access.InvoicesRead, "/v1/totals/charges": access.InvoicesRead,
		"/v1/totals/time-entries": access.TimeEntriesRead, "/v1/totals/payments": access.PaymentsRead,
		"/v1/events": access.EventsRead, "/v1/events/ev_1": access.EventsRead,
		"/v1/me": "", "/v1/openapi.json": "",
	}
}

// treeEndpoints are those of the tree over the events, which are not in JSON, with the
// permission that each needs.
func treeEndpoints() map[string]access.Permission {
	return map[string]access.Permission{
		"/v1/events/checkpoint": access.EventsRead, "/v1/events/tile/0/000.p/1": access.EventsRead, "/v1/events/tile/entries/000.p/1": access.EventsRead,
	}
}

// allEndpoints are both together.
func allEndpoints() map[string]access.Permission {
	all := endpoints()
	maps.Copy(all, treeEndpoints())
	return all
}

// objects are entries that make everything that endpoints asks for.
func objects(w string) []string {
	lines := []string{
		`"type":"client.recorded","data":{"client_id":"cl_1","name":"Client"}`,
		`"type":"contractor.recorded","data":{"contractor_id":"co_1","name":"Contractor"}`,
		`"type":"invoice.recorded","data":{"invoice_id":"in_1","number":"I-1","client_id":"cl_1","contractor_id":"co_1","period":"2026-10","gross_amount":"10.00","currency":"EUR"}`,
		`"id":"ev_1","type":"invoice.issued","data":{"invoice_id":"in_1","invoice_number":"I-1","amount":"10.00"}`,
		`"type":"charge.created","data":{"charge_id":"ch_1","client_id":"cl_1","date":"2026-10-01","category":"a","kind":"b","amount":"1.00","currency":"EUR","period":"2026-10"}`,
		`"type":"time_entry.recorded","data":{"time_entry_id":"te_1","work_date":"2026-10-01","client_id":"cl_1","contractor_id":"co_1","service":"a","hours":1,"period":"2026-10","currency":"EUR"}`,
		`"type":"payment.confirmed","data":{"payment_id":"pm_1","client_id":"cl_1","amount":"10.00","currency":"EUR","source":"a"}`,
	}
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"workspace_id":%q,%s}`, w, lines[i])
	}
	return lines
}

// TestChecksRunInOrder makes requests with no fault, one, and every pair of faults, to
// every path with every method: the one that is checked first is answered. The landing makes
// the pairs on three paths: a list, an object, and one that needs no permission.
func TestChecksRunInOrder(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	s.buildTrees("acme")
	s.keepKeys(t)
	keys := s.faultyKeys(t)
	faults := faultsInOrder(keys)
	made := 0
	for path, permission := range allEndpoints() {
		pairs := testkit.Full() || slices.Contains([]string{"/v1/events", "/v1/invoices/in_1", "/v1/me"}, path)
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
			for i := range faults {
				for j := i; j < len(faults) && (pairs || j == i); j++ {
					made++
					// Always another address, so that refused keys do not add up.
					a := &attempt{
						method: method, path: path, permission: permission, key: keys.good,
						address: fmt.Sprintf("198.%d.%d.%d", 18+made/16/250/250, made/16/250%250, made/16%250),
					}
					applied := faults[i : i+1]
					if j > i {
						applied = []fault{faults[i], faults[j]}
					}
					checkAttempt(t, s, a, applied)
				}
			}
			checkAttempt(t, s, &attempt{method: method, path: path, permission: permission, key: keys.good, address: "192.0.2.1"}, nil)
		}
	}
}

// TestEndpointsAreAllThereAre: endpoints is the whole route table, with its
// permissions.
func TestEndpointsAreAllThereAre(t *testing.T) {
	t.Parallel()
	routes := map[string]access.Permission{}
	for _, r := range route.Table() {
		routes[r.Path] = r.Permission
	}
	c := testkit.Must(theContract())(t)
	for path, permission := range allEndpoints() {
		found, _ := c.routeOf(http.MethodGet, &url.URL{Path: path})
		if found == nil {
			t.Fatalf("%s is not described", path)
		}
		if routes[found.Path] != permission {
			t.Errorf("%s needs %q, not %q", path, routes[found.Path], permission)
		}
		delete(routes, found.Path)
	}
	for pattern := range routes {
		t.Errorf("%s is left out", pattern)
	}
}

// checkAttempt puts faults into a request, and checks that the first one that applies is
// answered.
func checkAttempt(t *testing.T, s *stand, a *attempt, made []fault) {
	t.Helper()
	names := make([]string, len(made))
	for i := range made {
		made[i].make(a)
		names[i] = made[i].name
	}
	want := fault{status: 200}
	if a.method == http.MethodOptions {
		want.status = 204
	}
	if i := slices.IndexFunc(made, func(f fault) bool { return f.lifted == nil || !f.lifted(a) }); i >= 0 {
		want = made[i]
	}
	target := a.path
	if len(a.query) > 0 {
		target += "?" + strings.Join(a.query, "&")
	}
	r := s.do(a.method, target, a.key, append(a.headers, "X-Forwarded-For", a.address)...)
	if r.status != want.status {
		t.Errorf("%s %s with %v: %d, want %d: %s", a.method, target, names, r.status, want.status, r.body)
		return
	}
	checkHeaders(t, a.method+" "+target, r)
	if want.status < 300 || a.method == http.MethodHead {
		return
	}
	var p struct {
		Type, Title, Detail string
		Status              int
		RequestID           string `json:"request_id"`
	}
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	if want.status == 403 {
		want.detail = "This key lacks the permission " + string(a.permission) + "."
	}
	if !strings.Contains(p.Detail, want.detail) || p.Status != want.status || p.Title == "" ||
		p.Type != fmt.Sprintf("%s/errors/%d", docsURL, want.status) || p.RequestID != r.header.Get("X-Request-Id") {
		t.Errorf("%s %s with %v: %s, want %q", a.method, target, names, r.body, want.detail)
	}
}

// checkHeaders looks for the headers that every answer has.
func checkHeaders(t testing.TB, what string, r reply) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Request-Id": "*", "Ratelimit-Limit": "*", "Ratelimit-Remaining": "*", "Ratelimit-Reset": "*",
		"Ratelimit": "*", "Ratelimit-Policy": "*",
	} {
		got := r.header.Values(name)
		if len(got) != 1 || got[0] == "" || want != "*" && got[0] != want {
			t.Errorf("%s: header %s is %q", what, name, got)
		}
	}
	cache := "private, no-store"
	if r.header.Get("Etag") != "" {
		cache = "private, no-cache"
	}
	if r.status < 400 && strings.Contains(what, "/v1/events/tile/0/") && cache != "private, no-store" {
		cache = "private, max-age=31536000, immutable"
	}
	if got := r.header.Get("Cache-Control"); got != cache {
		t.Errorf("%s: Cache-Control is %q beside ETag %q", what, got, r.header.Get("Etag"))
	}
	wantType := "application/problem+json"
	if r.status < 300 {
		wantType = "application/json"
	}
	if r.header.Get("Content-Security-Policy") != "" { // a page for people
		wantType = "text/html; charset=utf-8"
	}
	switch what {
	case "/docs/keys.txt", "/llms.txt", "/robots.txt":
		wantType = "text/plain; charset=utf-8"
	}
	if strings.HasPrefix(what, "/docs") && strings.HasSuffix(what, ".md") {
		wantType = "text/markdown; charset=utf-8"
	}
	switch {
	case r.status >= 400:
	case strings.Contains(what, "/v1/events/checkpoint"):
		wantType = "text/plain; charset=utf-8"
	case strings.Contains(what, "/v1/events/tile/"):
		wantType = "application/octet-stream"
	}
	if r.status == 204 || r.status == 302 || r.status == 304 {
		wantType = ""
	}
	if got := r.header.Get("Content-Type"); got != wantType {
		t.Errorf("%s: Content-Type is %q", what, got)
	}
	if (r.status == 401) != (r.header.Get("Www-Authenticate") == "Bearer") {
		t.Errorf("%s: %d with WWW-Authenticate %q", what, r.status, r.header.Get("Www-Authenticate"))
	}
	if (r.status == 429 || r.status == 503) != (r.header.Get("Retry-After") != "") {
		t.Errorf("%s: %d with Retry-After %q", what, r.status, r.header.Get("Retry-After"))
	}
	if (r.status == 405 || r.status == 204) != (r.header.Get("Allow") == "GET, HEAD, OPTIONS") {
		t.Errorf("%s: %d with Allow %q", what, r.status, r.header.Get("Allow"))
	}
}

// TestAddressBehindProxies: which proxies are trusted decides whose address counts.
func TestAddressBehindProxies(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")}
	})
	s.workspace("acme")
	left := func(forwarded ...string) string {
		headers := []string{"Authorization", "Bearer nothing"}
		for _, f := range forwarded {
			headers = append(headers, "X-Forwarded-For", f)
		}
		return s.get("/v1/me", "", headers...).header.Get("Ratelimit-Remaining")
	}
	for _, step := range []struct {
		forwarded []string
		want      string
	}{
		{[]string{"203.0.113.1"}, "19"},
		{[]string{"203.0.113.2"}, "19"},
		{[]string{"203.0.113.1, 10.1.2.3"}, "18"},                 // through two proxies
		{[]string{"198.51.100.7, 203.0.113.1"}, "17"},             // what is to the left of it proves nothing
		{[]string{"198.51.100.8", "203.0.113.1 ,10.1.2.3"}, "16"}, // in two headers
		{[]string{"203.0.113.1:4711"}, "15"},
		{[]string{"::ffff:203.0.113.1"}, "14"},
		{[]string{"2001:db8::1"}, "19"},
		{[]string{"[2001:db8::ffff]:99"}, "18"}, // the same network of 64 bits
		{[]string{"2001:db8:0:1::1"}, "19"},
		{nil, "19"},
		{[]string{"nonsense"}, "18"},                 // counts for the proxy
		{[]string{"203.0.113.1, nonsense"}, "17"},    // so does this
		{[]string{"203.0.113.1, x, 10.1.2.3"}, "19"}, // the last trusted one
	} {
		if got := left(step.forwarded...); got != step.want {
			t.Errorf("%q: %s left, want %s", step.forwarded, got, step.want)
		}
	}
	distrustful := newStand(t, func(c *readapi.Config) { c.TrustedProxies = nil })
	distrustful.workspace("acme")
	for i := range 3 {
		got := distrustful.get("/v1/me", "", "Authorization", "Bearer nothing", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i)).header.Get("Ratelimit-Remaining")
		if want := fmt.Sprint(19 - i); got != want {
			t.Errorf("without trusted proxies: %s left, want %s", got, want)
		}
	}
}
