package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestPauseAndResume pauses a webhook, finds on every page that it is, and what waits, sends
// one delivery by hand, and resumes it.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := setup(t)
	got := make(chan string, 10)
	r := s.receiver(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("SERVICE-Event-Id") })
	next := func() string {
		t.Helper()
		return testkit.Receive(t, got, "a webhook")
	}
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: r.URL, Name: "Payroll", Events: []string{"invoice.reversed"}}))(t)
	here := "/webhooks/" + hook.ID
	s.deliver()
	first := s.append(acme, "invoice.reversed", `{"invoice_id":"inv_0"}`)
	next()
	p, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)
	viewer.get(here).status(http.StatusOK).hasNot(">Pause</button>")
	viewer.post(here+"/pause", nil).status(http.StatusForbidden)
	viewer.get("/").hasNot(mark, "paused")

	p.get(here).has(">Pause</button>")
	p.get(p.post(here+"/pause", nil).to()).
		has("The webhook is paused.", "This webhook is paused", "Nothing waits for it yet.", ">Resume</button>").hasNot("Send test", "Send missed", ">Pause</button>")
	waits := []string{
		s.append(acme, "invoice.reversed", `{"invoice_id":"inv_1"}`),
		s.append(acme, "invoice.reversed", `{"invoice_id":"inv_2"}`),
	}
	s.append(acme, "charge.deleted", `{"charge_id":"ch_1"}`) // it did not choose this
	s.show(t.Context())
	const told = "Waiting: 2 events. The oldest event will be too old to send on"
	viewer.get(here).has("paused", told).hasNot(">Resume</button>")
	viewer.get("/webhooks").has("paused", "Paused since", told)
	viewer.get("/").has("0 working, 1 paused", "has been paused since", told, mark)
	p.post(here+"/test", nil).status(http.StatusConflict).has("The webhook is paused")
	p.post(here+"/missed", url.Values{"since": {s.clock.Now().Add(-time.Hour).Format(time.RFC3339)}}).status(http.StatusConflict).has("The webhook is paused")
	p.post("/deliveries/"+first+"_"+hook.ID+"/send-again", nil).to()
	if id := next(); id != first {
		t.Errorf("sent again: %s, want %s", id, first)
	}
	viewer.post(here+"/resume", nil).status(http.StatusForbidden)
	p.get(p.post(here+"/resume", nil).to()).has("The webhook is resumed.", "Send test").hasNot("This webhook is paused")
	if a, b := next(), next(); !strings.Contains(strings.Join(waits, " "), a) || !strings.Contains(strings.Join(waits, " "), b) || a == b {
		t.Errorf("%s and %s arrived, want %v", a, b, waits)
	}
	viewer.get("/").has("1 working").hasNot("paused", mark)
	p.get("/audit").has("Paused webhook", "Resumed webhook")
}

// TestForgottenPause: what has waited for too long is named before it is resumed.
func TestForgottenPause(t *testing.T) {
	t.Parallel()
	s := setup(t)
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: "https://hooks.example/", Events: []string{"all"}}))(t)
	testkit.Must(hook.Pause(t.Context(), s.webhooks))(t)
	s.append(acme, "invoice.reversed", `{"invoice_id":"inv_1"}`)
	s.show(t.Context())
	s.clock.Advance(31 * 24 * time.Hour)
	s.signIn(acme, session.Viewer).get("/webhooks/"+hook.ID).has("Nothing waits for it yet.", "1 event has waited too long already", "will not be sent")
}
