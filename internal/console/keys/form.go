package keys

import (
	"errors"
	"strconv"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// form is the form of a new key: as it was sent, and what is wrong with it.
type form struct {
	Name        string
	Permissions []permissionRow
	Expires     string // never, a number of days, or date
	Date        string // the last day on which it works, when Expires is date
	Faults      web.Faults
	Restored    bool // it was sent after its session had ended
}

// fullText is the fault of a new key in a workspace that has as many as it may have.
func fullText() string {
	return "This workspace has " + label.Count(access.MaxLiveKeys) + " live keys, which is the most it may have. Revoke one first."
}

func showForm(r *web.Request, status int, f *form) error {
	return r.ShowStatus(status, "key-new", web.View{Title: "New API key", Section: "keys", Body: f})
}

// readForm reads the form that was sent and returns the permissions that it
// chooses.
func readForm(r *web.Request) (f *form, chosen access.Permissions, err error) {
	f = &form{Name: r.Field("name"), Expires: r.Field("expires"), Date: r.Field("date"), Faults: web.Faults{}}
	chosen, err = access.ParsePermissions(r.PostForm["permission"])
	var invalid *access.InvalidError
	switch {
	case errors.As(err, &invalid):
		f.Faults["permissions"] = "Choose at least one permission."
		chosen = access.PermissionsOf(named(r.PostForm["permission"])...)
		if chosen.Has(access.MarginRead) {
			// pay:read is ticked, but never granted without the person's consent.
			chosen |= access.PermissionsOf(access.PayRead)
			f.Faults["permissions"] = "margin:read needs pay:read, which is ticked now as well. Check it and create the key again."
		}
	case err != nil:
		return nil, 0, err
	}
	f.Permissions = permissionRows(chosen)
	return f, chosen, nil
}

func named(names []string) []access.Permission {
	list := make([]access.Permission, len(names))
	for i, n := range names {
		list[i] = access.Permission(n)
	}
	return list
}

// expiry reads when the key ends: after some days, or at the end of a day.
func (f *form) expiry(now time.Time) time.Time {
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
		f.Faults["expires"] = "Choose when the key expires."
		return time.Time{}
	}
	return now.AddDate(0, 0, days)
}

// addFaults adds what the store finds wrong with the input. It returns false for
// other errors.
func (f *form) addFaults(err error) bool {
	var tooMany *access.TooManyKeysError
	if errors.As(err, &tooMany) {
		f.Faults["form"] = fullText()
		return true
	}
	found := false
	for _, one := range web.Joined(err) {
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
