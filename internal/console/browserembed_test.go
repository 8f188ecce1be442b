//go:build outside

package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestBrowserEmbed: the page of a product of another site shows the console in a
// frame, in a browser that keeps no cookies for other sites but partitioned ones. Pages
// there renew themselves, and forms are sent. The page of somebody else shows nothing.
func TestBrowserEmbed(t *testing.T) {
	t.Parallel()
	var s *bundle
	console := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httputil.NewSingleHostReverseProxy(testkit.Must(url.Parse(s.server.URL))(t)).ServeHTTP(w, r)
	}))
	t.Cleanup(console.Close)
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		link := console.URL + s.link(session.Link{WorkspaceID: acme, Role: session.Admin, Person: "dana", Embed: true})
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>Product</title><iframe src="%s?to=/webhooks" width="1000" height="800"></iframe>`, link)
	})
	// localhost and 127.0.0.1 are two sites for a browser.
	elsewhere := func(server *httptest.Server) string {
		t.Cleanup(server.Close)
		return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	}
	product, stranger := elsewhere(httptest.NewTLSServer(page)), elsewhere(httptest.NewTLSServer(page))
	s = setup(t, func(c *Config) { c.URL, c.EmbedOrigins = console.URL, web.List{product} })
	b := s.open(chromedp.Flag("ignore-certificate-errors", true), chromedp.Flag("test-third-party-cookie-phaseout", true))

	b.base = product
	b.visit("/")
	frame := b.frame(console.URL + "/webhooks")
	frame.sees("Add the first webhook")
	frame.until("there is no button to sign out", `!document.body.innerText.includes("Sign out")`)
	frame.press("Add the first webhook")
	frame.write("#address", "https://192.168.1.9/in")
	frame.sees("is not a public address") // by a script's request, in the frame's session
	frame.write("#address", "https://hooks.acme.example/in")
	frame.press("Add webhook")
	frame.sees("Signing secret")

	b.base = console.URL
	b.visit("/keys")
	b.sees("You need a sign-in link") // a tab has nothing of the frame's session
	b.base = stranger
	b.visit("/")
	b.until("the frame", `document.querySelector("iframe") !== null`)
	frame = b.frame("")
	frame.until("the browser refuses", `location.href.startsWith("chrome-error:")`)
}

// frame waits for the frame of another site in a page whose address begins with a text.
func (b *tab) frame(address string) (frame *tab) {
	b.t.Helper()
	testkit.Eventually(b.t, func() error {
		targets, err := chromedp.Targets(b.ctx)
		if err != nil {
			return err
		}
		for _, target := range targets {
			if target.Type == "iframe" && strings.HasPrefix(target.URL, address) {
				ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithTargetID(target.TargetID))
				b.t.Cleanup(cancel)
				frame = &tab{b.t, ctx, ""}
				return nil
			}
		}
		return fmt.Errorf("there is no frame of %q: %+v", address, targets)
	})
	return frame
}
