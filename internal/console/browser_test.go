//go:build outside

package console

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// The browser must be installed: the tests are not skipped without it. The tests named
// TestBrowser… run at a landing, the others in full.
const (
	chromium   = "/usr/bin/chromium" // apt-get install chromium
	axeFile    = "testdata/browser/axe.min.js"
	axeSum     = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c" // SHA-256
	pictures   = "../../.ci/out/console"                                            // of full runs
	tabTimeout = 6 * time.Minute                                                    // of all that one test does, on a busy machine
)

// tab is a page in a real browser.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string
}

// open starts a browser for one test.
func (s *bundle) open(flags ...chromedp.ExecAllocatorOption) *tab {
	s.t.Helper()
	if _, err := os.Stat(chromium); err != nil {
		s.t.Fatalf("the tests need Debian's chromium: %v", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox)
	options = append(options, flags...)
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, tabTimeout)
	s.t.Cleanup(func() { cancel(); closeTab(); stop() })
	tab := &tab{s.t, ctx, s.server.URL}
	tab.do(
		chromedp.EmulateViewport(1280, 900),
		call(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "America/New_York"}),
		call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: marksLeaving}),
	)
	return tab
}

// enter signs the browser in with a link, as a person does.
func (s *bundle) enter(workspace string, role session.Role) *tab {
	s.t.Helper()
	b := s.open()
	b.visit(s.link(session.Link{WorkspaceID: workspace, Role: role, Person: "dana@northwind.example"}))
	b.press("Sign in")
	b.sees("Webhooks")
	return b
}

// marksLeaving makes a page set testLeaving when a link or a form is used, because
// another page will replace it and nothing on this one counts any more.
const marksLeaving = `(() => {
	const leaves = (event) => { if (!event.defaultPrevented) window.testLeaving = true; };
	addEventListener("click", (event) => { if (event.target.closest("a[href]:not([href^='#'])")) leaves(event); });
	addEventListener("submit", leaves);
})()`

// call is a command of the browser whose result is ignored.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, command, params)
		return chromedp.Void{}, err
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// script evaluates an expression in the page.
func script[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits until an expression is true on a page that is not being left.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	seen := false
	defer func() {
		if !seen {
			b.t.Logf("the page says:\n%s", script[string](b, `location.pathname + "\n" + document.body.innerText`))
		}
	}()
	testkit.Eventually(b.t, func() error {
		// While one page replaces another, evaluating fails.
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!window.testLeaving && ("+expression+")"))
		if err == nil && !ok {
			err = errors.New("not so yet")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
	seen = true
}

func (b *tab) sees(text string) {
	b.t.Helper()
	b.until(text, fmt.Sprintf(`document.body.innerText.includes(%s)`, quoted(text)))
}

// lists waits until a list that renews itself has a text. Its filter, which has
// every type of event, does not count.
func (b *tab) lists(text string) {
	b.t.Helper()
	b.until("in the list: "+text, fmt.Sprintf(`document.querySelector("#live").innerText.includes(%s)`, quoted(text)))
}

// all waits until the address has the search, a selector finds elements, and a
// function in JavaScript is true for each of them.
func (b *tab) all(what, selector, holds string, search ...string) {
	b.t.Helper()
	b.until(what, fmt.Sprintf(`((found) => found.length > 0 && found.every(%s))([...document.querySelectorAll(%s)]) && %s.every((part) => location.search.includes(part))`,
		holds, quoted(selector), testkit.Must(json.Marshal(append([]string{}, search...)))(b.t)))
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// press clicks the button or link with a name.
func (b *tab) press(name string) {
	b.t.Helper()
	found := fmt.Sprintf(`[...document.querySelectorAll("button, a, summary, label")].find((e) => !e.hidden && e.innerText.trim() === %s)`, quoted(name))
	b.until("the button "+name, `document.readyState === "complete" && Boolean(`+found+`)`)
	b.do(chromedp.Click(chromedp.JSPath(found)))
}

func (b *tab) write(selector, text string) {
	b.t.Helper()
	b.until("the field "+selector, fmt.Sprintf(`document.querySelector(%s) !== null`, quoted(selector)))
	script[bool](b, fmt.Sprintf(`(document.querySelector(%s).value = "", true)`, quoted(selector)))
	b.do(chromedp.SendKeys(selector, text))
}

// picture saves a picture of the page in full runs.
func (b *tab) picture(name string) {
	b.t.Helper()
	if !testkit.Full() {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(pictures, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// appearance is how the browser shows pages.
type appearance struct {
	name   string
	width  int64
	scheme string
}

func (b *tab) appear(a appearance) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(a.width, 900), call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: a.scheme}},
	}))
}

// judge fails if axe finds a fault on the page.
func (b *tab) judge(where string) {
	b.t.Helper()
	axe, err := os.ReadFile(axeFile)
	if err != nil {
		b.t.Fatal(err)
	}
	script[bool](b, string(axe)+"\n;true")
	// A colour on its way to another one is neither.
	script[bool](b, `Promise.all(document.getAnimations().map((a) => a.finished.catch(() => null))).then(() => true)`)
	b.fits(where)
	found := script[string](b, `axe.run(document, {resultTypes: ["violations"]}).then((r) =>
		r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.target + "  " + n.failureSummary.replaceAll("\n", " "))).join("\n"))`)
	if found != "" {
		b.t.Errorf("%s: axe finds\n%s", where, found)
	}
}

// fits checks that nothing of the page is beyond the window's edge or cut off at the
// edge of its container. Text as it was sent may scroll, and text that ends in an ellipsis is cut
// off on purpose.
func (b *tab) fits(where string) {
	b.t.Helper()
	cut := script[string](b, `[...document.querySelectorAll("body *")].filter((e) =>
		e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1 && getComputedStyle(e).overflowX !== "visible" && getComputedStyle(e).textOverflow !== "ellipsis" && !e.closest("pre, .scroll, input, select, svg, thead"))
		.map((e) => e.tagName + "." + e.className + " " + e.scrollWidth + " in " + e.clientWidth).join("\n")`)
	if cut != "" {
		b.t.Errorf("%s: cut off:\n%s", where, cut)
	}
	if wide := script[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
		b.t.Errorf("%s: the page is %d px wider than the window", where, wide)
	}
}

// TestBrowserAxeSees makes sure that axe finds faults.
func TestBrowserAxeSees(t *testing.T) {
	t.Parallel()
	b := setup(t).open()
	b.visit("/sign-in")
	script[bool](b, `(document.querySelector("main").innerHTML = "<img src='/x.png'><button></button>", true)`)
	axe, err := os.ReadFile(axeFile)
	if err != nil {
		t.Fatal(err)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(axe)); sum != axeSum {
		t.Errorf("axe has the checksum %s, want %s", sum, axeSum)
	}
	script[bool](b, string(axe)+"\n;true")
	found := script[string](b, `axe.run(document).then((r) => r.violations.map((v) => v.id).join(" "))`)
	for _, want := range []string{"image-alt", "button-name"} {
		if !strings.Contains(found, want) {
			t.Errorf("axe finds %q, not %s", found, want)
		}
	}
}
