package readapi_test

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

// TestPagesWithoutAKey: the reference, the description and the pages that the types of
// errors lead to need no key, and have the headers of all answers.
func TestPagesWithoutAKey(t *testing.T) {
	t.Parallel()
	keys := testkit.Must(signingkey.Parse(testkit.Must(signingkey.New(rand.Reader))(t)))(t)
	s := newStand(t, func(c *readapi.Config) { c.Signing = keys })
	info := openapi.Info{BaseURL: "https://api.example.com", DocsURL: docsURL}
	list := testkit.Must(reference.Pages(info, keys, reference.Under(reference.Root)))(t)
	pages := map[string][]byte{
		"/docs/openapi.json":        testkit.Must(openapi.Document(info))(t),
		"/docs/entries.schema.json": testkit.Must(openapi.EntrySchema(domain.EntryTypes()...))(t),
		"/docs/keys.txt":            testkit.Must(reference.KeysText(info, keys))(t),
		"/llms.txt":                 reference.LLMs(info, list),
		"/robots.txt":               []byte("User-agent: *\nAllow: /docs\nAllow: /llms.txt\nDisallow: /\n"),
	}
	for _, p := range list {
		path := "/" + reference.Under(reference.Root)(p.Path)
		pages[path], pages[path+".md"] = p.HTML, p.Markdown
	}
	for _, path := range []string{"/docs", "/docs.md", "/docs/invoices", "/docs/guides/changing-keys.md", "/docs/errors/400", "/docs/errors/503.md", "/docs/keys"} {
		if pages[path] == nil {
			t.Errorf("there is no page %s", path)
		}
	}
	for path, want := range pages {
		whole := s.exchange(http.MethodGet, path, "")
		if whole.status != http.StatusOK || !bytes.Equal(whole.body, want) {
			t.Errorf("%s is answered %d with %d bytes, want %d", path, whole.status, len(whole.body), len(want))
		}
		for _, encoding := range []string{"identity", "gzip", "zstd"} {
			r := s.exchange(http.MethodGet, path, "", "Accept-Encoding", encoding)
			checkHeaders(t, path, r)
			if !bytes.Equal(unpack(t, r), want) {
				t.Errorf("%s in %s is another page", path, encoding)
			}
			if again := s.exchange(http.MethodGet, path, "", "Accept-Encoding", encoding, "If-None-Match", r.header.Get("ETag")); again.status != http.StatusNotModified || len(again.body) > 0 {
				t.Errorf("%s again is answered %d with %d bytes", path, again.status, len(again.body))
			}
			head := s.exchange(http.MethodHead, path, "", "Accept-Encoding", encoding)
			if head.status != http.StatusOK || len(head.body) > 0 || head.header.Get("Content-Length") != r.header.Get("Content-Length") {
				t.Errorf("HEAD %s is answered %d with %v", path, head.status, head.header)
			}
		}
		if r := s.exchange(http.MethodOptions, path, ""); r.status != http.StatusNoContent {
			t.Errorf("OPTIONS %s is answered %d", path, r.status)
		}
		if r := s.exchange(http.MethodPost, path, ""); r.status != http.StatusMethodNotAllowed {
			t.Errorf("POST %s is answered %d", path, r.status)
		}
		if r := s.exchange(http.MethodGet, path+"?api_key=x", ""); r.status != http.StatusBadRequest {
			t.Errorf("%s with a key in the URL is answered %d", path, r.status)
		}
		policy := whole.header.Get("Content-Security-Policy")
		if strings.HasPrefix(whole.header.Get("Content-Type"), "text/html") != strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s is %s with the policy %q", path, whole.header.Get("Content-Type"), policy)
		}
	}
	for _, path := range []string{"/docs/", "/docs/guides", "/docs/invoices/", "/docs/none.md", "/docs/errors/418", "/docs/openapi", "/Docs", "/docs/keys/", "/docs/keys.json"} {
		if r := s.exchange(http.MethodGet, path, ""); r.status != http.StatusUnauthorized {
			t.Errorf("%s, which does not exist, is answered %d", path, r.status)
		}
	}
}

// TestRootLeadsToTheReference: a browser at the base address is led to the reference.
func TestRootLeadsToTheReference(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	request := testkit.Must(written(t.Context(), s.server.Listener.Addr().String(), http.MethodGet, "/", ""))(t)
	client := *s.server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	to := testkit.Must(response.Location())(t)
	if response.StatusCode != http.StatusFound || to.Path != "/docs" {
		t.Errorf("/ is answered %d, to %s", response.StatusCode, to)
	}
}
