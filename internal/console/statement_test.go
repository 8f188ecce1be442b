//go:build full

package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestStatement: a viewer sees what became of a day's events and downloads it signed; what
// the page shows checks it. Other days, workspaces and services are refused in words.
func TestStatement(t *testing.T) {
	t.Parallel()
	var verifiers func() ([]string, error)
	s := setup(t, func(c *Config) { verifiers = c.Statements.Verifiers })
	r := s.receiver(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("SERVICE-Sequence") == "2" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: r.URL, Events: []string{"all"}}))(t)
	here := "/webhooks/" + hook.ID + "/statement"
	s.deliver()
	s.append(acme, "invoice.reversed", `{"invoice_id":"inv_1"}`)
	refused := s.append(acme, "invoice.reversed", `{"invoice_id":"inv_2"}`)
	p := s.signIn(acme, session.Viewer)
	p.get("/webhooks/" + hook.ID).has(`href="` + here + `"`)
	yesterday, today := s.clock.Now().Add(-24*time.Hour).Format(time.DateOnly), s.clock.Now().Format(time.DateOnly)
	key := testkit.Must(verifiers())(t)[0]
	p.get(here).status(http.StatusOK).has(`value="`+yesterday+`"`, strings.ReplaceAll(key, "+", "&#43;"), `href="https://api.example.com/docs/keys"`).hasNot("Download")
	var file string
	testkit.Eventually(t, func() error {
		file = p.get(here + ".txt?day=" + today).status(http.StatusOK).body
		if !strings.Contains(file, "\ndelivered 1\n") || !strings.Contains(file, "\npending 1\n") {
			return errors.New(file)
		}
		return nil
	})
	checked := testkit.Must(testkit.Must(signingkey.ParseVerifiers(key))(t).Check([]byte(file)))(t)
	for _, line := range []string{"workspace acme", "webhook " + hook.ID, "day " + today, "sequence 1-2", "sent 2", "pending 2 " + refused} {
		if !strings.Contains(checked.Text, "\n"+line+"\n") {
			t.Errorf("no %q in\n%s", line, checked.Text)
		}
	}
	got := p.get(here + ".txt?day=" + today)
	if kind, as := got.Header.Get("Content-Type"), got.Header.Get("Content-Disposition"); kind != "text/plain; charset=utf-8" || as != `attachment; filename="statement-`+hook.ID+`-`+today+`.txt"` {
		t.Errorf("the file is %q, %q", kind, as)
	}
	p.get(here+"?day="+today).status(http.StatusOK).has("<dt>Numbers</dt><dd>1 to 2</dd>", "<dt>Delivered</dt><dd>1</dd>", "<dt>Still being tried</dt><dd>1</dd>", refused, here+".txt?day="+today)
	for day, says := range map[string]string{"2999-01-01": "has not begun", "2001-01-01": "past the retention", "soon": "want a date such as"} {
		p.get(here+"?day="+day).status(http.StatusUnprocessableEntity).has(says, `value="`+day+`"`).hasNot("Download")
		p.get(here+".txt?day="+day).status(http.StatusUnprocessableEntity).has(says, "There is no statement of this day")
	}
	p.get(here + ".txt").status(http.StatusUnprocessableEntity)
	other := s.signIn(beta, session.Admin)
	other.get(here).status(http.StatusNotFound)
	other.get(here + ".txt?day=" + today).status(http.StatusNotFound)
}

// TestStatementOfASecondDelivery: an event that was accepted, and is sent again and refused,
// is a failed delivery in the list, and delivered in the statement.
func TestStatementOfASecondDelivery(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var refuse atomic.Bool
	r := s.receiver(func(w http.ResponseWriter, _ *http.Request) {
		if refuse.Load() {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: r.URL, Events: []string{"all"}}))(t)
	s.deliver()
	event := s.append(acme, "invoice.reversed", `{"invoice_id":"inv_1"}`)
	p := s.signIn(acme, session.Admin)
	here := "/webhooks/" + hook.ID + "/statement"
	today := "?day=" + s.clock.Now().Format(time.DateOnly)
	until := func(state policy.State) {
		testkit.Eventually(t, func() error {
			d, err := s.webhooks.Delivery(t.Context(), event+"_"+hook.ID)
			if err == nil && d.State != state {
				err = fmt.Errorf("it is %s", d.State)
			}
			return err
		})
	}
	until(policy.Succeeded)
	refuse.Store(true)
	testkit.Must(s.webhooks.Resend(t.Context(), event+"_"+hook.ID))(t)
	until(policy.Failed)
	p.get(here+today).status(http.StatusOK).has("<dt>Delivered</dt><dd>1</dd>", "<dt>Failed</dt><dd>0</dd>", "accepted once is delivered").hasNot(event)
	p.get(here+".txt"+today).status(http.StatusOK).has("\ndelivered 1\nfailed 0\n", "\nundelivered 0\n")
}

// TestStatementAfterAnEdit: who saves the form of a webhook with another address, and the
// same types, chooses no other types: the day's statement goes on to count what was not sent.
func TestStatementAfterAnEdit(t *testing.T) {
	t.Parallel()
	s := setup(t)
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: "https://hooks.example/", Events: []string{"invoice.reversed"}}))(t)
	here, today := "/webhooks/"+hook.ID, s.clock.Now().Format(time.DateOnly)
	p := s.signIn(acme, session.Admin)
	countedFrom := func() string {
		_, line, _ := strings.Cut(p.get(here+"/statement.txt?day="+today).status(http.StatusOK).body, "\ncounted-from ")
		line, _, _ = strings.Cut(line, "\n")
		return line
	}
	before := countedFrom()
	form := url.Values{"address": {"https://hooks.example/other"}, "choice": {"some"}, "event": {"invoice.reversed"}, "name": {"x; events: all"}, "description": {"x; events: all"}}
	p.get(p.post(here+"/edit", form).to()).has("Saved.", "/other")
	if after := countedFrom(); after != before || before == "" {
		t.Errorf("the events are counted from %s, and before the edit from %s", after, before)
	}
	form.Set("event", "invoice.paid")
	p.get(p.post(here+"/edit", form).to()).has("Saved.")
	if after := countedFrom(); after <= before {
		t.Errorf("after a change of the types the events are counted from %s, as before", after)
	}
}

// TestNoStatements: a service without a key says so.
func TestNoStatements(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config) { c.Statements = nil })
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: "https://hooks.example/", Events: []string{"all"}}))(t)
	p := s.signIn(acme, session.Admin)
	p.get("/webhooks/" + hook.ID + "/statement").status(http.StatusOK).has("has no signing key").hasNot("<form class=\"filters\"")
	p.get("/webhooks/" + hook.ID + "/statement.txt?day=2026-11-22").status(http.StatusConflict).has("Nothing can be signed")
}
