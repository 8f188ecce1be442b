package keys

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// secretBody is what the one page that shows a key's secret is made from.
type secretBody struct {
	Key     *access.Record
	Secret  string
	URL     string
	Rotated bool
	OldEnds time.Time // when the secret before ends; zero: it has ended
}

func (p *Pages) showSecret(r *web.Request, body secretBody) error {
	body.URL = p.APIURL
	return r.Show("key-shown", web.View{Title: "Your new API key", Section: "keys", Body: body})
}

func (p *Pages) newPage(r *web.Request) error {
	records, err := p.Store.List(r.Context(), r.Session.WorkspaceID)
	if err != nil {
		return err
	}
	if full(records, r.Now) {
		return &web.PageError{Status: http.StatusConflict, Title: "No further key", Text: fullText(), Back: "/keys"}
	}
	if r.RestoreDraft() {
		f, _, err := readForm(r)
		if err != nil {
			return err
		}
		f.Faults, f.Restored = nil, true
		return showForm(r, http.StatusOK, f)
	}
	return showForm(r, http.StatusOK, &form{Permissions: permissionRows(0), Expires: "365"})
}

func (p *Pages) create(r *web.Request) error {
	f, chosen, err := readForm(r)
	if err != nil {
		return err
	}
	expires := f.expiry(r.Now)
	f.addFaults(access.CheckName(f.Name)) // the store is not asked while anything else is wrong
	if len(f.Faults) > 0 {
		return showForm(r, http.StatusUnprocessableEntity, f)
	}
	k, secret, err := p.Store.Create(r.Context(), access.NewKey{
		WorkspaceID: r.Session.WorkspaceID, Name: f.Name, Permissions: chosen, ExpiresAt: expires,
	})
	if f.addFaults(err) {
		return showForm(r, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	return p.showSecret(r, secretBody{Key: k, Secret: secret.Reveal()})
}

func (p *Pages) rotate(r *web.Request) error {
	hours, err := strconv.Atoi(r.Field("overlap"))
	if err != nil || hours < 0 || hours > int(access.MaxOverlap/time.Hour) {
		body, err := p.body(r)
		if err != nil {
			return err
		}
		body.Fault = "Choose 0 to 24 hours."
		return showKey(r, http.StatusUnprocessableEntity, "key-rotate", body)
	}
	overlap := time.Duration(hours) * time.Hour
	k, secret, err := p.Store.Rotate(r.Context(), r.Session.WorkspaceID, r.Path("key"), overlap)
	if err != nil {
		return err
	}
	body := secretBody{Key: k, Secret: secret.Reveal(), Rotated: true}
	if overlap > 0 && len(k.Replaced) > 0 {
		body.OldEnds = k.Replaced[0].EndsAt
	}
	return p.showSecret(r, body)
}

func (p *Pages) rename(r *web.Request) error {
	name := r.Field("name")
	_, err := p.Store.Rename(r.Context(), r.Session.WorkspaceID, r.Path("key"), name)
	var invalid *access.InvalidError
	if errors.As(err, &invalid) {
		body, err := p.body(r)
		if err != nil {
			return err
		}
		body.Name, body.Fault = name, "It "+invalid.Problem+"."
		return showKey(r, http.StatusUnprocessableEntity, "key-rename", body)
	}
	if err != nil {
		return err
	}
	return r.Redirect("/keys/" + url.PathEscape(r.Path("key")) + "?did=key-renamed")
}

func (p *Pages) revoke(r *web.Request) error {
	if _, err := p.Store.Revoke(r.Context(), r.Session.WorkspaceID, r.Path("key")); err != nil {
		return err
	}
	return r.Redirect("/keys?did=key-revoked")
}
