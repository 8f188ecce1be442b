package readapi

import (
	"net/http"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

// page is a page of the documentation, which needs no key (docs/contract/decisions.md,
// "Responses").
type page struct {
	route string // for the log and the metrics
	*answer.Page
}

// robots lets search engines read the documentation alone.
const robots = "User-agent: *\nAllow: " + reference.Root + "\nAllow: /llms.txt\nDisallow: /\n"

// newPages makes the pages of the documentation, by path.
func newPages(info openapi.Info, keys *signingkey.Keys, document []byte) (map[string]page, error) {
	list, err := reference.Pages(info, keys, reference.Under(reference.Root))
	if err != nil {
		return nil, err
	}
	keysText, err := reference.KeysText(info, keys)
	if err != nil {
		return nil, err
	}
	pages := map[string]page{"/": {"/", answer.Redirect("docs")}}
	add := func(path, route, contentType, policy string, body []byte) {
		pages[path] = page{route, answer.NewPage(contentType, policy, body)}
	}
	const plain = "text/plain; charset=utf-8"
	for _, p := range list {
		path, route := reference.Root, reference.Root
		if p.Path != "" {
			path, route = path+"/"+p.Path, route+"/{page}"
		}
		add(path, route, "text/html; charset=utf-8", reference.Policy(p.HTML), p.HTML)
		add(path+".md", route+".md", "text/markdown; charset=utf-8", "", p.Markdown)
	}
	for path, text := range map[string][]byte{reference.KeysTextPath: keysText, "/llms.txt": reference.LLMs(info, list), "/robots.txt": []byte(robots)} {
		add(path, path, plain, "", text)
	}
	entries, err := openapi.EntrySchema(domain.EntryTypes()...)
	if err != nil {
		return nil, err
	}
	for path, body := range map[string][]byte{"/docs/openapi.json": document, "/docs/entries.schema.json": entries} {
		add(path, path, "application/json", "", body)
	}
	return pages, nil
}

// answerPages answers requests for pages of the documentation and passes all others on.
func answerPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := requestOf(r)
		p, found := q.api.pages[r.URL.EscapedPath()]
		if !found {
			next.ServeHTTP(w, r)
			return
		}
		q.page = p.route
		q.countRefusals()
		if r.Method == http.MethodOptions {
			q.out.Methods()
			return
		}
		q.out.Page(p.Page)
	})
}
