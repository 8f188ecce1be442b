//go:build outside

package console

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

// TestBrowserPhoneMenu: on a phone the navigation is one row, and its menu opens with the keyboard,
// without scripts too.
func TestBrowserPhoneMenu(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.seed(acme)
	b := s.enter(acme, session.Admin)
	b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	for _, width := range []int64{360, 390, 768} {
		b.do(chromedp.EmulateViewport(width, 800))
		b.visit("/requests")
		b.fits("the closed menu")
		if top := script[float64](b, `document.querySelector("main").getBoundingClientRect().top`); top > 64 {
			t.Errorf("at %d px the content begins at %.0f px", width, top)
		}
		const shown = `document.querySelector("nav a[href='/audit']").checkVisibility()`
		if script[bool](b, shown) {
			t.Errorf("at %d px the menu is open", width)
		}
		b.reach("the menu", `document.activeElement.matches(".menu > summary")`)
		b.do(chromedp.KeyEvent(kb.Enter))
		b.until("the menu opens", shown)
		b.fits("the open menu")
	}
	b.enterOn("Audit")
	b.sees("Every sign-in and every change")
	b.do(chromedp.EmulateViewport(1280, 900))
	b.until("on a desktop there is no button", `!document.querySelector(".menu").checkVisibility() && document.querySelector("nav").checkVisibility()`)
}
