package readapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestTheJudgeSeesFaults: the contract catches what it must. Every answer is spoilt in
// every place, one place at a time: an extra field, a missing one, money as a number and
// any other value as another type, a wrong status, a missing header.
func TestTheJudgeSeesFaults(t *testing.T) {
	t.Parallel()
	c := testkit.Must(theContract())(t)
	s := leakWorld(t, leakTime(), 0)
	key := s.key("acme", allPermissions()...)
	tried, money := 0, 0
	for target := range endpoints() {
		good := s.get(target, key)
		if findings(t, c, target, good) != "" {
			t.Fatalf("a good answer of %s is not as described: %s", target, findings(t, c, target, good))
		}
		bad := spoiltAround(good)
		if target != "/v1/openapi.json" { // not every member of it is described
			bad = append(bad, spoiltWithin(t, good)...)
		}
		for _, b := range bad {
			tried++
			if b.money {
				money++
			}
			if findings(t, c, target, b.reply) == "" {
				t.Errorf("%s: %s is not noticed", target, b.name)
			}
		}
	}
	if tried < 2000 || money < 50 {
		t.Errorf("%d faults were tried, %d of them money", tried, money)
	}
}

// findings is what the judge finds in an answer; empty: nothing.
func findings(t *testing.T, c *contract, target string, r reply) string {
	t.Helper()
	found := &faults{TB: t}
	c.judge(found, http.MethodGet, target, r)
	return found.last
}

// faults keeps what a judge finds instead of failing the test.
type faults struct {
	testing.TB

	last string
}

func (f *faults) Helper() {}

func (f *faults) Errorf(format string, args ...any) { f.last = fmt.Sprintf(format, args...) }

// spoilt is an answer with one fault.
type spoilt struct {
	name  string
	reply reply
	money bool
}

// spoiltAround has the faults outside of the body's members.
func spoiltAround(good reply) []spoilt {
	return append(spoiltHead(good),
		spoilt{name: "status 404", reply: reply{404, good.header, good.body}},
		spoilt{name: "no body", reply: reply{200, good.header, nil}},
		spoilt{name: "half a body", reply: reply{200, good.header, good.body[:len(good.body)/2]}},
	)
}

// spoiltHead has the faults that show without a body.
func spoiltHead(good reply) []spoilt {
	list := []spoilt{
		{name: "status 201", reply: reply{201, good.header, good.body}},
		{name: "status 206", reply: reply{206, good.header, good.body}},
		{name: "status 418", reply: reply{http.StatusTeapot, good.header, good.body}},
	}
	for _, name := range []string{
		"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "Ratelimit", "Ratelimit-Policy", "Etag", "X-Request-Id", "Cache-Control", "X-Content-Type-Options",
	} {
		header := maps.Clone(good.header)
		delete(header, name)
		list = append(list, spoilt{name: "no " + name, reply: reply{200, header, good.body}})
	}
	header := maps.Clone(good.header)
	header["Ratelimit-Limit"] = []string{"many"}
	return append(list, spoilt{name: "a limit in words", reply: reply{200, header, good.body}})
}

// spoiltWithin has the faults of the body.
func spoiltWithin(t *testing.T, good reply) []spoilt {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(good.body))
	decoder.UseNumber()
	var root any
	if err := decoder.Decode(&root); err != nil {
		t.Fatal(err)
	}
	var list []spoilt
	spoil(root, "", func(name string, money bool) {
		body, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, spoilt{name: name, reply: reply{200, good.header, body}, money: money})
	})
	return list
}

// spoil changes one thing after the other within a value, calls each and restores it.
func spoil(value any, at string, each func(name string, money bool)) {
	switch v := value.(type) {
	case map[string]any:
		v["leaked"] = "1.00"
		each("a field leaked into "+at, false)
		delete(v, "leaked")
		for _, name := range slices.Sorted(maps.Keys(v)) {
			before, path := v[name], at+"/"+name
			if !mayBeAbsent(name, at) {
				delete(v, name)
				each(path+" missing", false)
			}
			v[name] = ofAnotherType(before)
			each(path+" of another type", isMoney(before))
			v[name] = before
			spoil(before, path, each)
		}
	case []any:
		for i := range v {
			before := v[i]
			v[i] = ofAnotherType(before)
			each(fmt.Sprintf("%s/%d of another type", at, i), false)
			v[i] = before
			spoil(before, fmt.Sprintf("%s/%d", at, i), each)
		}
	}
}

// ofAnotherType is a value written as another type.
func ofAnotherType(value any) any {
	text, ok := value.(string)
	switch {
	case ok && isMoney(value):
		return json.Number(text)
	case ok:
		return json.Number("7")
	case value == nil: // a nullable field's type is not known here, but none is an array
		return []any{}
	}
	return "7"
}

// isMoney reports whether a value has the form of money.
func isMoney(value any) bool {
	text, ok := value.(string)
	return ok && len(text) > 3 && text[len(text)-3] == '.' && strings.Trim(text, "-.0123456789") == ""
}

// mayBeAbsent reports whether a field may be absent: a key may lack the permission for
// it, or it is one of an event's data.
func mayBeAbsent(name, at string) bool {
	switch name {
	case "contractor_pay_status", "payout_amount", "payout_sent_to_payroll_at", "margin_amount", "margin_percent", "margin_note",
		"pay_rate", "pay_amount", "pay_status":
		return true
	}
	return strings.HasSuffix(at, "/data") // of an event; in a list a number follows
}

// TestTheJudgeSeesFaultsOfProblems is TestTheJudgeSeesFaults for problem documents.
func TestTheJudgeSeesFaultsOfProblems(t *testing.T) {
	t.Parallel()
	c := testkit.Must(theContract())(t)
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", access.InvoicesRead)
	for target, k := range map[string]string{"/v1/invoices?limit=0": key, "/v1/clients": key, "/v1/invoices/in_1": key, "/v1/me": ""} {
		good := s.get(target, k)
		if findings(t, c, target, good) != "" {
			t.Fatalf("a good answer is not as described: %s", good.body)
		}
		for _, b := range spoiltWithin(t, good) {
			b.reply.status = good.status
			if findings(t, c, target, b.reply) == "" && b.name != "/errors missing" {
				t.Errorf("%s: %s is not noticed", target, b.name)
			}
		}
		html := maps.Clone(good.header)
		html["Content-Type"] = []string{"text/html"}
		if findings(t, c, target, reply{good.status, html, good.body}) == "" {
			t.Errorf("%s: text/html is not noticed", target)
		}
	}
}
