package console

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// record writes requests into the request log as the API does.
func (s *bundle) record(workspace, keyID string, records ...requestlog.Record) {
	s.t.Helper()
	store := testkit.Must(requestlog.New(requestlog.Config{Pool: s.pool, Clock: s.clock.Now, Logger: testkit.Discard()}))(s.t)
	for i := range records {
		r := &records[i]
		r.WorkspaceID, r.KeyID, r.KeyPrefix = workspace, keyID, "service_AbCdEfGh"
		if r.At.IsZero() {
			r.At = s.clock.Now().Add(-time.Duration(i+1) * time.Second)
		}
		if r.Method == "" {
			r.Method = http.MethodGet
		}
		store.Record(r)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	if err := store.Run(ctx); err != nil || store.Dropped() > 0 {
		s.t.Fatalf("%d requests were dropped: %v", store.Dropped(), err)
	}
}

// faulty are requests that failed, each in another way; the last is one of a version that
// kept no more than the route.
func faulty() []requestlog.Record {
	return []requestlog.Record{
		{
			RequestID: "req_wrong", Route: "/v1/invoices", Status: 400, Address: netip.MustParseAddr("2001:db8::7"), UserAgent: "Acme-Sync/2.1 <script>",
			Problem: &requestlog.Problem{Title: "The request is wrong", Detail: "2 parameters are wrong; errors says which and why.", Errors: []requestlog.Fault{
				{Field: "limit", Message: "must be a whole number from 1 to 100"}, {Field: "pageSize", Message: "is not a parameter of this endpoint, which has none"},
			}},
		},
		{
			RequestID: "req_lacks", Route: "/v1/clients/{id}", Path: "/v1/clients/cl_1", Status: 403, Address: netip.MustParseAddr("192.0.2.7"),
			Problem: &requestlog.Problem{Title: "The key lacks a permission", Detail: "This key lacks the permission clients:read.", Permission: "clients:read"},
		},
		{RequestID: "req_gone", Path: "/v2/in'voices", Status: 404, Problem: &requestlog.Problem{Title: "Not found", Detail: "There is nothing at this path."}},
		{RequestID: "req_old", Route: "/v1/invoices/{id}", Status: 404},
	}
}

// requestPage is the address of the page of a request.
func (p *person) requestPage(list *reply, target string) string {
	p.t.Helper()
	found := regexp.MustCompile(`<a class="break" href="(/requests/[0-9A-Za-z_-]+)"><span class="code">GET</span> ` + regexp.QuoteMeta(target) + `</a>`).FindStringSubmatch(list.body)
	if found == nil {
		p.t.Fatalf("no request of %s is listed\n%s", target, list.body)
	}
	return found[1]
}

// TestErrorsAreExplained: the page of a request says what the error said, where it came
// from, and how to make it again.
func TestErrorsAreExplained(t *testing.T) {
	t.Parallel()
	s := setup(t)
	key, secret := s.key(acme, "Monthly report", access.InvoicesRead)
	s.record(acme, key, faulty()...)
	p := s.signIn(acme, session.Viewer)
	list := p.get("/requests").has("limit, pageSize", "lacks clients:read")
	wrong := p.get(p.requestPage(list, "/v1/invoices")).status(http.StatusOK)
	wrong.has("The request is wrong", `<code class="break">limit</code>`, "It must be a whole number from 1 to 100.", "pageSize", "2001:db8::7", "Acme-Sync/2.1 &lt;script&gt;", "req_wrong")
	wrong.has("curl -i &#39;https://api.example.com/v1/invoices&#39; -H &#39;Authorization: Bearer &lt;API_KEY&gt;&#39;", "/requests?key="+key)
	wrong.hasNot(secret, secret[17:])
	lacks := p.get(p.requestPage(list, "/v1/clients/cl_1"))
	lacks.has("This key lacks the permission clients:read.", "Create a key that has <code>clients:read</code>", "/v1/clients/{id}", "192.0.2.7", "/v1/clients/cl_1&#39; -H")
	p.get(p.requestPage(list, "/v2/in&#39;voices")).has("There is nothing at this path.", "https://api.example.com/v2/in%27voices&#39; -H")
	p.get(p.requestPage(list, "/v1/invoices/{id}")).has("req_old").hasNot("curl", "From address", "User agent")
}

// TestRequestsOfPayAreHidden: a viewer learns that a key with pay:read or margin:read was used, and not
// what it read: no path, no number of rows, no error, and no answer to a guess.
func TestRequestsOfPayAreHidden(t *testing.T) {
	t.Parallel()
	s := setup(t)
	report, _ := s.key(acme, "Monthly report", access.PaymentsRead)
	s.record(acme, report, requestlog.Record{RequestID: "req_open", Route: "/v1/payments/{id}", Path: "/v1/payments/pm_in", Status: 200, Rows: 1, Bytes: 4321})
	for i, permission := range []access.Permission{access.PayRead, access.MarginRead} {
		permissions := []access.Permission{access.PaymentsRead, access.InvoicesRead, access.PayRead, permission}
		key, _ := s.key(acme, fmt.Sprint("Payroll export ", i), permissions...)
		s.record(acme, key,
			requestlog.Record{RequestID: fmt.Sprint("req_pay", i), Route: "/v1/payments/{id}", Path: "/v1/payments/pm_out", Status: 200, Rows: 1, Bytes: 7654},
			requestlog.Record{RequestID: fmt.Sprint("req_gone", i), Route: "/v1/charges/{id}", Path: "/v1/charges/ch_own", Status: 404, Problem: &requestlog.Problem{Title: "Not found", Detail: "There is no charge ch_own."}},
			requestlog.Record{RequestID: fmt.Sprint("req_list", i), Route: "/v1/payments", Status: 200, Rows: 8642, Bytes: 9753})
	}
	s.record(acme, "key_gone", requestlog.Record{RequestID: "req_unknown", Route: "/v1/payments/{id}", Path: "/v1/payments/pm_out", Status: 200, Rows: 1, Bytes: 7654})
	admin, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)
	secrets := []string{"pm_out", "ch_own", "8,642", "7.5 KiB", "9.5 KiB", "There is no charge"}

	list := viewer.get("/requests").has("/v1/payments/{id}", "/v1/charges/{id}", "/v1/payments/pm_in", "Payroll export 0", "404").hasNot(secrets...)
	seen := 0
	for _, page := range regexp.MustCompile(`<a class="break" href="(/requests/[0-9A-Za-z_-]+)">`).FindAllStringSubmatch(list.body, -1) {
		if one := viewer.get(page[1]).status(http.StatusOK).hasNot(secrets...); strings.Contains(one.body, "is for admins") {
			seen++
		}
	}
	if seen != 7 {
		t.Errorf("%d requests are hidden, want 7", seen)
	}
	for _, guess := range []string{"/v1/payments/pm_out", "/v1/charges/ch_own"} {
		viewer.get("/requests?find="+url.QueryEscape(guess)).has("No request matches").hasNot("Payroll export 0</a>", `href="/requests/`)
		admin.get("/requests?find="+url.QueryEscape(guess)).has("Payroll export 0</a>", guess)
	}
	admin.get("/requests").has("/v1/payments/pm_out", "8,642", "/v1/charges/ch_own").hasNot("{id}")
	viewer.get("/requests?find=/v1/payments/pm_in").has("Monthly report</a>")
	if got := viewer.listed(viewer.get("/requests?find=req_pay0")); !slices.Equal(got, []string{"req_pay0"}) {
		t.Errorf("%q", got)
	}
}

// listed are the request ids of a list, by the pages of its requests.
func (p *person) listed(list *reply) (ids []string) {
	p.t.Helper()
	for _, page := range regexp.MustCompile(`<a class="break" href="(/requests/[0-9A-Za-z_-]+)">`).FindAllStringSubmatch(list.body, -1) {
		id := regexp.MustCompile(`<dt>Request ID</dt><dd><span class="id"><code class="break">([^<]+)<`).FindStringSubmatch(p.get(page[1]).status(http.StatusOK).body)
		ids = append(ids, id[1])
	}
	return ids
}

// TestRequestsAreSearched finds requests by id, path, route, status, key and time, and by
// several of them.
func TestRequestsAreSearched(t *testing.T) {
	t.Parallel()
	s := setup(t)
	key, _ := s.key(acme, "Monthly report", access.InvoicesRead)
	other, _ := s.key(acme, "Payroll export", access.InvoicesRead)
	s.record(acme, key, faulty()...)
	week := s.clock.Now().Add(-7 * 24 * time.Hour).Truncate(time.Minute)
	s.record(acme, other,
		requestlog.Record{RequestID: "req_a", Route: "/v1/invoices/{id}", Path: "/v1/invoices/in_1", Status: 200, At: week},
		requestlog.Record{RequestID: "req_b", Route: "/v1/invoices", Status: 304, At: week.Add(time.Minute)},
		requestlog.Record{RequestID: "same", Route: "/v1/invoices/{id}", Path: "/v1/invoices/a%20b", Status: 404, At: week.Add(2 * time.Minute)},
		requestlog.Record{RequestID: "same", Route: "/v1/me", Status: 200, At: week.Add(3 * time.Minute)},
	)
	s.record(beta, "key_beta", requestlog.Record{RequestID: "req_a", Path: "/v1/invoices/in_1", Route: "/v1/invoices/{id}", Status: 200})
	p := s.signIn(acme, session.Viewer)
	iso := func(t time.Time) string { return url.QueryEscape(t.UTC().Format(time.RFC3339)) }
	for query, want := range map[string]string{
		"find=req_a":             "req_a",
		"find=+req_a+":           "req_a",
		"find=same":              "same same",
		"find=same&status=404":   "same",
		"find=nothing":           "",
		"find=/v1/invoices/in_1": "req_a",
		"find=v1/invoices/in_1":  "req_a",
		"find=https://api.example.com/v1/invoices/in_1?limit=3": "req_a",
		"find=/v1/invoices/a+b":                                 "same",
		"find=/v1/invoices/a%2520b":                             "same",
		"find=/v1/invoices":                                     "req_wrong req_b",
		"find=/v1/invoices/{id}":                                "req_old same req_a",
		"find=/v2/in'voices":                                    "req_gone",
		"status=errors":                                         "req_wrong req_lacks req_gone req_old same",
		"status=404":                                            "req_gone req_old same",
		"status=4":                                              "req_wrong req_lacks req_gone req_old same",
		"status=304":                                            "req_b",
		"status=418":                                            "",
		"status=2&key=" + other:                                 "same req_b req_a",
		"status=404&key=" + other:                               "same",
		"key=" + other:                                          "same same req_b req_a",
		"from=" + iso(week) + "&to=" + iso(week.Add(2*time.Minute)):                      "req_b req_a",
		"to=" + week.Add(time.Minute).UTC().Format("2006-01-02T15:04"):                   "req_a",
		"from=" + week.Add(2*time.Minute).UTC().Format("2006-01-02T15:04") + "&status=2": "same",
	} {
		list := p.get("/requests?" + query).status(http.StatusOK)
		if got := strings.Join(p.listed(list), " "); got != want {
			t.Errorf("%s finds %q, want %q", query, got, want)
		}
		if want == "" {
			list.has("No request matches.")
		}
	}
	p.get("/requests?from=yesterday").has("Enter a date and a time.").hasNot("req_wrong", "No request matches")
	p.get("/requests?from=2026-02-02T10:00&to=2026-02-02T10:00").has("The end has to be after the beginning.")
	p.get("/requests?from=2999-01-01").has("The beginning is in the future.")
}

// TestTheChartFollowsTheFilters: bars, legend and table are of what is listed.
func TestTheChartFollowsTheFilters(t *testing.T) {
	t.Parallel()
	s := setup(t)
	key, _ := s.key(acme, "Monthly report", access.InvoicesRead)
	other, _ := s.key(acme, "Payroll export", access.InvoicesRead)
	s.record(acme, key, faulty()...)
	s.record(acme, other, requestlog.Record{RequestID: "req_a", Route: "/v1/invoices/{id}", Path: "/v1/invoices/in_1", Status: 200})
	old := s.clock.Now().Add(-50 * time.Hour)
	s.record(acme, other, requestlog.Record{RequestID: "req_b", Route: "/v1/me", Status: 200, At: old}, requestlog.Record{RequestID: "req_c", Route: "/v1/me", Status: 503, At: old})
	s.refused(acme, key, "rate_limit", s.clock.Now(), 5)
	s.refused(acme, other, "revoked", s.clock.Now(), 7)
	p := s.signIn(acme, session.Viewer)
	around := "from=" + url.QueryEscape(old.Add(-time.Hour).UTC().Format(time.RFC3339)) + "&to=" + url.QueryEscape(old.Add(time.Hour).UTC().Format(time.RFC3339))
	const oneByOne = "counted one by one"
	for query, want := range map[string]string{
		"":                       "Server errors 0, Client errors 4, Refused 12, Succeeded 1",
		"key=" + key:             "Server errors 0, Client errors 4, Refused 5, Succeeded 0",
		"key=" + other:           "Server errors 0, Client errors 0, Refused 7, Succeeded 1",
		"status=4":               "Client errors 4, Refused 12",
		"status=errors":          "Server errors 0, Client errors 4, Refused 12",
		"status=404":             "Client errors 2",
		"status=429":             "Client errors 0, Refused 5",
		"status=2":               "Succeeded 1",
		"status=404&key=" + key:  "Client errors 2",
		"find=/v1/invoices/in_1": "Server errors 0, Client errors 0, Succeeded 1",
		"find=req_lacks":         "Server errors 0, Client errors 1, Succeeded 0",
	} {
		for _, span := range []string{"", "&range=day"} {
			page := p.get("/requests?" + query + span).status(http.StatusOK)
			if got := page.legend(); got != want {
				t.Errorf("%s%s: %q, want %q", query, span, got, want)
			}
			if searched := strings.Contains(query, "find") || strings.Contains(query, "=404") || strings.Contains(query, "=429"); searched != strings.Contains(page.body, oneByOne) {
				t.Errorf("%s%s: the page does not say how it counts", query, span)
			}
		}
	}
	for query, want := range map[string]string{
		around:                   "Server errors 1, Client errors 0, Refused 0, Succeeded 1",
		around + "&status=5":     "Server errors 1",
		around + "&find=/v1/me":  "Server errors 1, Client errors 0, Succeeded 1",
		around + "&key=" + other: "Server errors 1, Client errors 0, Refused 0, Succeeded 1",
		"from=" + url.QueryEscape(old.Add(-time.Hour).UTC().Format(time.RFC3339)): "Server errors 1, Client errors 4, Refused 12, Succeeded 2",
	} {
		if got := p.get("/requests?" + query).status(http.StatusOK).has("In the chosen time").legend(); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	p.get("/requests?key="+key).has(`">Last hour</a>`, `key=`+key+`&amp;status=errors">Errors only</a>`, `<a href="/requests">Show all</a>`)
	p.get("/requests?status=errors&key=" + key).has(`href="/requests?key=` + key + `" aria-current="true">Errors only`)
	page := p.get("/requests?status=4").body
	if strings.Index(page, `<form class="filters"`) > strings.Index(page, `<figure class="chart">`) {
		t.Error("the filters are below the chart")
	}
}

// legend is what a chart counts; empty: it has no requests.
func (a *reply) legend() string {
	var parts []string
	for _, m := range regexp.MustCompile(`</svg>([A-Za-z ]+) <strong>([0-9,]+)</strong>`).FindAllStringSubmatch(a.body, -1) {
		parts = append(parts, m[1]+" "+m[2])
	}
	return strings.Join(parts, ", ")
}

// TestPagesOfRequests goes to the oldest request and back: no request is left out or
// listed twice, also where many came at the same moment.
func TestPagesOfRequests(t *testing.T) {
	t.Parallel()
	s := setup(t)
	key, _ := s.key(acme, "Monthly report", access.InvoicesRead)
	const n, size = 230, 50
	records := make([]requestlog.Record, n)
	for i := range records {
		at := s.clock.Now().Add(-time.Duration(i/60+1) * 9 * time.Hour).Truncate(time.Second)
		records[i] = requestlog.Record{RequestID: fmt.Sprint("r", i), Route: "/v1/me", Status: 200, At: at}
	}
	s.record(acme, key, records...)
	p := s.signIn(acme, session.Viewer)
	link := func(page *reply, name string) string {
		m := regexp.MustCompile(`href="([^"]+)">` + name + `</a>`).FindStringSubmatch(page.body)
		if m == nil {
			return ""
		}
		return html.UnescapeString(m[1])
	}
	rows := func(page *reply) []string {
		return regexp.MustCompile(`<a class="break" href="/requests/[0-9A-Za-z_-]+"`).FindAllString(page.body, -1)
	}
	for _, filter := range []string{"", "?key=" + key, "?find=/v1/me", "?status=200&range=day"} {
		var pages [][]string
		page := p.get("/requests" + filter)
		if link(page, "Newer")+link(page, "Newest") != "" {
			t.Error("the first page has newer ones")
		}
		for {
			pages = append(pages, rows(page))
			older := link(page, "Older")
			if older == "" {
				break
			}
			page = p.get(older).status(http.StatusOK)
		}
		seen := map[string]bool{}
		for _, r := range slices.Concat(pages...) {
			seen[r] = true
		}
		if len(seen) != n || len(slices.Concat(pages...)) != n {
			t.Errorf("%s: %d requests, %d different ones, want %d", filter, len(slices.Concat(pages...)), len(seen), n)
		}
		for i := len(pages) - 2; i >= 0; i-- {
			page = p.get(link(page, "Newer")).status(http.StatusOK)
			if !slices.Equal(rows(page), pages[i]) {
				t.Errorf("%s: page %d is another one on the way back", filter, i)
			}
		}
		if newer := link(page, "Newer"); newer != "" {
			page = p.get(newer)
			if !slices.Equal(rows(page), pages[0]) || link(page, "Newer") != "" {
				t.Errorf("%s: the page before the first one is not the first one", filter)
			}
		}
		if len(pages[0]) != size {
			t.Errorf("%d requests on a page", len(pages[0]))
		}
	}
}

// TestASearchGivesUp: where no index helps, a page says how far it looked, and the next
// one goes on.
func TestASearchGivesUp(t *testing.T) {
	t.Parallel()
	s := setup(t)
	key, _ := s.key(acme, "Monthly report", access.InvoicesRead)
	s.requests(acme, key, 12_000, 10*time.Second)
	s.requestAt(acme, key, s.clock.Now().Add(-20*24*time.Hour))
	p := s.signIn(acme, session.Viewer)
	first := p.get("/requests?find=/v1/me").status(http.StatusOK).has("10,000 requests were searched, back to").hasNot("No request matches", `<td class="mark">`)
	older := regexp.MustCompile(`href="([^"]+)">Older`).FindStringSubmatch(first.body)
	second := p.get(html.UnescapeString(older[1])).has("/v1/me</a>").hasNot("were searched")
	newer := regexp.MustCompile(`href="([^"]+)">Newer`).FindStringSubmatch(second.body)
	p.get(html.UnescapeString(newer[1])).has("10,000 requests were searched, up to")
	p.get("/requests?find=req-11000").has("/v1/invoices").hasNot("were searched")
	p.get("/requests?find=/v1/invoices/none").has("No request matches")
}

// TestTimeBeforeTheLog: a time that ended before the oldest request that is kept has none.
func TestTimeBeforeTheLog(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.seed(acme)
	p := s.signIn(acme, session.Viewer)
	for _, filter := range []string{"to=2020-01-01T00:00:00Z", "from=2019-01-01T00:00:00Z&to=2020-01-01T00:00:00Z", "to=2020-01-01T00:00:00Z&find=req-1", "to=2020-01-01T00:00:00Z&status=404&range=day"} {
		p.get("/requests?" + filter).status(http.StatusOK).hasNot(`href="/requests/`)
	}
}
