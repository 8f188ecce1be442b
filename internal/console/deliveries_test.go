package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// manyEvents appends n events of invoices.
func (s *bundle) manyEvents(workspace string, n int) {
	s.t.Helper()
	for done := 0; done < n; {
		var drafts []domain.Draft
		for ; done < n && len(drafts) < 1000; done++ {
			drafts = append(drafts, testkit.Must(domain.NewDraft(workspace, "invoice.reversed", fmt.Appendf(nil,
				`{"invoice_id":"inv_many_%d","invoice_number":"2027-%d","client_id":"cl_harbour","period":"2026-11"}`, done, done)))(s.t))
		}
		testkit.Must(s.log.Append(s.t.Context(), drafts...))(s.t)
	}
	s.show(s.t.Context())
}

// link finds the address of a link on a page by its text.
func (a *answer) link(text string) string {
	a.t.Helper()
	found := regexp.MustCompile(`href="([^"]+)">` + regexp.QuoteMeta(text) + `</a>`).FindStringSubmatch(a.body)
	if found == nil {
		a.t.Fatalf("%s: no link %q\n%s", a.Request.URL, text, a.body)
	}
	return strings.ReplaceAll(found[1], "&amp;", "&")
}

// TestDeliveriesAreSearched searches by what a delivery is about and when it was sent, and
// goes through the pages both ways.
func TestDeliveriesAreSearched(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, _ := s.seed(acme)
	here := "/webhooks/" + well
	p := s.signIn(acme, session.Viewer)
	first := p.get(here).status(http.StatusOK).has("1–25 of 40").hasNot("Newer", "Newest")
	second := p.get(first.link("Older")).status(http.StatusOK).has("26–40 of 40", "Newest")
	if back := p.get(second.link("Newer")).status(http.StatusOK).has("1–25 of 40"); strings.Contains(back.body, "Newer") {
		t.Error("there is a newer page than the first")
	}
	for _, about := range []string{"2026-0004", "inv_0004"} {
		found := p.get(here+"?about="+about).status(http.StatusOK).has("2026-0004", "1 delivery", `value="`+about+`"`).hasNot("2026-0008", "Pause updates")
		event := strings.SplitN(regexp.MustCompile(`/deliveries/([^"]+)`).FindStringSubmatch(found.body)[1], "_wh_", 2)[0]
		p.get(here+"?about="+event).status(http.StatusOK).has("2026-0004", "1 delivery").hasNot("2026-0008")
	}
	p.get(here + "?about=%00").status(http.StatusOK).has("No delivery of the last 30 days matches")
	p.get(here + "?about=2026-0004&state=failed").status(http.StatusOK).hasNot(`href="/deliveries/`)
	moment := func(ago time.Duration) string {
		return url.QueryEscape(s.clock.Now().Add(-ago).UTC().Format("2006-01-02T15:04:05"))
	}
	// Positions 40, 39, 38 were sent 4, 8 and 12 minutes ago.
	p.get(here+"?from="+moment(10*time.Minute)).status(http.StatusOK).has("1–2 of 2", "From <span data-zone>(UTC)</span>")
	p.get(here+"?from="+moment(10*time.Minute)+"&to="+moment(6*time.Minute)).status(http.StatusOK).has("1–1 of 1", "te_0038").hasNot("te_0039")
	p.get(here + "?from=yesterday").status(http.StatusOK).has("1–25 of 40")
}
