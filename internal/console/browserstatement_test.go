//go:build full && outside

package console

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestStatementInTheBrowser chooses a day on the page of a webhook, sees what became of its
// events, and downloads the statement.
func TestStatementInTheBrowser(t *testing.T) {
	t.Parallel()
	var verifiers func() ([]string, error)
	s := setup(t, func(c *Config) { verifiers = c.Statements.Verifiers })
	r := s.receiver(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("SERVICE-Sequence") == "3" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: r.URL, Name: "Payroll", Events: []string{"all"}}))(t)
	s.deliver()
	for range 3 {
		s.append(acme, "invoice.reversed", `{"invoice_id":"inv_1"}`)
	}
	testkit.Eventually(t, func() error {
		n, _, err := s.webhooks.CountDeliveries(t.Context(), hook.ID, delivery.Query{}, 10)
		if err == nil && n != 3 {
			err = fmt.Errorf("%d were sent", n)
		}
		return err
	})
	b := s.enter(acme, session.Viewer)
	b.press("Webhooks")
	b.press("Payroll")
	b.press("Statement")
	b.sees("What became of the events of one day")
	today := s.clock.Now().Format(time.DateOnly)
	b.until("the day", fmt.Sprintf(`(e => { e.value = %s; return e.value === %[1]s; })(document.querySelector("input[type=date]"))`, quoted(today)))
	b.press("Show")
	b.sees("1 to 3")
	b.sees("Not delivered")
	for _, a := range []appearance{{"dark", 1280, "dark"}, {"small", 360, "light"}, {"light", 1280, "light"}} {
		b.appear(a)
		b.judge("a statement, " + a.name)
		b.fits("a statement, " + a.name)
		b.picture("statement-" + a.name)
	}
	dir := t.TempDir()
	b.do(call(browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir}))
	b.press("Download the signed statement")
	trusted := testkit.Must(signingkey.ParseVerifiers(strings.Join(testkit.Must(verifiers())(t), "\n")))(t)
	var checked *signingkey.Checked
	testkit.Eventually(t, func() error { // Chromium takes the name with an empty file first, and replaces it by the whole one
		file, err := os.ReadFile(filepath.Join(dir, "statement-"+hook.ID+"-"+today+".txt"))
		if err == nil {
			checked, err = trusted.Check(file)
		}
		return err
	})
	if !strings.Contains(checked.Text, "\nsequence 1-3\n") || !strings.Contains(checked.Text, "\ndelivered 2\n") {
		t.Errorf("the file says\n%s", checked.Text)
	}
	b.visit("/webhooks/" + hook.ID + "/statement?day=2999-01-01")
	b.sees("has not begun")
	b.judge("a wrong day")
}
