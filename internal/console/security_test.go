package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/pages"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// known seeds a workspace and returns values for the parameters in addresses.
func known(s *bundle, workspace string) *strings.Replacer {
	well, _, _ := s.seed(workspace)
	keys := testkit.Must(s.keys.List(s.t.Context(), workspace))(s.t)
	sent := s.deliveryOf(well, "failed")
	event, _, _ := strings.Cut(sent, "_wh_")
	return strings.NewReplacer("{key}", keys[0].ID, "{webhook}", well, "{delivery}", sent, "{event}", event,
		"{record}", strings.TrimPrefix(s.requestOf(workspace), "/requests/"), "{workspace}", workspace,
		"{reason}", string(domain.UnknownObject), "{type}", "invoice.reversed", "{position}", "1", "{token}", "none", "{file}", "invoices.csv", "{list}", "clients", "{id}", "cl_1")
}

// eachRoute tries every route, with values in its address.
func (s *bundle) eachRoute(values *strings.Replacer, try func(r web.Route, method, path string)) {
	for _, r := range s.console.routes() {
		try(r, r.Method, values.Replace(r.Pattern))
	}
}

// unchanged checks that no key or webhook of acme was made or removed.
func (s *bundle) unchanged() {
	s.t.Helper()
	if len(testkit.Must(s.keys.List(s.t.Context(), acme))(s.t)) != 3 || len(testkit.Must(s.webhooks.List(s.t.Context(), acme))(s.t)) != 3 {
		s.t.Error("something was changed")
	}
}

// TestNothingWithoutASession goes through the routes: those that require a session
// give nothing without one, or with one that is made up or has ended.
func TestNothingWithoutASession(t *testing.T) {
	t.Parallel()
	s := setup(t)
	values := known(s, acme)
	stranger := s.stranger()
	ended := s.signIn(acme, session.Admin)
	cookie := ended.client.Jar.Cookies(testkit.Must(url.Parse(s.server.URL))(t))[0]
	ended.post("/sign-out", nil).status(http.StatusSeeOther)
	sessions := map[string]func(*http.Request){
		"none":    func(*http.Request) {},
		"made up": func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie.Name, Value: strings.Repeat("A", 43)}) },
		"ended":   func(r *http.Request) { r.AddCookie(cookie) },
	}
	s.eachRoute(values, func(r web.Route, method, path string) {
		if r.Access == web.Anyone {
			return
		}
		for name, change := range sessions {
			a := stranger.do(method, path, nil, change).hasNot("Acme", "northwind")
			if !strings.HasPrefix(a.to(), "/sign-in") {
				t.Errorf("%s %s with session %s leads to %s", method, path, name, a.to())
			}
		}
	})
	s.unchanged()
}

// TestAnotherWorkspaceIsNotThere requests everything of one workspace with a
// session of another.
func TestAnotherWorkspaceIsNotThere(t *testing.T) {
	t.Parallel()
	s := setup(t)
	values := known(s, acme)
	p := s.signIn(beta, session.Admin)
	s.eachRoute(values, func(r web.Route, method, path string) {
		if !strings.Contains(r.Pattern, "{") || strings.Contains(r.Pattern, "{token}") || path == "/" || r.Pattern == pages.FilePattern || r.Pattern == "/data/{list}" {
			return // of the session's own workspace, or of none
		}
		p.do(method, path, url.Values{"overlap": {"0"}, "address": {"https://x.example"}, "choice": {"all"}}).
			status(http.StatusNotFound).hasNot("northwind", "Acme", "Monthly report")
	})
	for _, path := range []string{"/keys", "/webhooks", "/events", "/requests", "/anomalies?all=1", "/audit", "/data", "/data/clients", "/files/clients.csv"} {
		p.get(path).status(http.StatusOK).hasNot("northwind", "Acme", "Monthly report", "inv_00")
	}
	for _, k := range testkit.Must(s.keys.List(t.Context(), acme))(t)[:2] {
		if k.State(time.Now()) != access.Live || len(k.Replaced) > 0 {
			t.Errorf("the key %s was changed", k.Name)
		}
	}
	for _, w := range testkit.Must(s.webhooks.List(t.Context(), acme))(t) {
		if w.URL == "https://x.example" || !w.OldSecretUntil.IsZero() {
			t.Errorf("the webhook %s was changed", w.URL)
		}
	}
}

// TestViewerChangesNothing goes through the routes as a viewer, and checks that no
// page offers what is refused.
func TestViewerChangesNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	values := known(s, acme)
	p := s.signIn(acme, session.Viewer)
	s.eachRoute(values, func(r web.Route, method, path string) {
		switch {
		case r.Access == web.Admin:
			p.do(method, path, url.Values{"name": {"x"}, "permission": {"events:read"}, "expires": {"never"}}).status(http.StatusForbidden)
		case r.Access == web.SignedIn && method == http.MethodGet && path != "/":
			a := p.get(path).status(http.StatusOK)
			if forms := strings.Count(a.body, `method="post"`); forms != 1 && strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") { // signing out
				t.Errorf("%s offers a viewer %d forms", path, forms)
			}
		}
	})
	s.unchanged()
}

// TestForeignOriginIsRefused sends every change as a browser does for a page of
// another site.
func TestForeignOriginIsRefused(t *testing.T) {
	t.Parallel()
	s := setup(t)
	values := known(s, acme)
	p := s.signIn(acme, session.Admin)
	origins := map[string]func(*http.Request){
		"cross-site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"same-site":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"origin":     func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "https://evil.example") },
		"null":       func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "null") },
	}
	s.eachRoute(values, func(_ web.Route, method, path string) {
		if method != http.MethodPost {
			return
		}
		for name, change := range origins {
			if a := p.do(method, path, url.Values{}, change); a.StatusCode != http.StatusForbidden {
				t.Errorf("%s from %s: %d", path, name, a.StatusCode)
			}
		}
	})
	s.unchanged()
	p.get("/keys").status(http.StatusOK) // nobody was signed out
}

func TestLinkWorksOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	path := s.link(session.Link{WorkspaceID: acme})
	s.stranger().get(path).status(http.StatusOK).has("Acme Advisors") // looking does not use it up
	first := s.stranger()
	if to := first.post(path, nil).to(); to != "/" {
		t.Errorf("signed in to %s", to)
	}
	first.get("/keys").status(http.StatusOK)
	second := s.stranger()
	second.post(path, nil).status(http.StatusNotFound).has("no longer works")
	second.get("/keys").status(http.StatusSeeOther)
	if strings.Contains(s.logs.String(), strings.TrimPrefix(path, "/sign-in/")) {
		t.Error("the link is in the log")
	}
	late := s.link(session.Link{WorkspaceID: acme})
	s.clock.Advance(session.LinkLifetime)
	s.stranger().get(late).status(http.StatusNotFound)
	s.stranger().post(late, nil).status(http.StatusNotFound)
	if _, _, err := s.sessions.CreateLink(t.Context(), session.Link{WorkspaceID: "none"}); err == nil {
		t.Error("a link for a workspace that does not exist was made")
	}
}

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	s := setup(t)
	idle := s.signIn(acme, session.Admin)
	s.clock.Advance(110 * time.Minute)
	idle.get("/keys").status(http.StatusOK)
	s.clock.Advance(110 * time.Minute)
	idle.get("/webhooks?live=1").status(http.StatusOK) // a page that renews itself does not count
	s.clock.Advance(20 * time.Minute)
	idle.get("/keys").status(http.StatusSeeOther)

	busy := s.signIn(acme, session.Admin)
	for range 12 {
		busy.get("/keys").status(http.StatusOK)
		s.clock.Advance(time.Hour)
	}
	busy.get("/keys").status(http.StatusSeeOther)
	renewing := s.stranger().get("/webhooks?live=1")
	if renewing.StatusCode != http.StatusUnauthorized || renewing.Header.Get("Hx-Redirect") != "/sign-in" {
		t.Errorf("a page that renews itself without a session: %d %q", renewing.StatusCode, renewing.Header)
	}
	s.signIn(acme, session.Viewer) // a new session removes expired ones
	var rows int
	if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM console_session`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d sessions are kept (%v), want 1", rows, err)
	}
}

func TestHeadersAndCookies(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.stranger()
	in := p.post(s.link(session.Link{WorkspaceID: acme}), nil)
	for _, a := range []*reply{in, p.get("/keys"), p.get("/nothing"), p.get("/sign-in"), p.get("/api")} {
		csp := a.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", a.Request.URL, csp)
		}
		if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", a.Request.URL, a.Header)
		}
		for _, inline := range []string{" style=", "<style", " onclick=", "javascript:", "<script>"} {
			a.hasNot(inline)
		}
	}
	plain := in.Cookies()[0]
	if plain.Name != "ledgerfeed-session" || !plain.HttpOnly || plain.Secure || plain.SameSite != http.SameSiteLaxMode {
		t.Errorf("on loopback: %v", plain)
	}
	secure := setup(t, func(c *Config) { c.URL = "https://console.example.com" })
	a := secure.stranger().post(secure.link(session.Link{WorkspaceID: acme}), nil)
	cookie := a.Cookies()[0]
	if cookie.Name != "__Host-ledgerfeed-session" || !cookie.Secure || !cookie.HttpOnly || cookie.Path != "/" || cookie.Domain != "" {
		t.Errorf("over https: %v", cookie)
	}
	if a.Header.Get("Strict-Transport-Security") == "" {
		t.Error("no Strict-Transport-Security over https")
	}
	if o := testkit.Must(web.ParseOrigin("https://x.example/"))(t); o.URL != "https://x.example" {
		t.Errorf("the slash at the end stays: %s", o.URL)
	}
	for _, address := range []string{"http://console.example.com", "ftp://localhost", "console", "http://0.0.0.0:8081", "https://x.example/path", "https://x.example#a", "https://x.example?", "https://me@x.example"} {
		if _, err := web.ParseOrigin(address); err == nil {
			t.Errorf("%s was taken", address)
		}
	}
}

// TestMarkupIsText puts markup into every text that pages show and others wrote.
func TestMarkupIsText(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const evil = `<script>alert(1)</script>`
	const attribute = `"><img src=x onerror=alert(1)>`
	s.key(acme, evil, access.EventsRead)
	s.key(acme, attribute, access.EventsRead)
	s.exec(`UPDATE workspace SET name = $1 WHERE workspace_id = 'acme'`, evil)
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: `https://x.example/?q=<b>'"`, Events: []string{"all"}, Name: evil, Description: attribute}))(t)
	id := s.append(acme, "invoice.reversed", `{"invoice_id":"inv_1","invoice_number":"<script>alert(1)</script>"}`)
	s.exec(`INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, attempts)
		VALUES ('acme', $1, 1, now(), $2, 'invoice.reversed', 'failed',
		'[{"at":"2026-01-01T00:00:00.000Z","status":500,"error":"<script>alert(1)</script>","duration_ms":1,"answer":"<script>alert(1)</script>"}]')`, hook.ID, id)
	s.turnOff(hook.ID, time.Now())
	s.exec(`UPDATE webhook SET turned_off_for = $1`, evil)
	now := s.clock.Now()
	s.exec(`INSERT INTO request_log (slot, workspace_id, at, request_id, key_id, key_prefix, method, route, status, duration_us, bytes, row_count, record_id, path, user_agent, problem)
		VALUES (($2::bigint / 86400) % 32, 'acme', $3, $1, $1, $1, $1, $1, 200, 1, 1, 1, gen_random_uuid(), $1, $1, jsonb_build_object('title', $1::text, 'detail', $1::text, 'permission', $1::text))`, evil, now.Unix(), now)
	s.addToAudit(audit.Actor{Via: audit.ViaConsole, Name: evil, Issuer: evil, Subject: evil}, audit.Change{WorkspaceID: acme, Action: evil, ObjectName: evil, Detail: evil})
	s.exec(`INSERT INTO anomaly (workspace_id, position, reason, event_id) VALUES ('acme', 1, 'unknown_object', $1)`, id)
	s.exec(`INSERT INTO anomaly_acknowledged (workspace_id, position, reason, acknowledged_at, note) VALUES ('acme', 1, 'unknown_object', now(), $1)`, evil)
	p := s.signIn(acme, session.Admin)
	paths := []string{"/anomalies?all=1", "/anomalies/unknown_object/invoice.reversed", "/anomalies/at/1", "/keys", "/webhooks", "/webhooks/" + hook.ID, "/webhooks/" + hook.ID + "/edit", "/webhooks/" + hook.ID + "/delete",
		"/deliveries/" + id + "_" + hook.ID, "/events", "/events/" + id, "/requests", s.requestOf(acme), "/audit",
		"/events?about=" + url.QueryEscape(evil), "/sign-in?to=" + url.QueryEscape(attribute), "/keys?did=" + url.QueryEscape(evil)}
	for _, k := range testkit.Must(s.keys.List(t.Context(), acme))(t) {
		paths = append(paths, "/keys/"+k.ID, "/keys/"+k.ID+"/revoke")
	}
	for _, path := range paths {
		p.get(path).status(http.StatusOK).hasNot(evil, attribute, "<img src=x", `<b>'"`)
	}
	p.get("/deliveries/" + id + "_" + hook.ID).has("&lt;script&gt;alert(1)&lt;/script&gt;")
	p.post("/keys", url.Values{"name": {attribute}}).status(http.StatusUnprocessableEntity).hasNot(attribute)
	p.post("/webhooks", url.Values{"address": {attribute}, "name": {attribute}, "description": {attribute}}).status(http.StatusUnprocessableEntity).hasNot(attribute)
}

// TestTextsThatNothingHas sends what no name or id holds, and the database does not take,
// in every place of every address: that is the caller's fault and nothing for the log.
func TestTextsThatNothingHas(t *testing.T) {
	t.Parallel()
	s := setup(t)
	values := known(s, acme)
	p := s.signIn(acme, session.Admin)
	for _, odd := range []string{"a\x00b", "a\xffb"} {
		escaped := url.PathEscape(odd)
		inPath := strings.NewReplacer("{key}", escaped, "{webhook}", escaped, "{delivery}", escaped, "{event}", escaped, "{record}", escaped,
			"{workspace}", escaped, "{reason}", escaped, "{type}", escaped, "{position}", escaped, "{token}", escaped)
		given := url.Values{}
		for _, name := range []string{"find", "key", "about", "type", "state", "who", "what", "since", "cursor", "to", "name", "email", "note", "address", "delivery"} {
			given.Set(name, odd)
		}
		for _, r := range s.console.routes() {
			if strings.HasPrefix(r.Pattern, "/sign-in/identity") || r.Pattern == "/sign-out" {
				continue
			}
			for path, form := range map[string]url.Values{inPath.Replace(r.Pattern): {}, values.Replace(r.Pattern) + "?" + given.Encode(): {}, values.Replace(r.Pattern): given} {
				if a := p.do(r.Method, path, form); a.StatusCode >= http.StatusInternalServerError {
					t.Errorf("%s %s %v: %d", r.Method, path, form, a.StatusCode)
				}
			}
		}
	}
	if strings.Contains(s.logs.String(), "level=ERROR") {
		t.Errorf("the log has errors:\n%s", s.logs.String())
	}
}
