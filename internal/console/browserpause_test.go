//go:build outside

package console

import (
	"net/http"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestPauseInTheBrowser pauses a webhook, sees what waits, and resumes it.
func TestPauseInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	r := s.receiver(func(http.ResponseWriter, *http.Request) {})
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: r.URL, Name: "Payroll", Events: []string{"all"}}))(t)
	s.exec(`INSERT INTO attempt_rollup (workspace_id, step, webhook_id, at, outcome, attempts, latency)
		SELECT $1, 60, $2, date_trunc('hour', $3::timestamptz, 'UTC') - g * interval '1 hour', 'success', 100 + g * 37 % 90, '{}' FROM generate_series(1, 23) g`, acme, hook.ID, s.clock.Now())
	s.deliver()
	b := s.enter(acme, session.Admin)
	b.press("Webhooks")
	b.press("Payroll")
	b.press("Pause")
	b.sees("This webhook is paused")
	for range 3 {
		s.append(acme, "invoice.reversed", `{"invoice_id":"inv_1"}`)
	}
	s.show(t.Context())
	for path, text := range map[string]string{"/webhooks/" + hook.ID: "This webhook is paused", "/webhooks": "Paused since", "/": "has been paused since"} {
		b.visit(path)
		b.sees(text)
		b.sees("Waiting: 3 events.")
		for _, a := range []appearance{{"dark", 1280, "dark"}, {"small", 360, "light"}, {"light", 1280, "light"}} {
			b.appear(a)
			b.judge("a paused webhook on " + path + ", " + a.name)
			b.picture("paused-" + map[string]string{"/": "overview", "/webhooks": "list"}[path] + "-" + a.name)
		}
	}
	b.visit("/webhooks/" + hook.ID)
	b.press("Resume")
	b.sees("Waiting messages are being sent, starting with the oldest.")
	b.until("it arrives", `document.querySelectorAll("#live tbody tr").length === 3`)
	if got := testkit.Must(s.webhooks.Get(t.Context(), hook.ID))(t); got.Paused() {
		t.Errorf("resumed: %+v", got)
	}
}
