//go:build outside

package console

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestBrowserReference: the reference is searched and followed by its menu, which marks
// where one is, and is whole without scripts.
func TestBrowserReference(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.open()
	for _, a := range []appearance{{"light", 1280, "light"}, {"dark", 1280, "dark"}, {"small", 360, "light"}} {
		b.appear(a)
		b.visit("/api")
		b.judge("reference, " + a.name)
		b.picture("reference-" + a.name)
	}
	b.appear(appearance{"light", 1280, "light"})
	b.visit("/api")
	b.write("#words", "net_due")
	b.until("the field is found first", `document.querySelector("#found a")?.hash === "#object-invoice.net_due"`)
	b.judge("reference, searched")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until("the field is shown", `location.hash === "#object-invoice.net_due" && document.querySelector(":target").getBoundingClientRect().top >= 0`)
	b.write("#words", "nothing has these words")
	b.sees("Nothing has these words.")
	b.write("#words", " ")
	b.press("List events")
	b.until("the menu marks it", `document.querySelector("nav [aria-current]")?.hash === "#listEvents"`)

	b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	b.visit("/sign-in")
	b.visit("/api#getInvoice")
	b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: false}))
	b.until("the operation is there", `document.querySelector("#getInvoice [data-language=Go] code").textContent.includes("func main()")`)
	if script[bool](b, `document.querySelector("#search").checkVisibility()`) {
		t.Error("a search that needs a script is shown without one")
	}
}
