package console

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// keyForm is the form of a new key: as it was sent, and what is wrong with it.
type keyForm struct {
	Name        string
	Permissions []permissionRow
	Expires     string // never, a number of days, or date
	Date        string // the last day on which it works, when Expires is date
	Faults      map[string]string
}

func (c *Console) keyNewPage(a *ask) error {
	return c.showKeyForm(a, http.StatusOK, &keyForm{Permissions: permissionRows(0), Expires: "365"})
}

func (c *Console) showKeyForm(a *ask, status int, f *keyForm) error {
	return c.showStatus(a, status, "key-new", view{Title: "New API key", Section: "keys", Body: f})
}

// keyShown is what the one page that shows a key's secret is made from.
type keyShown struct {
	Key     *access.Record
	Secret  string
	URL     string
	Rotated bool
	OldEnds time.Time // of the secret before; zero: it has ended
}

func (c *Console) keyCreate(a *ask) error {
	f := &keyForm{Name: a.form("name"), Expires: a.form("expires"), Date: a.form("date"), Faults: map[string]string{}}
	chosen, err := access.ParsePermissions(a.r.PostForm["permission"])
	var invalid *access.InvalidError
	if errors.As(err, &invalid) {
		f.Faults["permissions"] = "Choose at least one permission."
		named := access.PermissionsOf(namedPermissions(a.r.PostForm["permission"])...)
		if named.Has(access.MarginRead) {
			// Never granted silently: it is switched on, and the person looks again.
			named |= access.PermissionsOf(access.PayRead)
			f.Faults["permissions"] = "margin:read needs pay:read, which is ticked now as well. Check it and create the key again."
		}
		chosen = named
	} else if err != nil {
		return err
	}
	f.Permissions = permissionRows(chosen)
	expires := f.expiry(a.now)
	if len(f.Faults) > 0 {
		return c.showKeyForm(a, http.StatusUnprocessableEntity, f)
	}
	r, secret, err := c.cfg.Keys.Create(a.ctx, access.NewKey{
		WorkspaceID: a.session.WorkspaceID, Name: f.Name, Permissions: chosen, ExpiresAt: expires,
	})
	if f.refused(err) {
		return c.showKeyForm(a, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	detail := "with " + chosen.String()
	if !r.ExpiresAt.IsZero() {
		detail += ", until " + r.ExpiresAt.Format(time.RFC3339)
	}
	c.record(a, audit.Change{Action: audit.KeyCreate, ObjectID: r.ID, ObjectName: r.Name, Detail: detail})
	return c.show(a, "key-shown", view{
		Title: "Your new API key", Section: "keys", Body: keyShown{Key: r, Secret: secret.Reveal(), URL: c.cfg.APIURL},
	})
}

func namedPermissions(names []string) []access.Permission {
	list := make([]access.Permission, len(names))
	for i, n := range names {
		list[i] = access.Permission(n)
	}
	return list
}

// expiry reads when the key ends: after some days, or with the end of a day.
func (f *keyForm) expiry(now time.Time) time.Time {
	switch f.Expires {
	case "never":
		return time.Time{}
	case "date":
		day, err := time.Parse(time.DateOnly, f.Date)
		if err != nil || !day.AddDate(0, 0, 1).After(now) {
			f.Faults["expires"] = "Choose a day that is not in the past."
			return time.Time{}
		}
		return day.AddDate(0, 0, 1)
	}
	days, err := strconv.Atoi(f.Expires)
	if err != nil || days < 1 || days > 3650 {
		f.Faults["expires"] = "Choose when the key ends."
		return time.Time{}
	}
	return now.AddDate(0, 0, days)
}

// refused notes what the store says about the input; false for other errors.
func (f *keyForm) refused(err error) bool {
	var tooMany *access.TooManyKeysError
	if errors.As(err, &tooMany) {
		f.Faults["form"] = "This workspace has " + formatCount(access.MaxLiveKeys) + " live keys, which is the most it may have. Revoke one first."
		return true
	}
	found := false
	for _, one := range allOf(err) {
		var invalid *access.InvalidError
		if !errors.As(one, &invalid) {
			continue
		}
		found = true
		field := map[string]string{"name": "name", "scopes": "permissions", "expires": "expires"}[invalid.Field]
		if field == "" {
			field = "form"
		}
		f.Faults[field] = "It " + invalid.Problem + "."
	}
	return found
}

// allOf takes joined errors apart.
func allOf(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // the outermost is the joined one
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

func (c *Console) keyRotatePage(a *ask) error { return c.showKey(a, "key-rotate") }

func (c *Console) keyRotate(a *ask) error {
	hours, err := strconv.Atoi(a.form("overlap"))
	if err != nil || hours < 0 || hours > int(access.MaxOverlap/time.Hour) {
		body, err := c.key(a)
		if err != nil {
			return err
		}
		body.Fault = "Choose 0 to 24 hours."
		return c.showStatus(a, http.StatusUnprocessableEntity, "key-rotate", view{Title: body.Key.Name, Section: "keys", Body: body})
	}
	overlap := time.Duration(hours) * time.Hour
	r, secret, err := c.cfg.Keys.Rotate(a.ctx, a.session.WorkspaceID, a.path("key"), overlap)
	if err != nil {
		return err
	}
	shown := keyShown{Key: r, Secret: secret.Reveal(), URL: c.cfg.APIURL, Rotated: true}
	detail := "the old one ended at once"
	if overlap > 0 && len(r.Replaced) > 0 {
		shown.OldEnds = r.Replaced[0].EndsAt
		detail = "the old one ends " + r.Replaced[0].EndsAt.Format(time.RFC3339)
	}
	c.record(a, audit.Change{Action: audit.KeyRotate, ObjectID: r.ID, ObjectName: r.Name, Detail: detail})
	return c.show(a, "key-shown", view{Title: "Your new API key", Section: "keys", Body: shown})
}

func (c *Console) keyRevokePage(a *ask) error { return c.showKey(a, "key-revoke") }

func (c *Console) keyRevoke(a *ask) error {
	r, err := c.cfg.Keys.Revoke(a.ctx, a.session.WorkspaceID, a.path("key"))
	if err != nil {
		return err
	}
	c.record(a, audit.Change{Action: audit.KeyRevoke, ObjectID: r.ID, ObjectName: r.Name})
	return a.see("/keys?did=key-revoked")
}
