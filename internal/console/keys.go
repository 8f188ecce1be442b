package console

import (
	"cmp"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// keyRow is a key as lists show it.
type keyRow struct {
	*access.Record
	State access.State
	Today int64 // requests since midnight, UTC
}

// keysBody is what the list of keys is made from.
type keysBody struct {
	Live, Ended []keyRow
	Full        bool // no further key may be made
	Max         int
}

func (c *Console) keysPage(a *ask) error {
	rows, err := c.keyRows(a)
	if err != nil {
		return err
	}
	body := keysBody{Max: access.MaxLiveKeys}
	for _, k := range rows {
		if k.State == access.Live {
			body.Live = append(body.Live, k)
		} else {
			body.Ended = append(body.Ended, k)
		}
	}
	body.Full = len(body.Live) >= access.MaxLiveKeys
	return c.show(a, "keys", view{Title: "API keys", Section: "keys", Body: body})
}

// keyRows gives the workspace's keys, the newest first, with their use.
func (c *Console) keyRows(a *ask) ([]keyRow, error) {
	records, err := c.cfg.Keys.List(a.ctx, a.session.WorkspaceID)
	if err != nil {
		return nil, err
	}
	today, err := c.history.today(a.ctx, a.session.WorkspaceID)
	if err != nil {
		return nil, err
	}
	rows := make([]keyRow, len(records))
	for i, r := range records {
		rows[i] = keyRow{r, r.State(a.now), today[r.ID]}
	}
	slices.SortStableFunc(rows, func(x, y keyRow) int { return cmp.Compare(y.CreatedAt.UnixMicro(), x.CreatedAt.UnixMicro()) })
	return rows, nil
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
		rows = append(rows, permissionRow{p, sensitive(p), chosen.Has(p)})
	}
	return rows
}

// keyBody is what the pages of one key are made from.
type keyBody struct {
	Key         keyRow
	Permissions []permissionRow
	Fault       string
}

func (c *Console) key(a *ask) (*keyBody, error) {
	r, err := c.cfg.Keys.Get(a.ctx, a.session.WorkspaceID, a.path("key"))
	if err != nil {
		return nil, err
	}
	today, err := c.history.today(a.ctx, a.session.WorkspaceID)
	if err != nil {
		return nil, err
	}
	return &keyBody{
		Key:         keyRow{r, r.State(a.now), today[r.ID]},
		Permissions: permissionRows(r.Permissions),
	}, nil
}

func (c *Console) keyPage(a *ask) error { return c.showKey(a, "key") }

func (c *Console) showKey(a *ask, page string) error {
	body, err := c.key(a)
	if err != nil {
		return err
	}
	return c.show(a, page, view{Title: body.Key.Name, Section: "keys", Body: body})
}
