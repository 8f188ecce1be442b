package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

const product = "https://app.acme.example"

// embedded lets a product show the console.
func embedded(c *Config) { c.EmbedOrigins = web.List{product, "https://admin.acme.example"} }

// inFrame is what a browser says of a page in a frame.
func inFrame(r *http.Request) { r.Header.Set("Sec-Fetch-Dest", "iframe") }

// byScript is what the scripts of such a page say.
func byScript(r *http.Request) { r.Header.Set(web.FramedHeader, "1") }

// embed opens a frame with a link of the product's server.
func (p *person) embed(n session.Link) *reply {
	p.t.Helper()
	n.Embed = true
	return p.do(http.MethodGet, p.bundle.link(n), nil, inFrame)
}

// framedBy are who may show an answer in a frame.
func framedBy(a *reply) string {
	a.t.Helper()
	_, by, ok := strings.Cut(a.Header.Get("Content-Security-Policy"), "frame-ancestors ")
	if !ok {
		a.t.Fatalf("the policy is %q", a.Header.Get("Content-Security-Policy"))
	}
	if old := a.Header.Get("X-Frame-Options"); (old == "DENY") != (by == "'none'") {
		a.t.Errorf("X-Frame-Options is %q, and frame-ancestors %s", old, by)
	}
	return by
}

// TestEmbed: a link of the product's server opens the console in a frame, once, for as long
// as a session lasts.
func TestEmbed(t *testing.T) {
	t.Parallel()
	s := setup(t, embedded)
	s.seed(acme)
	p := s.stranger()
	link := s.link(session.Link{WorkspaceID: acme, Role: session.Admin, Person: "dana", Embed: true})
	p.do(http.MethodGet, link, nil).status(http.StatusForbidden).has("Open this in your product") // in a tab
	p.do(http.MethodHead, link, nil, inFrame).status(http.StatusForbidden)
	if to := p.do(http.MethodGet, link+"?to=/keys", nil, inFrame).to(); to != "/keys" {
		t.Errorf("the frame begins at %s", to)
	}
	page := p.do(http.MethodGet, "/keys", nil, inFrame).status(http.StatusOK).has("Monthly report", `hx-headers=`).hasNot("Sign out")
	if by := framedBy(page); by != product+" https://admin.acme.example" {
		t.Errorf("the page may be shown by %s", by)
	}
	p.do(http.MethodGet, "/webhooks?live=1", nil, byScript).status(http.StatusOK)
	p.do(http.MethodPost, "/keys", map[string][]string{"name": {"made in a frame"}, "permission": {"events:read"}, "expires": {"never"}}, inFrame).
		status(http.StatusOK)
	p.do(http.MethodGet, "/audit", nil, inFrame).has("dana", "in a frame", "made in a frame")

	again := s.stranger().do(http.MethodGet, link, nil, inFrame).status(http.StatusNotFound).has("no longer works")
	if by := framedBy(again); !strings.HasPrefix(by, product) {
		t.Errorf("the product cannot show that a link was used: %s", by)
	}
	if to := p.embed(session.Link{WorkspaceID: acme}).to(); to != "/" {
		t.Errorf("the frame begins at %s", to)
	}
	p.do(http.MethodPost, "/sign-out", nil, inFrame)
	p.do(http.MethodGet, "/keys", nil, inFrame).status(http.StatusUnauthorized).has("Your session has ended").hasNot("/sign-in")
	if to := p.do(http.MethodGet, "/webhooks?live=1", nil, byScript).status(http.StatusUnauthorized).Header.Get("HX-Redirect"); to != "/" {
		t.Errorf("a live page whose session has ended goes to %q", to)
	}
}

// TestNobodyElseFrames: a page that somebody is signed in to in a tab is in no frame, the
// session of a frame opens no tab, and the links of the one do not work as the other.
func TestNobodyElseFrames(t *testing.T) {
	t.Parallel()
	s := setup(t, embedded)
	s.seed(acme)
	tab := s.signIn(acme, session.Admin)
	if by := framedBy(tab.get("/keys").status(http.StatusOK)); by != "'none'" {
		t.Errorf("a page of a tab may be shown by %s", by)
	}
	for _, in := range []func(*http.Request){inFrame, byScript} {
		tab.do(http.MethodGet, "/keys", nil, in).status(http.StatusUnauthorized).hasNot("Monthly report")
	}
	frame := s.stranger()
	frame.embed(session.Link{WorkspaceID: acme}).to()
	if to := frame.get("/keys").to(); !strings.HasPrefix(to, "/sign-in") {
		t.Errorf("the session of a frame opens a tab: %s", to)
	}
	signIn, embed := s.link(session.Link{WorkspaceID: acme}), s.link(session.Link{WorkspaceID: acme, Embed: true})
	s.stranger().do(http.MethodGet, strings.Replace(signIn, session.SignInPath, session.EmbedPath, 1), nil, inFrame).status(http.StatusNotFound)
	s.stranger().post(strings.Replace(embed, session.EmbedPath, session.SignInPath, 1), nil).status(http.StatusNotFound)
	for _, path := range []string{"/sign-in", signIn} { // nobody signs in where they do not see whose page asks
		s.stranger().do(http.MethodGet, path, nil, inFrame).status(http.StatusUnauthorized).hasNot("<form")
	}
	s.stranger().do(http.MethodPost, signIn, nil, inFrame).status(http.StatusUnauthorized)
	frame.do(http.MethodPost, "/keys", nil, inFrame, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }).status(http.StatusForbidden)
}

// TestFramesAreOff: where no product is named, frames have no session and nobody may show
// a page.
func TestFramesAreOff(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.stranger()
	p.embed(session.Link{WorkspaceID: acme}).status(http.StatusForbidden)
	if by := framedBy(p.do(http.MethodGet, "/sign-in", nil, inFrame).status(http.StatusOK)); by != "'none'" {
		t.Errorf("a page may be shown by %s", by)
	}
}

// TestFrameCookie: over https the session of a frame is kept for frames in that product's
// site alone, and the other cookies are as ever.
func TestFrameCookie(t *testing.T) {
	t.Parallel()
	s := setup(t, embedded, func(c *Config) { c.URL = "https://console.acme.example" })
	framed := s.stranger().embed(session.Link{WorkspaceID: acme})
	tab := s.stranger().post(s.link(session.Link{WorkspaceID: acme}), nil)
	for name, c := range map[string]struct {
		answer *reply
		want   string
	}{
		"frame": {framed, "__Host-ledgerfeed-framed; Path=/; HttpOnly; Secure; SameSite=None; Partitioned"},
		"tab":   {tab, "__Host-ledgerfeed-session; Path=/; HttpOnly; Secure; SameSite=Lax"},
	} {
		c.answer.status(http.StatusSeeOther)
		cookies := c.answer.Cookies()
		if len(cookies) != 1 {
			t.Fatalf("%s: the cookies are %v", name, cookies)
		}
		got := cookies[0]
		got.Value, got.MaxAge = "", 0
		if text := strings.Replace(got.String(), "=;", ";", 1); text != c.want {
			t.Errorf("%s: the cookie is %s", name, text)
		}
	}
}

// TestTheme: a product's name, colour and logo are on the pages.
func TestTheme(t *testing.T) {
	t.Parallel()
	var look web.Theme
	look.Name = "Acme <Billing>"
	look.Logo = web.Logo{Body: []byte("<svg/>"), Type: ".svg"}
	if err := look.Accent.UnmarshalText([]byte("#1d4ed8")); err != nil {
		t.Fatal(err)
	}
	s := setup(t, func(c *Config) { c.Theme = look })
	page := s.signIn(acme, session.Viewer).get("/keys").has("<title>API keys · Acme &lt;Billing&gt;</title>").hasNot("Ledgerfeed<")
	asset := func(name, extension string) string {
		t.Helper()
		_, rest, ok := strings.Cut(page.body, `"/assets/`+name+".")
		hash, _, ends := strings.Cut(rest, extension+`"`)
		if !ok || !ends {
			t.Fatalf("%s is not on the page\n%s", name, page.body)
		}
		return s.stranger().get("/assets/" + name + "." + hash + extension).status(http.StatusOK).body
	}
	if logo := asset("logo", ".svg"); logo != "<svg/>" {
		t.Errorf("the logo is %q", logo)
	}
	if css := asset("console", ".css"); !strings.HasSuffix(css, string(look.CSS())) {
		t.Errorf("the colours are not in the style: %s", css[len(css)-200:])
	}
}
