package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// A form reports every fault at once, in a summary with links to the fields, and the
// first field with a fault has the focus.
func TestFormsReportEveryFault(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.signIn(acme, session.Admin)
	p.post("/keys", url.Values{"expires": {"date"}}).status(http.StatusUnprocessableEntity).has(
		"Not saved. Fix 3 fields below.", `<a href="#name">Name</a>: `, `<a href="#permissions">Permissions</a>: `, `<a href="#expires">Expires</a>: `, `id="name" autofocus`, `id="permissions" tabindex="-1" aria`)
	p.post("/keys", url.Values{"name": {"a"}, "expires": {"date"}}).status(http.StatusUnprocessableEntity).has(
		"Not saved. Fix 2 fields below.", `id="permissions" tabindex="-1" autofocus`).hasNot(`href="#name"`)
	p.post("/webhooks", url.Values{"choice": {"some"}}).status(http.StatusUnprocessableEntity).has(
		"Not saved. Fix 2 fields below.", `<a href="#address">Address</a>: Enter the address`, `<a href="#events">Events</a>: `, `id="address" autofocus`)
	for _, page := range []string{"/keys/new", "/webhooks/new"} {
		p.get(page).hasNot("autofocus", "Not saved").has(" novalidate>")
	}
}

var hidden = regexp.MustCompile(`name="(draft_[a-z]+)" value="([^"]*)"`)

// fill is a form that was typed on a page, with the page's own fields.
func (p *person) fill(page string, typed url.Values) url.Values {
	p.t.Helper()
	for _, m := range hidden.FindAllStringSubmatch(p.get(page).status(http.StatusOK).body, -1) {
		typed.Set(m[1], m[2])
	}
	return typed
}

// enter signs the browser in with a link for a person.
func (p *person) enter(workspace, name string) *reply {
	p.t.Helper()
	return p.post(p.bundle.link(session.Link{WorkspaceID: workspace, Person: name}), nil).status(http.StatusSeeOther)
}

// What was typed when the session ended is shown to the same person in the same
// workspace, once, and nobody else; it is never sent by itself.
func TestFormOutlivesItsSession(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, c := range []struct {
		page, action string
		typed        url.Values
		shown        []string
	}{
		{"/keys/new", "/keys", url.Values{"name": {"Payroll export"}, "permission": {"events:read"}, "expires": {"90"}}, []string{`value="Payroll export"`, `value="events:read" checked`, `value="90" checked`}},
		{"/webhooks/new", "/webhooks", url.Values{"address": {"https://hooks.example/in"}, "choice": {"some"}, "event": {"invoice.paid"}}, []string{`value="https://hooks.example/in"`, `value="invoice.paid" checked`}},
	} {
		p := s.stranger()
		p.enter(acme, "Dana")
		form := p.fill(c.page, c.typed)
		s.clock.Advance(3 * time.Hour)
		to := p.post(c.action, form).to()
		if want := web.Address("/sign-in", "to", c.page, "ended", "kept"); to != want {
			t.Errorf("%s after its session leads to %s, want %s", c.action, to, want)
		}
		p.get(to).has("Your session ended. Nothing was saved.", "kept in this browser")
		if to := p.enter(acme, "Dana").to(); to != c.page {
			t.Errorf("signing in again leads to %s, want %s", to, c.page)
		}
		p.get(c.page).has("Check what you typed").has(c.shown...).hasNot("autofocus")
		p.get(c.page).hasNot("Check what you typed").hasNot(c.shown[0])

		for name, other := range map[string]session.Link{"another person": {WorkspaceID: acme, Person: "Eve"}, "another workspace": {WorkspaceID: beta, Person: "Dana"}} {
			p := s.stranger()
			p.enter(acme, "Dana")
			form := p.fill(c.page, c.typed)
			s.clock.Advance(3 * time.Hour)
			p.post(c.action, form).status(http.StatusSeeOther)
			if to := p.enter(other.WorkspaceID, other.Person).to(); to != "/" {
				t.Errorf("%s is led to %s", name, to)
			}
			p.get(c.page).hasNot("Check what you typed", c.shown[0])
			p.enter(acme, "Dana") // the form is gone from this browser
			p.get(c.page).hasNot("Check what you typed", c.shown[0])
		}
	}
	if len(testkit.Must(s.keys.List(t.Context(), acme))(t)) != 0 || len(testkit.Must(s.webhooks.List(t.Context(), acme))(t)) != 0 {
		t.Error("a form was sent by itself")
	}
}

// A form is not sent to another workspace than that of its page, nor as another person: a
// browser that has opened two has the session of the last in both tabs, or frames.
func TestFormOfAnotherWorkspace(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, c := range []struct {
		page, action string
		typed        url.Values
	}{
		{"/settings", "/settings", url.Values{"name": {"Acme"}, "email": {"finance@acme.example"}}},
		{"/keys/new", "/keys", url.Values{"name": {"Payroll export"}, "permission": {"events:read"}, "expires": {"90"}}},
		{"/webhooks/new", "/webhooks", url.Values{"address": {"https://hooks.example/in"}, "choice": {"all"}}},
	} {
		for _, other := range []session.Link{{WorkspaceID: beta, Person: "Dana"}, {WorkspaceID: acme, Person: "Eve"}} {
			p := s.stranger()
			p.enter(acme, "Dana")
			form := p.fill(c.page, c.typed)
			p.enter(other.WorkspaceID, other.Person)
			p.post(c.action, form).status(http.StatusConflict).has("Nothing was changed", other.Person)
		}
	}
	p := s.stranger()
	p.enter(beta, "Dana")
	p.get("/settings").has(`value="Beta Studio"`).hasNot("finance@acme.example")
	for _, id := range []string{acme, beta} {
		if len(testkit.Must(s.keys.List(t.Context(), id))(t)) != 0 || len(testkit.Must(s.webhooks.List(t.Context(), id))(t)) != 0 {
			t.Errorf("%s was changed", id)
		}
	}
}

// A form that is too large for a cookie, or is none to keep, is lost, and the sign-in
// page says so. Another site cannot have a form kept.
func TestFormThatIsLost(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.stranger()
	p.enter(acme, "Dana")
	large := p.fill("/keys/new", url.Values{"name": {strings.Repeat("x", 4000)}})
	small := p.fill("/keys/new", url.Values{"name": {"x"}})
	s.clock.Advance(3 * time.Hour)
	if a := p.do(http.MethodPost, "/keys", small, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); a.StatusCode != http.StatusForbidden || len(a.Cookies()) > 0 {
		t.Errorf("a form from another site: %d %v", a.StatusCode, a.Cookies())
	}
	for _, form := range []url.Values{large, {"name": {"x"}}, {"name": {"x"}, "draft_page": {"https://evil.example"}, "draft_owner": {"x"}}} {
		p.get(p.post("/keys", form).to()).has("Your session ended. Nothing was saved.").hasNot("kept in this browser")
	}
	p.get(p.get("/keys").to()).hasNot("Nothing was saved")
}

// An unknown address has the frame for a signed-in person, and for nobody else.
func TestUnknownAddressKeepsTheFrame(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.signIn(acme, session.Viewer)
	p.get("/nothing/here").status(http.StatusNotFound).has("Acme Advisors", `href="/keys"`, "Sign out").hasNot(`href="/sign-in"`)
	s.stranger().get("/nothing/here").status(http.StatusNotFound).has(`href="/sign-in"`).hasNot("Acme", "Sign out")
	s.clock.Advance(3 * time.Hour)
	p.get("/nothing/here").status(http.StatusNotFound).has(`href="/sign-in"`).hasNot("Acme", "Sign out")
}

// Moments in the audit's details are shown as other moments are. A page names the zone of all its
// times once, and each has the exact one on hover, without scripts too.
func TestPagesNameTheZoneOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.seed(acme)
	s.addToAudit(dana, audit.Change{WorkspaceID: acme, Action: audit.WebhookTurnOff, Detail: "failed since 2027-11-22T12:35:37Z; the last: x"})
	p := s.signIn(acme, session.Admin)
	p.get("/audit").has(`failed since <time datetime="2027-11-22T12:35:37Z"`, "22 Nov 2027, 12:35</time>; the last: x")
	shown := regexp.MustCompile(`<time datetime="[^"]+" title="\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC" data-form="(when|minute|second)">([^<]*)</time>`)
	for _, path := range []string{"/keys", "/webhooks", "/events", "/requests", "/anomalies?all=1", "/audit"} {
		body := p.get(path).status(http.StatusOK).body
		times := shown.FindAllStringSubmatch(body, -1)
		if len(times) != strings.Count(body, "<time ") || strings.Count(body, "Times are in") != 1 {
			t.Errorf("%s: a time is not shown as the others, or the zone is not named once", path)
		}
		for _, m := range times {
			if strings.Contains(m[2], "UTC") {
				t.Errorf("%s shows %q", path, m[2])
			}
		}
	}
}

// Pages and assets are compressed, but no page that another site has led to.
func TestAnswersAreCompressed(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	s := setup(t, func(c *Config) { c.Clock = func() time.Time { return now } }) // pages say the time, to the second
	p := s.signIn(acme, session.Admin)
	get := func(path, site, accepts string) *reply {
		return p.do(http.MethodGet, path, nil, func(r *http.Request) {
			r.Header.Set("Accept-Encoding", accepts)
			if site != "" {
				r.Header.Set("Sec-Fetch-Site", site)
			}
		}).status(http.StatusOK)
	}
	style := regexp.MustCompile(`/assets/console\.[0-9a-f]+\.css`).FindString(p.get("/keys").body)
	for _, c := range []struct {
		path, site string
		small      bool
	}{
		{"/keys", "same-origin", true}, {"/keys", "none", true}, {"/keys", "cross-site", false}, {"/keys", "same-site", false}, {"/keys", "", false},
		{"/api", "same-origin", true}, {style, "same-origin", true}, {style, "", true},
	} {
		plain, a := get(c.path, c.site, "identity"), get(c.path, c.site, "gzip, br")
		if plain.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s is compressed for a browser that does not take it", c.path)
		}
		if !c.small {
			if a.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s, requested from %q, is compressed", c.path, c.site)
			}
			continue
		}
		if a.Header.Get("Content-Encoding") != "gzip" || !strings.Contains(a.Header.Get("Vary"), "Accept-Encoding") || len(a.body) > len(plain.body)/2 {
			t.Errorf("%s, requested from %q: %d bytes of %d, %v", c.path, c.site, len(a.body), len(plain.body), a.Header)
			continue
		}
		unpacked := testkit.Must(io.ReadAll(testkit.Must(gzip.NewReader(bytes.NewReader([]byte(a.body))))(t)))(t)
		if string(unpacked) != plain.body {
			t.Errorf("%s says something else compressed", c.path)
		}
	}
}
