package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// use counts n requests and n attempts of a workspace, spread over a time up to now.
func (s *bundle) use(workspace, keyID, webhookID string, n int, over time.Duration) {
	s.t.Helper()
	w := rollup.NewWriter(s.pool, testkit.Discard())
	now := s.clock.Now()
	for i := range n {
		at := now.Add(-over * time.Duration(i) / time.Duration(n))
		request := rollup.Request{At: at, WorkspaceID: workspace, KeyID: keyID, Route: []string{"/v1/invoices", "/v1/events", "/v1/invoices/{id}"}[i%3], Status: 200, Duration: time.Duration(2+i%40) * time.Millisecond}
		switch {
		case i%17 == 0:
			request.Status = 404
		case i%41 == 0:
			request.Status = 500
		case i%29 == 0:
			request.Status, request.Refused, request.RateLimited = 429, true, true
		}
		w.AddRequest(&request)
		attempt := rollup.Attempt{At: at, WorkspaceID: workspace, WebhookID: webhookID, Outcome: "success", Duration: time.Duration(30+i%200) * time.Millisecond}
		switch {
		case i%11 == 0:
			attempt.Outcome = "answered"
		case i%13 == 0:
			attempt.Outcome, attempt.Duration = "timeout", 10*time.Second
		}
		w.AddAttempt(&attempt)
		if i%5000 == 4999 || i == n-1 {
			if err := w.Write(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	if err := rollup.NewEvents(s.pool, s.clock.Now, testkit.Discard()).Count(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// mark is what the menu says where something needs attention.
const mark = "something needs attention"

// ordered reports whether texts stand in a page in this order, each for the first time.
func ordered(page string, texts ...string) bool {
	return slices.IsSortedFunc(texts, func(a, b string) int { return strings.Index(page, a) - strings.Index(page, b) })
}

// TestOverview shows what needs attention and what happened, and nothing of another
// workspace.
func TestOverview(t *testing.T) {
	t.Parallel()
	s := setup(t)
	stranger := s.signIn(beta, session.Viewer)
	stranger.get("/").status(http.StatusOK).has("None yet", "No requests in this time.", "No attempts in this time.", "No events in this time.", "Up to date", "Nothing is connected yet", "An admin of the workspace can connect it").hasNot(mark, "Needs attention")
	s.signIn(beta, session.Admin).get("/").has(`<a class="button" href="/keys/new">Create the first key</a>`)

	well, failing, off := s.seed(acme)
	keyID, _ := s.key(acme, "Until next week", access.InvoicesRead)
	s.exec(`UPDATE api_key SET expires_at = $2 WHERE key_id = $1`, keyID, s.clock.Now().Add(6*24*time.Hour+time.Hour))
	s.use(acme, keyID, well, 2000, 40*time.Minute)
	p := s.signIn(acme, session.Viewer)
	p.get("/").hasNot("Nothing is connected yet")
	if list := p.get("/webhooks").has(well, failing, off).body; !ordered(list, failing, off, well) {
		t.Error("webhooks that need attention are not the first of the list")
	}
	for name, title := range map[string]string{"hour": "in the last hour", "day": "in the last 24 hours", "week": "in the last 7 days", "month": "in the last 30 days", "": "in the last 24 hours", "year": "in the last 24 hours"} {
		answered, late := 182, 140
		if name != "hour" { // and what the seed has of the hours before
			answered, late = answered+39, late+8
		}
		p.get("/?range="+name).status(http.StatusOK).has(
			"1 working, 1 failing, 1 off", "Until next week", "in 6 days", "/webhooks/"+failing, "/webhooks/"+off, "waiting for review", mark,
			"Requests "+title, "API response time "+title, "Delivery attempts "+title, "Events "+title, "As a table", "p50 (ms)", "p95 (ms)",
			"Failed attempts "+title, fmt.Sprintf("Answered with an error <strong>%d</strong>", answered), fmt.Sprintf("No answer in time <strong>%d</strong>", late), "Busiest minute", "<strong>40</strong>",
		)
	}
	week := p.get("/?range=week")
	week.has(`class="box bad"`, `<pattern id="causes-dots"`, `class="box dots"`, `aria-label="Failed attempts in the last 7 days, by 6 hours, as a table"`).hasNot("Could not connect", `<pattern id="causes-cross"`)
	// Of each kind of request, and of a webhook only where there are several.
	if got := regexp.MustCompile(`<li>(Lists|One object|Events|Other) <strong>p50 \d+ ms, p95 \d+ ms</strong></li>`).FindAllString(week.body, -1); len(got) != 3 {
		t.Errorf("times of %d kinds of requests", len(got))
	}
	if strings.Contains(week.body, "northwind-accounting.example/ledgerfeed/events <strong>") {
		t.Error("the times of one webhook are told twice")
	}
	s.use(acme, keyID, failing, 100, 40*time.Minute)
	p.get("/").has("northwind-accounting.example/ledgerfeed/events <strong>", "payroll.example.net/in <strong>")
	stranger.get("/?range=month").has("No requests in this time.", "No failed attempts in this time.").hasNot("Until next week", mark)
	for _, path := range []string{"/keys", "/webhooks", "/audit"} {
		p.get(path).has(mark)
	}
	if got := p.get("/").body; strings.Count(got, `aria-current="page"`) != 1 || strings.Count(got, `aria-current="true"`) != 1 {
		t.Error("the page does not say once in the menu and once in the ranges where it is")
	}

	// Signing in leads to it.
	in := s.stranger().post(s.link(session.Link{WorkspaceID: acme, Role: session.Viewer}), nil).status(http.StatusSeeOther)
	if to := in.Header.Get("Location"); to != "/" {
		t.Errorf("signing in leads to %s", to)
	}
}

// TestMailIsOfferedWhereItCanBeHad: an admin is led to the settings while nobody gets mail. Where the
// service sends none, no page speaks of mail, because the reader can do nothing about it.
func TestMailIsOfferedWhereItCanBeHad(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)
	s.seed(acme)
	const add = `<a href="/settings">Add an address</a>`
	p.get("/").has("Mail about webhooks", add)
	p.get("/webhooks").has(add)
	viewer.get("/").has("To nobody").hasNot(add)
	viewer.get("/webhooks").hasNot(add)
	p.post("/settings", url.Values{"name": {"Acme"}, "email": {"mara@acme.example, lee@acme.example"}}).to()
	p.get("/").has(`<a href="/settings">To 2 addresses</a>`).hasNot(add)
	p.get("/webhooks").hasNot(add)

	silent := setup(t, func(c *Config) { c.Mailer = testkit.Must(mail.New(mail.Settings{}, c.Pool, c.Clock, c.Logger))(t) })
	silent.seed(acme)
	silent.exec(`UPDATE workspace SET notify_email = 'mara@acme.example' WHERE workspace_id = 'acme'`)
	admin := silent.signIn(acme, session.Admin)
	for _, path := range []string{"/", "/webhooks", "/settings"} {
		admin.get(path).status(http.StatusOK).hasNot("ail about webhooks", "gets mail", "sends no mail", "mara@acme.example")
		silent.signIn(acme, session.Viewer).get(path).status(http.StatusOK).hasNot("ail about webhooks", "mara@acme.example")
	}
	admin.post("/settings", url.Values{"name": {"Acme Care"}}).to()
	w := testkit.Must(eventlog.NewWorkspaces(silent.pool, silent.clock.Now).Get(t.Context(), acme))(t)
	if w.Name != "Acme Care" || w.NotifyEmail != "mara@acme.example" {
		t.Errorf("saved %+v", w)
	}
}

// TestOverviewSaysThatDataIsBehind: entries that are not shown yet are counted.
func TestOverviewSaysThatDataIsBehind(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.seed(acme)
	p := s.signIn(acme, session.Viewer)
	p.get("/").has("Up to date")
	s.exec(`UPDATE log_checkpoint SET position = position - 7 WHERE workspace_id = $1`, acme)
	p.get("/").has("7 changes not shown yet")
	s.exec(`UPDATE log_checkpoint SET quarantined = true WHERE workspace_id = $1`, acme)
	p.get("/").has(stopped)
}

// stopped is what pages of data say of a workspace that is quarantined.
const stopped = "The data has stopped at an entry"

// TestPagesOfDataSayThatItHasStopped: nobody takes what has stopped for what is. Other pages have the
// menu's mark alone.
func TestPagesOfDataSayThatItHasStopped(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.seed(acme)
	p, other := s.signIn(acme, session.Viewer), s.signIn(beta, session.Viewer)
	pages := []string{"/data", "/data/invoices", "/data/invoices/in_1", "/events", "/search?q=nobody", "/search"}
	for _, path := range pages {
		p.get(path).status(http.StatusOK).hasNot(stopped)
	}
	s.exec(`UPDATE log_checkpoint SET quarantined = true WHERE workspace_id = $1`, acme)
	for _, path := range pages {
		if n := strings.Count(p.get(path).status(http.StatusOK).has(mark).body, stopped); n != 1 {
			t.Errorf("%s says it %d times", path, n)
		}
	}
	p.get("/events?live=1").status(http.StatusOK).hasNot(stopped) // the page around it says so
	p.get("/audit").status(http.StatusOK).has(mark).hasNot(stopped)
	other.get("/data").status(http.StatusOK).hasNot(stopped)
}

// TestMenuDoesNotWait: while somebody has locked the webhooks, pages about other things
// come without the mark.
func TestMenuDoesNotWait(t *testing.T) {
	t.Parallel()
	s := setupWith(t, patient(), func(c *Config) { c.BesideTimeout = time.Second }) // so it is not the pool that ends the wait
	s.seed(acme)
	p := s.signIn(acme, session.Viewer)
	p.get("/audit").has(mark)
	err := pg.InTx(t.Context(), testkit.OwnerConn(t, s.pool), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `LOCK TABLE webhook IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		p.within(t, "/audit").status(http.StatusOK).hasNot(mark)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, func() error {
		p.get("/audit").has(mark)
		return context.Cause(t.Context())
	})
}
