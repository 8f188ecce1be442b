package readapi_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// fuzzStand is a stand with one object of each kind and a key for everything.
func fuzzStand(f *testing.F) (*stand, string) {
	f.Helper()
	s := newStand(f)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	return s, key
}

// answer judges the handler's answer: no request is answered with 500 or with anything
// that is not described.
func (s *stand) answer(t *testing.T, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	got := reply{w.Code, canonical(w.Header()), w.Body.Bytes()}
	checkHeaders(t, r.Method+" "+r.URL.String(), got)
	if w.Code >= 500 {
		t.Errorf("%s %q: %d %s", r.Method, r.URL, w.Code, w.Body)
	}
	if len(got.body) > 0 { // HEAD has the headers of a body that is not there
		got.body = unpack(t, got)
	}
	s.contract.judge(t, r.Method, r.URL.RequestURI(), got)
	return w
}

// canonical spells header names as a client sees them.
func canonical(h http.Header) http.Header {
	c := http.Header{}
	for name, values := range h {
		c[http.CanonicalHeaderKey(name)] = values
	}
	return c
}

// request makes a request with a path and query as they come over the wire; nil if no
// server would accept them.
func request(t *testing.T, method, path, query, key string) *http.Request {
	t.Helper()
	target := path
	if query != "" {
		target += "?" + query
	}
	u, err := url.ParseRequestURI(target)
	if err != nil || !strings.HasPrefix(target, "/") {
		return nil
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	r.Method, r.URL, r.RequestURI = method, u, target
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return r
}

func FuzzQuery(f *testing.F) {
	s, key := fuzzStand(f)
	for _, q := range []string{"limit=1", "limit=%zz&cursor=&period=2026-W41", "a;b=c&=&&%00=%ff", "type=invoice.paid&created_since=2026-10-01T00:00:00%2b02:00", "api%5Fkey=1"} {
		for i := range len(fuzzPaths()) {
			f.Add(i, q)
		}
	}
	f.Fuzz(func(t *testing.T, path int, query string) {
		paths := fuzzPaths()
		if r := request(t, http.MethodGet, paths[uint(path)%uint(len(paths))], query, key); r != nil {
			s.answer(t, r)
		}
	})
}

func fuzzPaths() []string {
	return []string{"/v1/invoices", "/v1/events", "/v1/payments", "/v1/time-entries", "/v1/clients/cl_1/credit", "/v1/me", "/v1/invoices/in_1"}
}

func FuzzPath(f *testing.F) {
	s, key := fuzzStand(f)
	for _, p := range []string{"/v1/invoices/in_1", "/v1/%69nvoices", "/v1/invoices/%00", "//", "/v1/clients/%2F/credit", "/v1/events/ev_1", "/%", "/v1/{id}", "/*", "/", "/docs", "/docs/errors/404", "/docs/openapi.json"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
			if r := request(t, method, path, "", key); r != nil {
				s.answer(t, r)
			}
		}
	})
}

func FuzzHeaders(f *testing.F) {
	s, key := fuzzStand(f)
	f.Add("Bearer "+key, "\"a\", W/\"b\", *", "gzip;q=0.5, *", "id", "1.2.3.4, [::1]:5")
	f.Add("bearer  x", "\"", ",;q=", "<>", ",,")
	f.Fuzz(func(t *testing.T, authorization, match, accept, id, forwarded string) {
		for _, path := range []string{"/v1/invoices", "/v1/me", "/v1/events/ev_1"} {
			r := request(t, http.MethodGet, path, "", "")
			r.RemoteAddr = "127.0.0.1:1"
			r.Header["Authorization"] = []string{authorization}
			r.Header["If-None-Match"] = []string{match}
			r.Header["Accept-Encoding"] = []string{accept}
			r.Header["X-Request-Id"] = []string{id}
			r.Header["X-Forwarded-For"] = []string{forwarded}
			w := s.answer(t, r)
			if w.Code == http.StatusOK && !strings.HasSuffix(strings.TrimRight(authorization, " "), key) {
				t.Errorf("%q opens", authorization)
			}
		}
	})
}

func FuzzCursor(f *testing.F) {
	s, key := fuzzStand(f)
	good := map[string]bool{}
	for _, path := range []string{"/v1/invoices", "/v1/events"} {
		cursor := *s.page(path+"?limit=1", key).NextCursor
		good[path+cursor] = true
		f.Add(cursor)
		f.Add(cursor + "A")
		f.Add(cursor[1:])
	}
	f.Add("")
	f.Add("=\n")
	f.Fuzz(func(t *testing.T, cursor string) {
		for _, path := range []string{"/v1/invoices", "/v1/events"} {
			r := request(t, http.MethodGet, path, "limit=1&cursor="+url.QueryEscape(cursor), key)
			if w := s.answer(t, r); (w.Code == http.StatusOK) != good[path+cursor] {
				t.Errorf("%s with %q: %d", path, cursor, w.Code)
			}
		}
	})
}

// FuzzSeal: a cursor opens to the position that was sealed, and to none if it was
// altered.
func FuzzSeal(f *testing.F) {
	s, _ := fuzzStand(f)
	f.Add([]byte("associated"), []byte("position"), 3, byte(1))
	f.Add([]byte{}, []byte{}, 0, byte(255))
	f.Fuzz(func(t *testing.T, associated, position []byte, at int, change byte) {
		if len(position) > 200 {
			return
		}
		cursor := s.api.SealCursor(associated, position)
		opened, ok := s.api.OpenCursor(associated, cursor)
		if !ok || !bytes.Equal(opened, position) {
			t.Fatalf("%q opens to %q, %v", position, opened, ok)
		}
		if _, ok := s.api.OpenCursor(append(associated, 0), cursor); ok {
			t.Error("opens with other associated data")
		}
		altered := []byte(cursor)
		i := uint(at) % uint(len(altered))
		altered[i] ^= change
		if _, ok := s.api.OpenCursor(associated, string(altered)); ok && string(altered) != cursor {
			t.Errorf("opens although altered at %d", i)
		}
	})
}

// FuzzKeyInAddress: a key is found wherever it is in a URL and however often it is
// escaped.
func FuzzKeyInAddress(f *testing.F) {
	s, _ := fuzzStand(f)
	secret := s.key("acme", access.PayRead)
	f.Add("/v1/invoices", "x=", 0, uint64(3))
	f.Add("/", "&%", 2, uint64(1<<40))
	f.Fuzz(func(t *testing.T, path, query string, times int, which uint64) {
		key := secret
		for range uint(times) % 3 {
			var b strings.Builder
			for i := range len(key) {
				if which&(1<<(i%64)) != 0 {
					fmt.Fprintf(&b, "%%%02x", key[i])
				} else {
					b.WriteByte(key[i])
				}
			}
			key = b.String()
		}
		if strings.HasSuffix(query, "%") || strings.HasSuffix(path, "%") {
			return // what is before would change the key's first characters
		}
		if !s.api.InURL(path+"?"+query+key, query+key) || !s.api.InURL(path+key+"?"+query, query) {
			t.Errorf("%q is not found in %q, %q", key, path, query)
		}
	})
}
