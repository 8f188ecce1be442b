//go:build outside

package console

import (
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

// TestUseOfKeysInTheBrowser compares keys with their limits, in the list and on the page of
// one, changes the time, and reads the chart as a table.
func TestUseOfKeysInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.seed(acme)
	keys, err := s.keys.List(t.Context(), acme)
	if err != nil {
		t.Fatal(err)
	}
	s.requests(acme, keys[0].ID, 30_000, 75*time.Second)
	b := s.enter(acme, session.Viewer)
	looks := []appearance{{"dark", 1280, "dark"}, {"small", 360, "light"}, {"light", 1280, "light"}}
	b.press("API keys")
	b.sees("Share of limit")
	b.press("30 days")
	b.until("the list is of 30 days", `location.search === "?range=month" && document.querySelector(".switch [aria-current]").innerText === "30 days"`)
	for _, a := range looks {
		b.appear(a)
		b.judge("keys, 30 days, " + a.name)
		b.picture("keys-month-" + a.name)
	}
	b.press("Monthly report")
	b.sees("Share of the limit in the busiest minute")
	for _, name := range []string{"1 hour", "7 days", "30 days", "24 hours"} {
		b.press(name)
		b.until(name, `document.querySelector(".switch [aria-current]").innerText === "`+name+`" && document.querySelectorAll("#use svg.plot .box").length > 1`)
		for _, a := range looks {
			b.appear(a)
			b.judge("use of a key, " + name + ", " + a.name)
			b.picture("key-use-" + name + "-" + a.name)
		}
	}
	b.press("As a table")
	b.sees("Over the limit (429)")

	b.press("Request log")
	for _, name := range []string{"7 days", "30 days"} {
		b.press(name)
		b.until(name, `document.querySelector(".switch [aria-current]").innerText === "`+name+`" && document.querySelectorAll("svg.plot .box").length > 1`)
		for _, a := range looks {
			b.appear(a)
			b.judge("request log, " + name + ", " + a.name)
			b.picture("requests-" + name + "-" + a.name)
		}
	}
	b.write(`input[name="find"]`, "/v1/invoices")
	b.press("Filter")
	b.sees("counted one by one")
	b.all("the time stays chosen", ".switch [aria-current]", `(e) => e.innerText === "30 days"`, "range=month", "find=")
	b.judge("request log, counted")
	b.picture("requests-counted")
}
