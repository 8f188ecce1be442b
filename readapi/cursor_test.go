package readapi_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// wrong are the fields that a 400 names.
func wrong(t testing.TB, r reply) []string {
	t.Helper()
	var p struct {
		Errors []struct{ Field, Message string } `json:"errors"`
	}
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	fields := make([]string, len(p.Errors))
	for i, e := range p.Errors {
		fields[i] = e.Field
		if e.Message == "" {
			t.Errorf("no message for %s", e.Field)
		}
	}
	return fields
}

// TestCursorsAreBound: a cursor opens with the associated data with which it was sealed,
// and with no other.
func TestCursorsAreBound(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	now := s.clock.Now()
	s.append(history(t, "acme", 5, now, 20*24*time.Hour, 300)...)
	s.append(history(t, "other", 5, now, 20*24*time.Hour, 300)...)
	s.project("acme", 0)
	s.project("other", 0)
	key, second, foreign := s.key("acme", allPermissions()...), s.key("acme", without(access.PayRead, access.MarginRead)...), s.key("other", allPermissions()...)
	client, _ := s.someParties("acme")
	const path = "/v1/time-entries"
	cursorOf := func(query string) string { return *s.page(path+"?"+query, key).NextCursor }
	base := url.Values{"limit": {"3"}, "client_id": {client}}
	cursor := cursorOf(base.Encode())
	with := func(change func(url.Values)) string {
		q := url.Values{"cursor": {cursor}, "limit": {"3"}, "client_id": {client}}
		change(q)
		return q.Encode()
	}
	refused := map[string]string{
		path + "?" + with(func(q url.Values) { q.Set("limit", "4") }):                                             key,
		path + "?" + with(func(q url.Values) { q.Del("limit") }):                                                  key,
		path + "?" + with(func(q url.Values) { q.Del("client_id") }):                                              key,
		path + "?" + with(func(q url.Values) { q.Set("client_id", "x") }):                                         key,
		path + "?" + with(func(q url.Values) { q.Set("status", "sent") }):                                         key,
		path + "?" + with(func(q url.Values) { q.Set("updated_since", "2020-01-01T00:00:00Z") }):                  key,
		"/v1/charges?" + with(func(url.Values) {}):                                                                key,
		"/v1/invoices?" + with(func(url.Values) {}):                                                               key,
		path + "?" + with(func(url.Values) {}):                                                                    foreign,
		path + "?" + with(func(q url.Values) { q.Set("cursor", cursor+"A") }):                                     key,
		path + "?" + with(func(q url.Values) { q.Set("cursor", cursor[:len(cursor)-1]) }):                         key,
		path + "?" + with(func(q url.Values) { q.Set("cursor", cursor+"\n") }):                                    key,
		path + "?" + with(func(q url.Values) { q.Set("cursor", cursor[:9]+"\r\n"+cursor[9:]) }):                   key,
		path + "?" + with(func(q url.Values) { q.Set("cursor", cursor+"=") }):                                     key,
		path + "?" + with(func(q url.Values) { q.Set("cursor", "x") }):                                            key,
		path + "?" + with(func(q url.Values) { q.Set("cursor", strings.Repeat("A", 4000)) }):                      key,
		path + "?" + with(func(q url.Values) { q.Set("cursor", "\x00\xff") }):                                     key,
		path + "?limit=3&client_id=" + client + "&cursor=" + url.QueryEscape(" "+cursor):                          key,
		"/v1/events?limit=3&cursor=" + *s.page("/v1/invoices?limit=3", key).NextCursor:                            key,
		"/v1/clients/x/credit?cursor=" + s.credit(client, "", key).NextCursor:                                     key,
		path + "?updated_since=2020-01-01T00:00:00.000Z&cursor=" + cursorOf("updated_since=2020-01-01T00:00:00Z"): key,
	}
	for target, k := range refused {
		r := s.get(target, k)
		if r.status != 400 || strings.Join(wrong(t, r), " ") != "cursor" {
			t.Errorf("%s: %d %s", target, r.status, r.body)
		}
	}
	// Changing any one character makes it invalid.
	for i := range cursor {
		altered := []byte(cursor)
		altered[i] = 'A'
		if cursor[i] == 'A' {
			altered[i] = 'B'
		}
		if r := s.get(path+"?limit=3&client_id="+client+"&cursor="+string(altered), key); r.status != 400 {
			t.Errorf("altered at %d: %d", i, r.status)
		}
	}
	// The key, the order of parameters and their escaping do not matter.
	for target, k := range map[string]string{
		path + "?" + with(func(url.Values) {}):                                second,
		path + "?client_id=" + client + "&limit=%33&&cursor=" + cursor:        key,
		path + "?cursor=" + cursor + "&%6cimit=3&client%5Fid=" + client + "&": key,
	} {
		if r := s.get(target, k); r.status != 200 {
			t.Errorf("%s: %d %s", target, r.status, r.body)
		}
	}
	// The same page gives the same cursor, which ETags rely on.
	if again := cursorOf(base.Encode()); again != cursor {
		t.Error("the same page gives another cursor")
	}
}

// codeOf is the code of a problem.
func codeOf(t testing.TB, r reply) string {
	t.Helper()
	var p struct{ Code string }
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	return p.Code
}

// sights are permissions, from those that see the least to those that see the most.
func sights() [][]access.Permission {
	return [][]access.Permission{without(access.PayRead, access.MarginRead), without(access.MarginRead), allPermissions()}
}

// TestCursorsAndKeys: a cursor goes on with a key that sees no more of its list, and is refused to
// one that sees more, whatever page it is of and in whichever form the list is read.
func TestCursorsAndKeys(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 5, s.clock.Now(), 20*24*time.Hour, 400)...)
	s.append(hiddenFrom(20, s.clock.Now())...)
	s.project("acme", 0)
	client, _ := s.someParties("acme")
	var keys []string
	for _, permissions := range sights() {
		keys = append(keys, s.key("acme", permissions...))
	}
	// The sights that differ at a list, by the first sight that sees as much.
	same := map[string][]int{
		"/v1/invoices": {0, 1, 2}, "/v1/charges": {0, 1, 1}, "/v1/time-entries": {0, 1, 1}, "/v1/payments": {0, 1, 1}, "/v1/events": {0, 1, 1},
		"/v1/clients": {0, 0, 0}, "/v1/contractors": {0, 0, 0}, "/v1/credits": {0, 0, 0}, "/v1/credit-history": {0, 0, 0}, "/v1/clients/" + client + "/credit": {0, 0, 0},
	}
	for _, path := range followed(client) {
		sees := same[path]
		if sees == nil {
			t.Fatalf("nothing is said of %s", path)
		}
		for given, key := range keys {
			for _, limit := range []string{"limit=1", "limit=100"} { // within the list, and at its end
				cursor := cursorOfPage(t, s.get(path+"?"+limit, key))
				for used, other := range keys {
					more := sees[used] > sees[given]
					r := s.get(path+"?"+limit+"&cursor="+cursor, other)
					checkUse(t, path, given, used, more, r)
					if r.status == 200 { // it remembers the key that used it
						next := cursorOfPage(t, r)
						for last, key := range keys {
							checkUse(t, path, used, last, sees[last] > sees[used], s.get(path+"?"+limit+"&cursor="+next, key))
						}
					}
				}
			}
		}
		if strings.HasSuffix(path, "/credit") || path == "/v1/events" {
			continue
		}
		for _, form := range []string{"application/x-ndjson", "text/csv"} {
			for given, key := range keys {
				cursor := s.get(path, key, "Accept", form).header.Get("Next-Cursor")
				for used, other := range keys {
					checkUse(t, path+" "+form, given, used, sees[used] > sees[given], s.get(path+"?cursor="+cursor, other, "Accept", form))
				}
			}
		}
	}
}

func cursorOfPage(t *testing.T, r reply) string {
	t.Helper()
	var p struct {
		NextCursor string `json:"next_cursor"`
	}
	if err := json.Unmarshal(r.body, &p); err != nil || p.NextCursor == "" {
		t.Fatalf("%v in %s", err, r.body)
	}
	return p.NextCursor
}

func checkUse(t *testing.T, path string, given, used int, more bool, r reply) {
	t.Helper()
	switch {
	case !more && r.status != 200:
		t.Errorf("%s: a cursor of sight %d with sight %d: %d %s", path, given, used, r.status, r.body)
	case more && (r.status != 400 || codeOf(t, r) != "cursor_permissions" || strings.Join(wrong(t, r), " ") != "cursor"):
		t.Errorf("%s: a cursor of sight %d with sight %d, which sees more: %d %s", path, given, used, r.status, r.body)
	}
}

// TestCursorsOfEarlierVersions: they do not say what their key could see, so no key goes on with
// them, not even one that sees the least.
func TestCursorsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(event("e1", "invoice.paid", s.clock.Now()), event("e2", "invoice.paid", s.clock.Now()))
	s.project("acme", 0)
	for _, permissions := range sights() {
		key := s.key("acme", permissions...)
		cursor := *s.page("/v1/events?limit=1", key).NextCursor
		for _, form := range []string{"", " 2", " 3"} {
			earlier, err := s.api.EarlierCursor(form, "acme", "limit=1", cursor)
			if err != nil {
				t.Fatal(err)
			}
			r := s.get("/v1/events?limit=1&cursor="+earlier, key)
			if r.status != 400 || codeOf(t, r) != "cursor_invalid" || strings.Join(wrong(t, r), " ") != "cursor" {
				t.Errorf("form %q: %d %s", form, r.status, r.body)
			}
		}
	}
}
