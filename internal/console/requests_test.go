package console

import (
	"context"
	"net/http"
	"net/netip"
	"regexp"
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
func (p *person) requestPage(list *answer, target string) string {
	p.t.Helper()
	found := regexp.MustCompile(`<a href="(/requests/[0-9A-Za-z_-]+)"><span class="code">GET</span> ` + regexp.QuoteMeta(target) + `</a>`).FindStringSubmatch(list.body)
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
