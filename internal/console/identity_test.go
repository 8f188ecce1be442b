package console

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/pages"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// provider is an OpenID Connect provider that signs everyone in.
type provider struct {
	*httptest.Server
	t      *testing.T
	key    *rsa.PrivateKey
	claims map[string]any // of the next ID token, over the usual ones
	asked  url.Values     // how the browser came
	signer *rsa.PrivateKey
	// challenge replaces the browser's own if not empty, as when a code was stolen.
	challenge string
	code      string // expected
	mux       *http.ServeMux
	away      atomic.Bool // it answers 503
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{t: t, key: testkit.Must(rsa.GenerateKey(rand.Reader, 2048))(t), claims: map[string]any{}, code: "the-code"}
	p.signer = p.key
	mux := http.NewServeMux()
	p.mux, p.Server = mux, httptest.NewServer(mux)
	t.Cleanup(p.Close)
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		if p.away.Load() {
			http.Error(w, strings.Repeat("out of order ", 100), http.StatusServiceUnavailable)
			return
		}
		answer(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]string{
			"kty": "RSA", "kid": "k", "alg": "RS256", "use": "sig", "e": "AQAB", "n": base64.RawURLEncoding.EncodeToString(p.key.N.Bytes()),
		}}})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if id != "console" || secret != "shh" || r.FormValue("code") != p.code || !p.verifies(r.FormValue("code_verifier")) {
			w.WriteHeader(http.StatusBadRequest)
			answer(w, map[string]string{"error": "invalid_grant"})
			return
		}
		answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": p.token()})
	})
	return p
}

// verifies checks what PKCE proves: the program that redeems the code is the one
// that requested it (RFC 7636, 4.6).
func (p *provider) verifies(verifier string) bool {
	sum := sha256.Sum256([]byte(verifier))
	return p.asked.Get("code_challenge_method") == "S256" && p.asked.Get("code_challenge") == base64.RawURLEncoding.EncodeToString(sum[:])
}

// token is an ID token for the sign-in that the browser came with.
func (p *provider) token() string {
	claims := map[string]any{
		"iss": p.URL, "aud": "console", "sub": "user-1", "email": "dana@northwind.example", "email_verified": true,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(), "nonce": p.asked.Get("nonce"),
	}
	maps.Copy(claims, p.claims)
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"RS256","kid":"k"}`)) + "." + encode(testkit.Must(json.Marshal(claims))(p.t))
	sum := sha256.Sum256([]byte(text))
	return text + "." + encode(testkit.Must(rsa.SignPKCS1v15(nil, p.signer, crypto.SHA256, sum[:]))(p.t))
}

// signIn goes from the console to the provider and back.
func (p *provider) signIn(who *person, to string) *reply {
	p.t.Helper()
	begun := who.get("/sign-in/identity?to=" + url.QueryEscape(to))
	away := testkit.Must(url.Parse(begun.to()))(p.t)
	if !strings.HasPrefix(away.String(), p.URL+"/authorize?") {
		p.t.Fatalf("sent to %s", away)
	}
	p.asked = away.Query()
	if p.challenge != "" {
		p.asked.Set("code_challenge", p.challenge)
	}
	return who.get(pages.IdentityReturnPath + "?" + url.Values{"state": {p.asked.Get("state")}, "code": {p.code}}.Encode())
}

// start makes a console that looks for the provider while the test runs.
func (p *provider) start(t *testing.T, rules string, change ...func(*session.IdentityConfig)) *bundle {
	t.Helper()
	s := setup(t, func(c *Config) {
		c.Identity = &session.IdentityConfig{
			Issuer: p.URL, ClientID: "console", ClientSecret: "shh", Map: testkit.Must(session.ParseMap(rules))(t), Retry: 10 * time.Millisecond,
		}
		for _, f := range change {
			f(c.Identity)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.console.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// setup is start, and waits until people can sign in.
func (p *provider) setup(t *testing.T, rules string, change ...func(*session.IdentityConfig)) *bundle {
	t.Helper()
	s := p.start(t, rules, change...)
	testkit.Eventually(t, func() error {
		if !strings.Contains(s.stranger().get("/sign-in").body, "Continue with your organisation") {
			return errors.New("the sign-in page does not offer the provider")
		}
		return nil
	})
	return s
}

// A provider that does not answer holds up nothing but sign-ins with it: the sign-in
// page says so, links work, and once it answers people can sign in.
func TestIdentityProviderAway(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.away.Store(true)
	s := p.start(t, "finance=acme:admin")
	p.claims["groups"] = "finance"
	s.stranger().get("/sign-in").status(http.StatusOK).has("is not responding at the moment", "ledgerfeed console link").hasNot("Continue with your organisation")
	s.stranger().get("/sign-in/identity").status(http.StatusServiceUnavailable).has("is not responding", "retried automatically")
	s.signIn(acme, session.Admin).get("/keys").status(http.StatusOK)
	const failing = "cannot read the discovery document of the identity provider"
	testkit.Eventually(t, func() error {
		if !strings.Contains(s.logs.String(), failing) {
			return errors.New("nothing is logged about it")
		}
		return nil
	})
	// Once, however often it is tried, and not with the whole page that came.
	if text := s.logs.String(); strings.Count(text, failing) != 1 || strings.Count(text, "out of order") > 30 || !strings.Contains(text, "issuer="+p.URL) {
		t.Errorf("logged:\n%s", text)
	}
	p.away.Store(false)
	who := s.stranger()
	testkit.Eventually(t, func() error {
		if a := who.get("/sign-in/identity"); a.StatusCode != http.StatusSeeOther {
			return fmt.Errorf("answered %d", a.StatusCode)
		}
		return nil
	})
	if to := p.signIn(who, "/keys").to(); to != "/keys" {
		t.Errorf("went on to %s", to)
	}
	who.get("/keys").status(http.StatusOK).has("dana@northwind.example")
}

func TestIdentityProviderSignsIn(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	s := p.setup(t, "finance=acme:admin;support=*:viewer;gone=deleted-workspace:admin")
	s.stranger().get("/sign-in").has("Continue with your organisation")

	p.claims["groups"] = []string{"finance", "cooks"}
	who := s.stranger()
	if to := p.signIn(who, "/keys").to(); to != "/keys" {
		t.Errorf("went on to %s", to)
	}
	who.get("/keys/new").status(http.StatusOK).has("dana@northwind.example", "Acme Advisors", "Admin")
	who.post("/workspaces/beta", nil).status(http.StatusNotFound)

	p.claims["groups"] = []string{"support", "finance"}
	who = s.stranger()
	if to := p.signIn(who, "/keys").to(); to != "/workspaces" {
		t.Errorf("with two workspaces went on to %s", to)
	}
	who.get("/workspaces").has("Acme Advisors", "Beta Studio", "Current workspace")
	old := who.client.Jar.Cookies(testkit.Must(url.Parse(s.server.URL))(t))
	who.post("/workspaces/beta", nil).status(http.StatusSeeOther)
	who.get("/keys").has("Beta Studio", "Viewer")
	who.get("/keys/new").status(http.StatusForbidden) // a viewer there, an admin only in the other
	before := s.stranger()
	before.client.Jar.SetCookies(testkit.Must(url.Parse(s.server.URL))(t), old)
	before.get("/keys").status(http.StatusSeeOther) // the earlier token no longer works

	for name, values := range map[string]any{"no group": nil, "another group": []string{"cooks"}, "a workspace that is gone": "gone", "grants are not taken as they come": "acme:admin"} {
		p.claims["groups"] = values
		p.signIn(s.stranger(), "/").status(http.StatusForbidden).has("have no role in any workspace")
		_ = name
	}
	p.claims["groups"] = "finance"
	p.claims["email_verified"] = false
	who = s.stranger()
	p.signIn(who, "/").status(http.StatusSeeOther)
	who.get("/keys").has("user-1").hasNot("dana@")
	p.claims["preferred_username"] = strings.Repeat("é\x00", 1000)
	who = s.stranger()
	p.signIn(who, "/").status(http.StatusSeeOther)
	who.get("/keys").has(strings.Repeat("é", 200)).hasNot(strings.Repeat("é", 201))
}

// TestIdentityByAddress: where addresses open workspaces, one that the provider has not verified
// opens none.
func TestIdentityByAddress(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	s := p.setup(t, "dana@northwind.example=acme:admin", func(c *session.IdentityConfig) { c.Claim = "email" })
	p.signIn(s.stranger(), "/").status(http.StatusSeeOther)
	for _, verified := range []any{false, "yes", nil} {
		p.claims["email_verified"] = verified
		p.signIn(s.stranger(), "/").status(http.StatusForbidden).has("have no role in any workspace")
	}
}

func TestIdentityGrantsInTheClaim(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	s := p.setup(t, "")
	p.claims["groups"] = []string{"beta:viewer", "acme:owner", "nonsense"}
	who := s.stranger()
	p.signIn(who, "//evil.example").status(http.StatusSeeOther)
	who.get("/keys").status(http.StatusOK).has("Beta Studio", "Viewer")
}

func TestIdentityRefuses(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	s := p.setup(t, "finance=acme:admin")
	p.claims["groups"] = "finance"
	for name, change := range map[string]func(){
		"another nonce":     func() { p.claims["nonce"] = "other" },
		"another audience":  func() { p.claims["aud"] = "other" },
		"another issuer":    func() { p.claims["iss"] = "https://evil.example" },
		"an old token":      func() { p.claims["exp"] = time.Now().Add(-time.Hour).Unix() },
		"another challenge": func() { p.challenge = "other" },
		"another signature": func() { p.signer = testkit.Must(rsa.GenerateKey(rand.Reader, 2048))(t) },
	} {
		p.claims, p.signer, p.challenge = map[string]any{"groups": "finance"}, p.key, ""
		change()
		who := s.stranger()
		if a := p.signIn(who, "/"); a.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
		who.get("/keys").status(http.StatusSeeOther)
	}
	p.claims, p.signer, p.challenge = map[string]any{"groups": "finance"}, p.key, ""
	who := s.stranger()
	who.get(pages.IdentityReturnPath + "?state=x&code=the-code").status(http.StatusForbidden).has("was not started in this browser")
	begun := s.stranger()
	state := testkit.Must(url.Parse(begun.get("/sign-in/identity").to()))(t).Query().Get("state")
	back := pages.IdentityReturnPath + "?" + url.Values{"state": {state}, "code": {"the-code"}}.Encode()
	who.get(back).status(http.StatusForbidden) // another browser than the one that began
	begun.get(pages.IdentityReturnPath + "?state=" + state + "&error=access_denied").status(http.StatusForbidden)
	begun.get(back).status(http.StatusForbidden) // once

	for _, wrong := range []string{"finance", "=acme:admin", "finance=acme", "finance=acme:owner", "finance=:admin"} {
		if _, err := session.ParseMap(wrong); err == nil {
			t.Errorf("the map %q was taken", wrong)
		}
	}
}
