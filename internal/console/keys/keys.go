// Package keys has the pages of API keys.
package keys

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// RequestCounts tells how many requests each key of a workspace has made since
// midnight, UTC.
type RequestCounts interface {
	Today(ctx context.Context, workspaceID string, now time.Time) (byKey map[string]int64, err error)
}

// Pages are the pages of API keys.
type Pages struct {
	Store  *access.Store
	Counts RequestCounts
	APIURL string // for the example with a new key
}

// keyRow is a key as lists show it.
type keyRow struct {
	*access.Record
	State access.State
	Today int64 // requests since midnight, UTC
}

// listBody is what the list of keys is made from.
type listBody struct {
	Live, Ended []keyRow
	Full        bool // no further key can be created
	Max         int
}

func (p *Pages) listPage(r *web.Request) error {
	records, err := p.Store.List(r.Context(), r.Session.WorkspaceID)
	if err != nil {
		return err
	}
	today, err := p.Counts.Today(r.Context(), r.Session.WorkspaceID, r.Now)
	if err != nil {
		return err
	}
	// The newest first.
	slices.SortStableFunc(records, func(x, y *access.Record) int { return cmp.Compare(y.CreatedAt.UnixMicro(), x.CreatedAt.UnixMicro()) })
	body := listBody{Max: access.MaxLiveKeys}
	for _, k := range records {
		row := keyRow{k, k.State(r.Now), today[k.ID]}
		if row.State == access.Live {
			body.Live = append(body.Live, row)
		} else {
			body.Ended = append(body.Ended, row)
		}
	}
	body.Full = len(body.Live) >= access.MaxLiveKeys
	return r.Show("keys", web.View{Title: "API keys", Section: "keys", Body: body})
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
	Permissions []permissionRow
	Fault       string
}

func (p *Pages) body(r *web.Request) (*keyBody, error) {
	k, err := p.Store.Get(r.Context(), r.Session.WorkspaceID, r.Path("key"))
	if err != nil {
		return nil, err
	}
	today, err := p.Counts.Today(r.Context(), r.Session.WorkspaceID, r.Now)
	if err != nil {
		return nil, err
	}
	return &keyBody{
		Key:         keyRow{k, k.State(r.Now), today[k.ID]},
		Permissions: permissionRows(k.Permissions),
	}, nil
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

func showKey(r *web.Request, status int, name string, body *keyBody) error {
	return r.ShowStatus(status, name, web.View{Title: body.Key.Name, Section: "keys", Body: body})
}
