package pages

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// Search serves the page that finds what people name: an id, an invoice's number, a client's or
// contractor's name, an event, a request.
type Search struct {
	Data   *Data
	Events *Events
}

// Routes returns the routes of the page.
func (p *Search) Routes() []web.Route {
	return []web.Route{{Method: http.MethodGet, Pattern: "/search", Access: web.SignedIn, Heavy: true, Handle: p.page}}
}

// longestName bounds what a search for a name costs.
const longestName = 100

type searchBody struct {
	Text   string
	Found  []*table
	Unread bool // not everything could be looked at
}

// page shows what was found, or leads to it if it is one thing.
func (p *Search) page(r *web.Request) error {
	body := &searchBody{Text: r.Query("q")}
	if strings.HasPrefix(body.Text, "req_") || strings.HasPrefix(body.Text, "req-") {
		return r.Redirect("/requests?find=" + url.QueryEscape(body.Text))
	}
	if domain.IsID(body.Text) {
		switch _, err := p.Events.find(r, body.Text); {
		case err == nil:
			return r.Redirect("/events/" + url.PathEscape(body.Text))
		case !errors.Is(err, web.ErrNotFound):
			return err
		}
	}
	if body.Text != "" {
		for i := range p.Data.lists {
			t, err := p.in(r, &p.Data.lists[i], body.Text)
			if err != nil {
				return err
			}
			switch {
			case t == nil:
				body.Unread = true
			case len(t.Rows) > 0:
				body.Found = append(body.Found, t)
			}
		}
	}
	if len(body.Found) == 1 && len(body.Found[0].Rows) == 1 {
		return r.Redirect(body.Found[0].Rows[0].Href)
	}
	return r.Show("search", web.View{Title: cmp.Or(body.Text, "Search"), Section: "search", Body: body})
}

// in finds the rows of one list; nil: it could not be read in time.
func (p *Search) in(r *web.Request, l *list, text string) (*table, error) {
	all := &table{List: l, columns: l.Columns}
	if !l.paged {
		return all, nil
	}
	reader, ask := p.Data.Reader, p.Data.ask(r, l.Path, nil, relatedSize)
	with := func(column, value string) func() (*readapi.Page, error) {
		return func() (*readapi.Page, error) { return reader.With(r.Context(), ask, column, value, nil) }
	}
	var ways []func() (*readapi.Page, error)
	if domain.IsID(text) {
		ways = append(ways, with("id", text))
	}
	switch l.Slug {
	case "invoices":
		numbers := slices.Compact([]string{text, strings.ToUpper(text)})
		for _, number := range numbers {
			ways = append(ways, with("number", number))
		}
		if !strings.ContainsAny(text, "0123456789") { // a name, for which many invoices need not be looked through
			break
		}
		for _, number := range numbers {
			ways = append(ways, func() (*readapi.Page, error) { return reader.Numbered(r.Context(), ask, number) })
		}
	case "clients", "contractors":
		if utf8.RuneCountInString(text) > longestName {
			break
		}
		ways = append(ways, func() (*readapi.Page, error) { return reader.Named(r.Context(), ask, text) })
	}
	for _, way := range ways {
		page, err := way()
		if err != nil {
			return nil, err
		}
		if page.Status != http.StatusOK {
			return nil, nil //nolint:nilnil // it could not be read
		}
		t, err := p.Data.table(r.Context(), r, l, page)
		if err != nil {
			return nil, err
		}
		for _, found := range t.Rows {
			if !slices.ContainsFunc(all.Rows, func(known dataRow) bool { return known.Href == found.Href }) {
				all.Rows = append(all.Rows, found)
			}
		}
	}
	return all, nil
}
