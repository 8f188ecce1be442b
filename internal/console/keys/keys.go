// Package keys has the pages of API keys.
package keys

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/console/chart"
	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Pages are the pages of API keys.
type Pages struct {
	Pool   *pgxpool.Pool
	Store  *access.Store
	Counts *rollup.Reader
	APIURL string // for the example with a new key
}

// keyRow is a key as lists show it.
type keyRow struct {
	*access.Record
	State access.State
	Last  use   // the last request; empty: the request log has none
	Usage usage // in the chosen time
}

// matches tells whether a key's name has a text in it, or a prefix of its secrets begins
// with it.
func (k keyRow) matches(text string) bool {
	return strings.Contains(strings.ToLower(k.Name), strings.ToLower(text)) || strings.HasPrefix(k.Prefix, text) ||
		slices.ContainsFunc(k.Replaced, func(s access.ReplacedSecret) bool { return strings.HasPrefix(s.Prefix, text) })
}

// listBody is what the list of keys is made from.
type listBody struct {
	Live, Ended []keyRow
	Full        bool // no further key can be created
	Max         int
	Any         bool   // there are keys, whether the search finds them or not
	Search      string // in names and prefixes; empty: all keys
	Chosen      chart.Choice
	Switch      []chart.Link // to other times for the use of keys
}

func (p *Pages) listPage(r *web.Request) error {
	records, err := p.Store.List(r.Context(), r.Session.WorkspaceID)
	if err != nil {
		return err
	}
	// The newest first.
	slices.SortStableFunc(records, func(x, y *access.Record) int { return cmp.Compare(y.CreatedAt.UnixMicro(), x.CreatedAt.UnixMicro()) })
	body := listBody{Max: access.MaxLiveKeys, Any: len(records) > 0, Search: strings.TrimSuffix(r.Query("search"), "…"), Full: full(records, r.Now), Chosen: chart.Choose(r.Query("range"), usual)}
	body.Switch = body.Chosen.Switch(func(name string) string { return web.Address("/keys", "search", body.Search, "range", name) })
	var live []string
	for _, k := range records {
		row := keyRow{Record: k, State: k.State(r.Now)}
		switch {
		case !row.matches(body.Search):
		case row.State == access.Live:
			body.Live = append(body.Live, row)
			live = append(live, k.ID)
		default:
			body.Ended = append(body.Ended, row)
		}
	}
	uses, err := lastUses(r.Context(), p.Pool, r.Session.WorkspaceID, live)
	if err != nil {
		return err
	}
	counts, err := p.Counts.KeysByID(r.Context(), r.Session.WorkspaceID, rollup.Last(r.Now, body.Chosen.Width, body.Chosen.Spans), live...)
	if err != nil {
		return err
	}
	for i := range body.Live {
		k := &body.Live[i]
		k.Last, k.Usage = uses[k.ID], usage{counts[k.ID], k.RateLimit}
	}
	return r.Show("keys", web.View{Title: "API keys", Section: "keys", Body: body})
}

// full tells whether a workspace with these keys can have no further one.
func full(records []*access.Record, now time.Time) bool {
	live := 0
	for _, k := range records {
		if k.State(now) == access.Live {
			live++
		}
	}
	return live >= access.MaxLiveKeys
}

// permissionRow is a permission as the pages explain it.
type permissionRow struct {
	Name      access.Permission
	Sensitive bool
	Chosen    bool
}

func permissionRows(chosen access.Permissions) []permissionRow {
	var rows []permissionRow
	for _, p := range access.AllPermissions() {
		rows = append(rows, permissionRow{p, label.Sensitive(p), chosen.Has(p)})
	}
	return rows
}

// keyBody is what the pages of one key are made from.
type keyBody struct {
	Key         keyRow
	Today       int64 // requests since midnight, UTC
	Permissions []permissionRow
	Charts      *charts  // nil on other pages than the key's own
	Callers     []caller // nil on pages that do not show them
	Name        string   // as the form to rename it has it
	Fault       string
}

func (p *Pages) body(r *web.Request) (*keyBody, error) {
	k, err := p.Store.Get(r.Context(), r.Session.WorkspaceID, r.Path("key"))
	if err != nil {
		return nil, err
	}
	today, err := p.Counts.KeysByID(r.Context(), r.Session.WorkspaceID, rollup.Last(r.Now, 24*time.Hour, 1), k.ID)
	if err != nil {
		return nil, err
	}
	return &keyBody{
		Key: keyRow{Record: k, State: k.State(r.Now)}, Today: today[k.ID].Requests, Permissions: permissionRows(k.Permissions), Name: k.Name,
	}, nil
}

// keyPage shows a key, with what it is used for.
func (p *Pages) keyPage(r *web.Request) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	uses, err := lastUses(r.Context(), p.Pool, r.Session.WorkspaceID, []string{body.Key.ID})
	if err != nil {
		return err
	}
	body.Key.Last = uses[body.Key.ID]
	if body.Callers, err = callersOf(r.Context(), p.Pool, r.Session.WorkspaceID, body.Key.ID); err != nil {
		return err
	}
	if body.Charts, err = p.charts(r, body.Key.Record); err != nil {
		return err
	}
	return showKey(r, http.StatusOK, "key", body)
}

// page shows one of the pages of one key.
func (p *Pages) page(name string) web.Handler {
	return func(r *web.Request) error {
		body, err := p.body(r)
		if err != nil {
			return err
		}
		return showKey(r, http.StatusOK, name, body)
	}
}

// revokePage asks whether to revoke a key, and tells who uses it.
func (p *Pages) revokePage(r *web.Request) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	if body.Callers, err = callersOf(r.Context(), p.Pool, r.Session.WorkspaceID, body.Key.ID); err != nil {
		return err
	}
	return showKey(r, http.StatusOK, "key-revoke", body)
}

func showKey(r *web.Request, status int, name string, body *keyBody) error {
	return r.ShowStatus(status, name, web.View{Title: body.Key.Name, Section: "keys", Body: body})
}
