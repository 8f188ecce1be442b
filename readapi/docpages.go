package readapi

import (
	"net/http"
	"strconv"

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

// newPages makes the pages of the documentation, by path.
func newPages(info openapi.Info, keys *signingkey.Keys, document []byte) (map[string]page, error) {
	const html = "text/html; charset=utf-8"
	pages := map[string]page{"/": {"/", answer.Redirect("docs")}}
	add := func(path, route, contentType, policy string, body []byte) {
		pages[path] = page{route, answer.NewPage(contentType, policy, body)}
	}
	body, err := reference.Page(info)
	if err != nil {
		return nil, err
	}
	add("/docs", "/docs", html, reference.Policy(body), body)
	add("/docs/openapi.json", "/docs/openapi.json", "application/json", "", document)
	if body, err = reference.KeysPage(info, keys); err != nil {
		return nil, err
	}
	add(reference.KeysPath, reference.KeysPath, html, reference.Policy(body), body)
	if body, err = reference.KeysText(info, keys); err != nil {
		return nil, err
	}
	add(reference.KeysTextPath, reference.KeysTextPath, "text/plain; charset=utf-8", "", body)
	for _, status := range reference.Statuses() {
		if body, err = reference.ErrorPage(status); err != nil {
			return nil, err
		}
		add("/docs/errors/"+strconv.Itoa(status), "/docs/errors/{status}", html, reference.Policy(body), body)
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
