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
