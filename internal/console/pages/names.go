package pages

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// rowID identifies a row of a list.
type rowID struct{ Slug, ID string }

// names are the rows that a page mentions and that its reader may see, with what people call them.
// A name is empty if the row has none.
type names struct {
	of     map[rowID]string
	unread bool // not all could be read
}

// names finds what people call the rows that a page mentions by their ids, with one statement for each
// list. It finds the rows that a key with the session's permissions would get. If that takes longer than
// p.BesideTimeout, the page shows ids.
func (p *Data) names(r *web.Request, rows []rowID) *names {
	ids := map[*list][]string{}
	for _, row := range rows {
		if l, err := p.list(row.Slug); err == nil && l.paged && row.ID != "" && !slices.Contains(ids[l], row.ID) {
			ids[l] = append(ids[l], row.ID)
		}
	}
	n := &names{of: map[rowID]string{}}
	ctx, cancel := context.WithTimeout(r.Context(), p.BesideTimeout)
	defer cancel()
	for l, ids := range ids {
		found, err := p.Reader.Names(ctx, readapi.AskNames{
			WorkspaceID: r.Session.WorkspaceID, Pay: r.Session.MaySeePay(), Resource: l.Resource, Field: l.nameField(), IDs: ids,
		})
		if err != nil {
			r.Warn("cannot read the names of rows", err)
			n.unread = true
		}
		for id, name := range found {
			n.of[rowID{l.Slug, id}] = name
		}
	}
	return n
}

// nameField is the field with the name of a row; empty: the rows have none.
func (l *list) nameField() string {
	if l.Slug == "payments" { // which direction they go in is no name
		return ""
	}
	return l.Columns[0]
}

// kindOf is what a row of a list is.
func kindOf(slug string) string {
	if slug == "time-entries" {
		return "time entry"
	}
	return strings.TrimSuffix(slug, "s")
}

// reference is what a page mentions: its kind, what people call it, its id, and the address of its page.
type reference struct {
	Kind, Text, ID string
	Href           string // empty: it has no page
}

// refer makes a reference to a row, with a link if the row has a page. Removed time entries and charges
// keep their pages, which say when they were removed.
func (n *names) refer(kind string, row rowID, text string) reference {
	name, found := n.of[row]
	ref := reference{Kind: strings.ReplaceAll(kind, "_", " "), Text: cmp.Or(text, name, row.ID), ID: row.ID}
	if found || n.unread || row.Slug == "time-entries" || row.Slug == "charges" {
		ref.Href = rowAddress(row.Slug, row.ID)
	}
	return ref
}

// rowOfRequest returns the row that the path of a request names; zero: none.
func rowOfRequest(r *row) rowID {
	rest, ok := strings.CutPrefix(r.Route, "/v1/")
	slug, rest, named := strings.Cut(rest, "/")
	if !ok || !named || !strings.HasPrefix(rest, "{id}") {
		return rowID{}
	}
	parts := strings.Split(r.Path, "/")
	if len(parts) < 4 {
		return rowID{}
	}
	id, err := url.PathUnescape(parts[3])
	if err != nil || !domain.IsID(id) {
		return rowID{}
	}
	return rowID{slug, id}
}
