//go:build outside

package console

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/frontproxy"
)

// TestSignInBehindAFrontProxy signs in with a link through nginx and Caddy, as they are
// configured in packaging/proxy, and changes something: the cookie is bound to the host,
// redirects stay on it, forms are from the same origin, and no log of the proxy holds the
// link or the cookie.
func TestSignInBehindAFrontProxy(t *testing.T) {
	t.Parallel()
	for _, kind := range frontproxy.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := setup(t, func(c *Config) { c.URL = "https://" + frontproxy.ConsoleHost })
			p := frontproxy.Start(t, kind, frontproxy.Config{Console: s.server.Listener.Addr().String()})
			client := p.Client(t, true, "127.0.0.1")
			client.Jar = testkit.Must(cookiejar.New(nil))(t)
			visit := func(method, path string, form url.Values, headers ...string) *reply {
				t.Helper()
				r := testkit.Must(http.NewRequestWithContext(t.Context(), method, "https://"+frontproxy.ConsoleHost+path, strings.NewReader(form.Encode())))(t)
				if method == http.MethodPost {
					r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				}
				for i := 0; i < len(headers); i += 2 {
					r.Header.Set(headers[i], headers[i+1])
				}
				resp, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				return &reply{resp, t, string(testkit.Must(io.ReadAll(resp.Body))(t))}
			}
			if to := visit(http.MethodGet, "/keys", nil).to(); !strings.HasPrefix(to, "/sign-in") {
				t.Errorf("without a session /keys leads to %s", to)
			}
			link := s.link(session.Link{WorkspaceID: acme})
			visit(http.MethodGet, link, nil).status(http.StatusOK).has("Acme Advisors")
			in := visit(http.MethodPost, link, nil, "Origin", "https://"+frontproxy.ConsoleHost)
			if to := in.to(); to != "/" {
				t.Errorf("signed in to %s", to)
			}
			cookie := in.Cookies()[0]
			if cookie.Name != "__Host-ledgerfeed-session" || !cookie.Secure || !cookie.HttpOnly || cookie.Path != "/" || cookie.Domain != "" {
				t.Errorf("the cookie is %v", cookie)
			}
			page := visit(http.MethodGet, "/keys", nil).status(http.StatusOK)
			if len(page.Header.Values("Strict-Transport-Security")) != 1 || !strings.Contains(page.Header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("the page has %v", page.Header)
			}
			form := url.Values{"name": {"Reporting"}, "permission": {"events:read"}, "expires": {"never"}}
			visit(http.MethodPost, "/keys", form, "Origin", "https://evil.example").status(http.StatusForbidden)
			visit(http.MethodPost, "/keys", form, "Origin", "https://"+frontproxy.ConsoleHost)
			if keys := testkit.Must(s.keys.List(t.Context(), acme))(t); len(keys) != 1 || keys[0].Name != "Reporting" {
				t.Errorf("the keys are %v", keys)
			}
			visit(http.MethodPost, "/keys", url.Values{"name": {strings.Repeat("x", 100<<10)}}, "Origin", "https://"+frontproxy.ConsoleHost).
				status(http.StatusBadRequest).has("</html>")
			testkit.Eventually(t, func() error { // a line may follow its answer
				if n := strings.Count(p.Logs(t), `"/keys`); n < 5 {
					return fmt.Errorf("the log has %d requests:\n%s", n, p.Logs(t))
				}
				return nil
			})
			for _, secret := range []string{strings.TrimPrefix(link, "/sign-in/"), cookie.Value} {
				if strings.Contains(p.Logs(t), secret) {
					t.Errorf("a log holds %s", secret)
				}
			}
		})
	}
}
