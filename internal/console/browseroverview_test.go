//go:build outside

package console

import (
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestOverviewInTheBrowser signs in to the overview, changes the time that its charts
// show, and follows what needs attention.
func TestOverviewInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, failing, _ := s.seed(acme)
	keys, err := s.keys.List(t.Context(), acme)
	if err != nil {
		t.Fatal(err)
	}
	s.exec(`UPDATE api_key SET expires_at = $2 WHERE key_id = $1`, keys[0].ID, s.clock.Now().Add(6*24*time.Hour))
	s.use(acme, keys[0].ID, well, 3000, 29*24*time.Hour)
	s.use(acme, keys[1].ID, well, 900, 50*time.Minute)
	s.fail(acme, failing)
	b := s.enter(acme, session.Viewer)
	b.until("signing in leads here", `location.pathname === "/" && document.querySelector("nav [aria-current]").innerText.includes("Overview")`)
	b.sees("Needs attention")
	for _, name := range []string{"1 hour", "24 hours", "7 days", "30 days"} {
		b.press(name)
		b.until(name, `document.querySelector(".switch [aria-current]").innerText === "`+name+`" && document.querySelectorAll("svg.plot").length === 6 &&
			[...document.querySelectorAll("svg.plot")].every((plot) => plot.querySelectorAll(".box").length > 0)`)
		for _, a := range []appearance{{"dark", 1280, "dark"}, {"small", 360, "light"}, {"light", 1280, "light"}} {
			b.appear(a)
			b.judge("overview, " + name + ", " + a.name)
			b.picture("overview-" + name + "-" + a.name)
		}
	}
	b.press("As a table")
	b.sees("Client errors")
	b.press("Anomalies")
	b.sees("Entries that had no effect")
}

// fail counts attempts to a webhook that failed for every cause.
func (s *bundle) fail(workspace, webhookID string) {
	s.t.Helper()
	w := rollup.NewWriter(s.pool, testkit.Discard())
	for i, outcome := range attempt.Outcomes() {
		for k := range 90 {
			at := s.clock.Now().Add(-time.Duration(k*k*(i+3)) * time.Minute / 2)
			w.AddAttempt(&rollup.Attempt{At: at, WorkspaceID: workspace, WebhookID: webhookID, Outcome: string(outcome), Duration: 90 * time.Millisecond})
		}
	}
	if err := w.Write(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}
