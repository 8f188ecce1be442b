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
type names struct {
	of     map[rowID]called
	unread bool // not all could be read
}

// called is what people call a row: its name, and its amount of money, such as 998.59 EUR. Each is empty if
// the row has none.
type called struct{ Name, Amount string }

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
	n := &names{of: map[rowID]called{}}
	ctx, cancel := context.WithTimeout(r.Context(), p.BesideTimeout)
	defer cancel()
	for l, ids := range ids {
		found, err := p.bases(ctx, readapi.AskBases{WorkspaceID: r.Session.WorkspaceID, Pay: r.Session.MaySeePay(), Resource: l.Resource, IDs: ids})
		if err != nil {
			r.Warn("cannot read the names of rows", err)
			n.unread = true
		}
		for id, base := range found {
			c := called{base.text(l.Columns[0]), base.amount()}
			if l.Slug == "payments" { // which direction they go in is no name
				c = called{Name: c.Amount}
			}
			n.of[rowID{l.Slug, id}] = c
		}
	}
	return n
}

// bases reads rows by their ids, with the fields that every key sees.
func (p *Data) bases(ctx context.Context, ask readapi.AskBases) (map[string]record, error) {
	found, err := p.Reader.Bases(ctx, ask)
	bases := map[string]record{}
	for id, base := range found {
		read, wrong := readRow([]byte(base))
		bases[id], err = read, cmp.Or(err, wrong)
	}
	return bases, err
}

// amount is the money that the row is about, such as 998.59 EUR; empty: none.
func (r record) amount() string {
	for _, name := range []string{"gross_amount", "amount", "bill_amount"} {
		if r.text(name) != "" {
			return web.Value(name, r[name])[0] + "\u00a0" + r.text("currency")
		}
	}
	return ""
}

// kindOf is what a row of a list is.
func kindOf(slug string) string {
	if slug == "time-entries" {
		return "time entry"
	}
	return strings.TrimSuffix(slug, "s")
}

// reference is what a page mentions: its kind, what people call it, its id, its amount of money and the
// address of its page.
type reference struct {
	Kind, Text, ID string
	Amount         string // empty: it has none, or Text is the amount
	Href           string // empty: it has no page
}

// refer makes a reference to a row, with a link if the row has a page. Removed time entries and charges
// keep their pages, which say when they were removed.
func (n *names) refer(kind string, row rowID, text string) reference {
	c, found := n.of[row]
	ref := reference{Kind: strings.ReplaceAll(kind, "_", " "), Text: cmp.Or(text, c.Name, row.ID), ID: row.ID, Amount: c.Amount}
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
