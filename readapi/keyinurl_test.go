package readapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestKeyInURL tries the spellings in which a key can get into a URL. None passes, and
// none gets into an answer or a log.
func TestKeyInURL(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	percent := func(text string, times int) string {
		for range times {
			var b strings.Builder
			for i := range len(text) {
				fmt.Fprintf(&b, "%%%02X", text[i])
			}
			text = b.String()
		}
		return text
	}
	var targets []string
	for _, name := range []string{"api_key", "apikey", "key", "token", "access_token", "auth", "authorization"} {
		for _, spelled := range []string{name, strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], percent(name, 1), "%" + fmt.Sprintf("%02x", name[0]) + name[1:]} {
			targets = append(targets, "/v1/me?"+spelled+"=1", "/v1/invoices?limit=1&"+spelled, "/nowhere?x=%zz&"+spelled+"=%zz")
		}
	}
	other := strings.ToUpper(key[:7]) + key[7:]
	wrongSum := key[:len(key)-1] + "0"
	for _, k := range []string{key, other, wrongSum, percent(key, 1), percent(key, 2), strings.ReplaceAll(key, "_", "%5f"), strings.ReplaceAll(key, "_", "%255F")} {
		targets = append(targets,
			"/v1/invoices?client_id="+k, "/v1/invoices?"+k, "/v1/invoices?x=a+"+k+"+b", "/v1/invoices?limit=%zz"+k,
			"/v1/invoices/"+k, "/v1/"+k, "/"+k+"/v1/invoices", "/v1/invoices/x"+k+"x", "/v1/clients/"+k+"/credit", "/v1/invoices;"+k,
			"/v1/invoices?cursor="+k+"&limit=1",
		)
	}
	for _, target := range targets {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
			for _, bearer := range []string{"", key} {
				r := s.do(method, target, bearer)
				if r.status != 400 {
					t.Errorf("%s %s: %d %s", method, target, r.status, r.body)
				}
				if r.header.Get("Ratelimit-Limit") != "20" {
					t.Errorf("%s %s: the limit is %s", method, target, r.header.Get("Ratelimit-Limit"))
				}
				if strings.Contains(string(r.body), key[20:]) {
					t.Errorf("%s %s: the answer repeats the key", method, target)
				}
			}
		}
		if r := s.do(http.MethodPost, target, ""); r.status != 405 {
			t.Errorf("POST %s: %d", target, r.status)
		}
	}
	r := s.get("/v1/me", key, "X-Request-Id", key)
	if r.status != 200 || r.header.Get("X-Request-Id") == key {
		t.Errorf("a key as X-Request-Id: %d, %s", r.status, r.header.Get("X-Request-Id"))
	}
	s.get("/v1/me", key+"x")
	s.get("/v1/me", "", "User-Agent", key, "Referer", "https://x/?"+key)
	for _, secret := range []string{key, key[17:], wrongSum, percent(key, 1)} {
		if strings.Contains(s.output.String(), secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
	for _, harmless := range []string{"/v1/invoices?client_id=service_1", "/v1/clients?limit=5", "/v1/invoices?period=2026-10&client_id=tokens"} {
		if r := s.get(harmless, key); r.status != 200 {
			t.Errorf("%s: %d %s", harmless, r.status, r.body)
		}
	}
}
