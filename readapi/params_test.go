package readapi_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// TestWrongParameters: everything that is wrong is named, once each, in the order of the
// query.
func TestWrongParameters(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	for target, want := range map[string]string{
		"/v1/invoices?limit=0":                                       "limit",
		"/v1/invoices?limit=101":                                     "limit",
		"/v1/invoices?limit=-1":                                      "limit",
		"/v1/invoices?limit=%2B1":                                    "limit",
		"/v1/invoices?limit=1.0":                                     "limit",
		"/v1/invoices?limit=1e1":                                     "limit",
		"/v1/invoices?limit=x":                                       "limit",
		"/v1/invoices?limit=99999999999999999999":                    "limit",
		"/v1/invoices?limit=":                                        "limit",
		"/v1/invoices?limit":                                         "limit",
		"/v1/invoices?limit=1&limit=1":                               "limit",
		"/v1/invoices?limit=1&limit=x&limit=":                        "limit",
		"/v1/invoices?LIMIT=1":                                       "LIMIT",
		"/v1/invoices?limit=%zz":                                     "limit",
		"/v1/invoices?%zz=1":                                         "%zz",
		"/v1/invoices?%6Cimit=%zz":                                   "%6Cimit",
		"/v1/invoices?limit=%":                                       "limit",
		"/v1/invoices?limit=%E4":                                     "limit",
		"/v1/invoices?nope=1":                                        "nope",
		"/v1/invoices?nope=1&nope=2":                                 "nope",
		"/v1/invoices?=1":                                            "",
		"/v1/invoices?a;b=1":                                         "a;b",
		"/v1/invoices?<b>=1":                                         "<b>",
		"/v1/invoices?%00=1":                                         "\x00",
		"/v1/invoices?cursor=":                                       "cursor",
		"/v1/invoices?cursor=a&limit=0":                              "limit cursor", // comes last, because it depends on all others
		"/v1/invoices?limit=0&cursor=a":                              "limit cursor",
		"/v1/invoices?period=2026-13":                                "period",
		"/v1/invoices?period=2026-W54":                               "period",
		"/v1/invoices?period=2025-W53":                               "period",
		"/v1/invoices?period=2025-BW27":                              "period",
		"/v1/invoices?period=2026":                                   "period",
		"/v1/invoices?status=open":                                   "status",
		"/v1/invoices?status=Sent":                                   "status",
		"/v1/invoices?status=approved":                               "status",
		"/v1/invoices?type=invoices":                                 "type",
		"/v1/invoices?client_id=a%20b":                               "client_id",
		"/v1/invoices?client_id=%00":                                 "client_id",
		"/v1/invoices?direction=paid_to_contractor":                  "direction",
		"/v1/invoices?created_since=2026-10-01T00:00:00Z":            "created_since",
		"/v1/invoices?updated_since=2026-10-01":                      "updated_since",
		"/v1/invoices?updated_since=2026-10-01T00:00:00":             "updated_since",
		"/v1/invoices?updated_since=2026-10-01T24:00:00Z":            "updated_since",
		"/v1/invoices?updated_since=2026-02-30T00:00:00Z":            "updated_since",
		"/v1/invoices?updated_since=2026-10-01T00:00:60Z":            "updated_since",
		"/v1/invoices?updated_since=2026-10-01T00:00:00+02:00":       "updated_since", // the + is a space
		"/v1/invoices?updated_since=1790932500":                      "updated_since",
		"/v1/payments?direction=both":                                "direction",
		"/v1/payments?contractor_id=a":                               "contractor_id",
		"/v1/payments?period=2026-10":                                "period",
		"/v1/charges?status=sent":                                    "status",
		"/v1/time-entries?status=not_ready":                          "status",
		"/v1/time-entries?type=invoice":                              "type",
		"/v1/contractors?client_id=a":                                "client_id",
		"/v1/clients?status=active":                                  "status",
		"/v1/clients/cl_1?limit=1":                                   "limit",
		"/v1/clients/cl_1/credit?updated_since=2026-10-01T00:00:00Z": "updated_since",
		"/v1/events?type=invoice.recorded":                           "type",
		"/v1/events?type=nonsense":                                   "type",
		"/v1/events?updated_since=2026-10-01T00:00:00Z":              "updated_since",
		"/v1/events/ev_1?type=invoice.paid":                          "type",
		"/v1/me?x=1":                                                 "x",
		"/v1/openapi.json?download=1":                                "download",
		"/v1/invoices?b=1&limit=0&a=2&status=x&b=3&period=":          "b limit a status period",
	} {
		r := s.get(target, key)
		if got := strings.Join(wrong(t, r), " "); r.status != 400 || got != want {
			t.Errorf("%s: %d, fields %q, want %q", target, r.status, got, want)
		}
	}
	for _, target := range []string{
		"/v1/invoices", "/v1/invoices?", "/v1/invoices?&", "/v1/invoices?limit=100", "/v1/invoices?&limit=1&&", "/v1/invoices?limit=%31",
		"/v1/invoices?period=2026-W53", "/v1/invoices?period=2026-BW27", "/v1/invoices?period=2026-BW01", "/v1/invoices?client_id=nobody",
		"/v1/invoices?updated_since=2026-10-01T00:00:00%2B02:00", "/v1/invoices?updated_since=2026-10-01T00:00:00.123456789-11:30",
		"/v1/invoices?updated_since=0001-01-01T00:00:00Z", "/v1/invoices?updated_since=9999-12-31T23:59:59Z",
		"/v1/events?created_since=9999-12-31T23:59:59Z", "/v1/events?created_since=0001-01-01T00:00:00Z",
	} {
		if r := s.get(target, key); r.status != 200 {
			t.Errorf("%s: %d %s", target, r.status, r.body)
		}
	}
}

// TestThousandsOfWrongParameters: an answer names the first hundred, so that its size
// stays in proportion to the request's.
func TestThousandsOfWrongParameters(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	query := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "&%x", i)
		}
		return b.String()
	}
	for sent, want := range map[int]int{1: 1, 99: 99, 100: 100, 101: 100, 3500: 100} {
		r := s.get("/v1/invoices?cursor=x"+query(sent), key)
		fields := wrong(t, r)
		if sent < 100 {
			want++ // the cursor
		}
		if r.status != 400 || len(fields) != want || fields[0] != "0" {
			t.Errorf("%d wrong parameters: %d, %d are named", sent, r.status, len(fields))
		}
		if or := bytes.Contains(r.body, []byte(" or more are wrong")); or != (want == 100) {
			t.Errorf("%d wrong parameters: %.300s", sent, r.body)
		}
		if len(r.body) > 2*answer.MaxHeaderBytes {
			t.Errorf("%d wrong parameters are answered with %d bytes", sent, len(r.body))
		}
	}
	// A character that JSON writes as six is the worst that a name can hold.
	if r := s.get("/v1/invoices?"+strings.Repeat("%00", 5000), key); r.status != 400 || len(r.body) > 3*answer.MaxHeaderBytes {
		t.Errorf("a name of control characters: %d, %d bytes", r.status, len(r.body))
	}
}

// TestDetailSaysWhatIsWrong: the detail of one wrong parameter is enough for a log, and repeats nothing
// that the caller chose, because the request log keeps it.
func TestDetailSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	for query, want := range map[string]string{
		"limit=0":        `"detail":"A parameter is wrong: limit must be a whole number from 1 to 100."`,
		"cursor=x":       `"detail":"A parameter is wrong: cursor `,
		"anything=1":     `"detail":"A parameter is wrong; errors says which and why."`,
		"limit=0&from=1": `"detail":"2 parameters are wrong; errors says which and why."`,
	} {
		if r := s.get("/v1/invoices?"+query, key); r.status != 400 || !bytes.Contains(r.body, []byte(want)) {
			t.Errorf("%s: %d %s, want %s", query, r.status, r.body, want)
		}
	}
}

// TestUnknownPaths: a path that is not exactly one of the table is unknown, but two
// spellings of a path are the same path.
func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.append(objects("other")...)
	s.append(`{"workspace_id":"other","type":"client.recorded","data":{"client_id":"cl_other","name":"x"}}`)
	s.project("acme", 0)
	s.project("other", 0)
	key := s.key("acme", allPermissions()...)
	for _, path := range []string{
		"/docs/", "/docs/guides", "/docs/errors/418", "/docs/invoices.html", "/v1", "/v1/", "/v2/invoices", "/v1/invoice", "/V1/invoices", "/v1/Invoices", "/v1/invoices/", "/v1/invoices/in_1/",
		"/v1/invoices/in_1/x", "/v1//invoices", "//v1/invoices", "/v1/invoices//", "/v1/clients//credit", "/v1/clients/cl_1/credit/",
		"/v1/invoices%2Fin_1", "/v1%2finvoices", "/v1/clients/cl_1%2Fcredit", "/v1/./invoices", "/v1/x/../invoices", "/v1/credit",
		"/v1/me/", "/v1/openapi", "/v1/openapi.json/", "/v1/invoices/in_2", "/v1/invoices/%00", "/v1/invoices/%ff", "/v1/invoices/a%20b",
		"/v1/invoices/*", "/v1/invoices/{id}", "/v1/*", "/v1/clients/cl_other", "/v1/clients/cl_other/credit", "/v1/clients/%ff/credit",
		"/v1/invoices/" + strings.Repeat("a", 65), "/v1/events/" + strings.Repeat("a", 5000), "/favicon.ico", "/healthz",
	} {
		if r := s.get(path, key); r.status != 404 {
			t.Errorf("%q: %d %s", path, r.status, r.body)
		} else if r.header.Get("Ratelimit-Limit") == "20" {
			t.Errorf("%q: the headers speak of the address", path)
		}
	}
	for _, path := range []string{"/v1/%69nvoices", "/v1/invoices/%69n_1", "/v1/invoices/in%5F1", "/%761/clients/cl_1/cr%65dit"} {
		if r := s.get(path, key); r.status != 200 {
			t.Errorf("%q: %d %s", path, r.status, r.body)
		}
	}
	// The id of another workspace and one that does not exist are answered alike, except
	// for the request's own id.
	a, b := s.get("/v1/clients/cl_other", key, "X-Request-Id", "x"), s.get("/v1/clients/cl_none", key, "X-Request-Id", "x")
	if !bytes.Equal(a.body, b.body) {
		t.Errorf("%s and %s tell another workspace's id from none", a.body, b.body)
	}
}
