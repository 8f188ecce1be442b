package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// A workspace's settings are its name and up to five addresses; the audit has the change.
func TestSettingsOfTheWorkspace(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.key(acme, "key", access.EventsRead)
	p := s.signIn(acme, session.Admin)
	testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: "https://hooks.example/a", Events: []string{"all"}}))(t)
	p.get("/settings").has("Acme Advisors").hasNot("Send a test mail")
	p.post("/settings", url.Values{"name": {""}, "email": {"nobody"}}).status(http.StatusUnprocessableEntity).has(
		"Not saved. Fix 2 fields below.", `<a href="#name">`, `<a href="#email">`, "is not a mail address", `value="nobody"`)
	p.post("/settings", url.Values{"name": {"Acme"}, "email": {"a@x.example,b@x.example,c@x.example,d@x.example,e@x.example,f@x.example"}}).
		status(http.StatusUnprocessableEntity).has("5 addresses at most")
	p.get(p.post("/settings", url.Values{"name": {"Acme Care"}, "email": {" mara@acme.example;lee@acme.example, mara@acme.example"}}).to()).
		has("Saved.", "Acme Care", `value="mara@acme.example, lee@acme.example"`, "Send a test mail")
	w := testkit.Must(eventlog.NewWorkspaces(s.pool, s.clock.Now).Get(t.Context(), acme))(t)
	if w.Name != "Acme Care" || w.NotifyEmail != "mara@acme.example, lee@acme.example" {
		t.Errorf("saved %+v", w)
	}
	p.get("/audit").has("Changed workspace", "mail about webhooks to mara@acme.example, lee@acme.example")
	s.signIn(beta, session.Admin).get("/settings").has("Beta Studio").hasNot("acme")
	s.signIn(acme, session.Viewer).get("/settings").has("mara@acme.example").hasNot("Send a test mail", "<input id")
}

// The page names the verifier keys of the trees of the workspace's feed, to everybody who is
// signed in; without a key that signs there are none.
func TestVerifierKeysOfTheFeed(t *testing.T) {
	t.Parallel()
	var keys *signingkey.Keys
	s := setup(t, func(c *Config) { keys = c.Signing })
	page := s.signIn(acme, session.Viewer).get("/settings").has("Proof of the event feed", `href="https://api.example.com/docs/keys#feeds"`)
	for _, name := range []string{"api.example.com/" + acme + "/events", "api.example.com/" + acme + "/events-with-pay"} {
		for _, key := range testkit.Must(keys.Verifiers(name))(t) {
			page.has(strings.ReplaceAll(key, "+", "&#43;"))
		}
	}
	without := setup(t, func(c *Config) { c.Signing = nil })
	without.signIn(acme, session.Viewer).get("/settings").hasNot("Proof of the event feed")
}

// A test mail goes to each address, five an hour at most, and not without a mail server.
func TestTestMail(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.signIn(acme, session.Admin)
	p.post("/settings/test-mail", nil).status(http.StatusConflict).has("The workspace has no address.")
	p.post("/settings", url.Values{"name": {"Acme"}, "email": {"mara@acme.example, lee@acme.example"}}).status(http.StatusSeeOther)
	for range 5 {
		p.get(p.post("/settings/test-mail", nil).to()).has("A test mail is on its way.")
	}
	p.post("/settings/test-mail", nil).status(http.StatusConflict).has("5 test mails were sent within an hour")
	var mails, recipients int
	if err := s.pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT recipient) FROM webhook_mail`).Scan(&mails, &recipients); err != nil || mails != 10 || recipients != 2 {
		t.Errorf("%d mails to %d recipients (%v)", mails, recipients, err)
	}
	p.get("/audit").has("Sent a test mail")
	s.clock.Advance(61 * time.Minute)
	p.post("/settings/test-mail", nil).status(http.StatusSeeOther)

	without := setup(t, func(c *Config) {
		c.Mailer = testkit.Must(mail.New(mail.Settings{}, c.Pool, c.Clock, c.Logger))(t)
	}).signIn(acme, session.Admin)
	without.get("/settings").hasNot("Send a test mail")
	if a := without.post("/settings/test-mail", nil).status(http.StatusConflict); !strings.Contains(a.body, "set no mail server") {
		t.Errorf("without a mail server: %s", a.body)
	}
}
