package pages

import (
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Settings serves the page with the settings of a workspace: its name, and who gets mail about its
// webhooks.
type Settings struct {
	Pool       pg.DB
	Workspaces *eventlog.Workspaces
	Mailer     *mail.Mailer
	Signing    *signingkey.Keys // nil: nothing is signed
	Host       string           // host of the API, with which the names of trees begin
	KeysURL    string           // address of the API's page about signing keys
}

// Routes returns the routes of the page.
func (p *Settings) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Pattern: "/settings", Access: web.SignedIn, Handle: p.page},
		{Method: http.MethodPost, Pattern: "/settings", Access: web.Admin, Handle: p.save},
		{Method: http.MethodPost, Pattern: "/settings/test-mail", Access: web.Admin, Handle: p.testMail},
	}
}

// settingsBody is the template data of the page.
type settingsBody struct {
	ID, Name string
	Email    string // as it was typed, or as it is saved
	Saved    string // the addresses that are saved
	Mail     bool   // a mail server is configured
	Faults   web.Faults
	Test     string // why no test mail was sent
	Restored bool
	Trees    []tree // the signed trees of the event feed
	KeysURL  string
}

// tree is a tree of events with the verifier keys of its checkpoints.
type tree struct {
	WithPay bool
	Keys    []string // the current one first
}

func (p *Settings) body(r *web.Request) (*settingsBody, error) {
	w, err := p.Workspaces.Get(r.Context(), r.Session.WorkspaceID)
	if err != nil {
		return nil, err
	}
	b := &settingsBody{ID: w.ID, Name: w.Name, Email: w.NotifyEmail, Saved: w.NotifyEmail, Mail: p.Mailer.Enabled(), KeysURL: p.KeysURL}
	b.Trees, err = p.trees(w.ID)
	return b, err
}

// read reads the form. Without a mail server the form has no field for addresses, so the saved addresses
// stay.
func (b *settingsBody) read(r *web.Request) {
	b.Name = r.Field("name")
	if b.Mail {
		b.Email = r.Field("email")
	}
}

// trees returns the signed trees of a workspace's feed; nil: nothing is signed.
func (p *Settings) trees(workspaceID string) (list []tree, err error) {
	if p.Signing == nil {
		return nil, nil
	}
	for _, s := range eventtree.Sights() {
		keys, err := p.Signing.Verifiers(eventtree.Origin(p.Host, workspaceID, s))
		if err != nil {
			return nil, err
		}
		list = append(list, tree{s == eventtree.WithPay, keys})
	}
	return list, nil
}

// enterName is the fault of a form without the name that it needs.
const enterName = "Enter a name."

func show(r *web.Request, status int, b *settingsBody) error {
	return r.ShowStatus(status, "settings", web.View{Title: "Workspace", Section: "settings", Body: b})
}

func (p *Settings) page(r *web.Request) error {
	b, err := p.body(r)
	if err != nil {
		return err
	}
	if r.Session.MayChange() && r.RestoreDraft() {
		b.Restored = true
		b.read(r)
	}
	return show(r, http.StatusOK, b)
}

func (p *Settings) save(r *web.Request) error {
	b, err := p.body(r)
	if err != nil {
		return err
	}
	before := *b
	b.Faults = web.Faults{}
	b.read(r)
	if err := eventlog.CheckWorkspaceName(b.Name); err != nil {
		if b.Faults["name"] = web.Sentence(err.Error()); b.Name == "" {
			b.Faults["name"] = enterName
		}
	}
	email, err := eventlog.ParseNotifyEmail(b.Email)
	if err != nil {
		b.Faults["email"] = web.Sentence(err.Error())
	}
	if len(b.Faults) > 0 {
		return show(r, http.StatusUnprocessableEntity, b)
	}
	var newName, newEmail *string
	if b.Name != before.Name {
		newName = &b.Name
	}
	if email != before.Saved {
		newEmail = &email
	}
	if newName != nil || newEmail != nil {
		if err := p.change(r, newName, newEmail); err != nil {
			return err
		}
	}
	return r.Redirect("/settings?did=settings-saved")
}

// change saves the values that are not nil.
func (p *Settings) change(r *web.Request, name, email *string) error {
	return pg.InTx(r.Context(), p.Pool, func(tx pgx.Tx) error {
		if err := p.Workspaces.Set(r.Context(), tx, r.Session.WorkspaceID, name, email); err != nil {
			return err
		}
		if name == nil {
			return nil
		}
		return access.BumpRevision(r.Context(), tx, r.Session.WorkspaceID)
	})
}

func (p *Settings) testMail(r *web.Request) error {
	err := p.Mailer.Test(r.Context(), r.Session.WorkspaceID)
	if errors.Is(err, mail.ErrNoServer) || errors.Is(err, mail.ErrNobody) || errors.Is(err, mail.ErrTests) {
		b, bodyErr := p.body(r)
		if bodyErr != nil {
			return bodyErr
		}
		b.Test = web.Sentence(err.Error())
		return show(r, http.StatusConflict, b)
	}
	if err != nil {
		return err
	}
	return r.Redirect("/settings?did=test-mail")
}
