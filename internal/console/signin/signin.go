// Package signin has the pages for signing in and out: sign-in links, the identity
// provider, and the choice of a workspace.
package signin

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/identity"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// Pages are the pages for signing in and out.
type Pages struct {
	Sessions *session.Store
	Provider *identity.Provider // nil: only sign-in links sign people in
}

// signInBody is what the sign-in page is made from.
type signInBody struct {
	Provider bool   // there is an identity provider
	Away     bool   // it has not answered yet
	To       string // the page to go to afterwards
	Ended    string // web.EndedReading and so on; empty: no session ended
}

func (p *Pages) signInPage(r *web.Request) error {
	body := signInBody{Provider: p.Provider != nil, To: web.Local(r.Query("to")), Ended: r.Query("ended")}
	body.Away = body.Provider && !p.Provider.Ready()
	return r.Show("sign-in", web.View{Title: "Sign in", Wide: true, Body: body})
}

// linkBody is what the page of a sign-in link is made from.
type linkBody struct {
	Link *session.Link // nil: it does not work
	Path string
}

// linkPage shows where a link leads without using it up, because mail programs and
// chats open links to preview them.
func (p *Pages) linkPage(r *web.Request) error {
	l, err := p.Sessions.FindLink(r.Context(), r.Path("token"))
	return showLink(r, l, err)
}

func showLink(r *web.Request, l *session.Link, err error) error {
	status := http.StatusOK
	switch {
	case errors.Is(err, session.ErrLink):
		status = http.StatusNotFound
	case err != nil:
		return err
	}
	return r.ShowStatus(status, "sign-in-link", web.View{Title: "Sign in", Wide: true, Body: linkBody{l, r.URL.Path}})
}

func (p *Pages) useLink(r *web.Request) error {
	l, err := p.Sessions.UseLink(r.Context(), r.Path("token"))
	if err != nil {
		return showLink(r, nil, err)
	}
	person := session.Person{Name: l.Person, Subject: l.ID}
	return p.begin(r, person, []session.Grant{{Workspace: l.WorkspaceID, Role: l.Role}}, "/", "with a sign-in link")
}

// embed opens the console in a frame of a product, whose server made the link. Nothing
// previews a frame, so it needs no button.
func (p *Pages) embed(r *web.Request) error {
	if !r.Framed() || r.Method != http.MethodGet {
		return web.ErrNotFramed
	}
	l, err := p.Sessions.UseEmbedLink(r.Context(), r.Path("token"))
	if err != nil {
		return err
	}
	person := session.Person{Name: l.Person, Subject: l.ID}
	return p.begin(r, person, []session.Grant{{Workspace: l.WorkspaceID, Role: l.Role}}, web.Local(r.Query("to")), "in a frame")
}

// begin signs a person in, to the first of the grants, and redirects the browser.
func (p *Pages) begin(r *web.Request, person session.Person, grants []session.Grant, to, how string) error {
	o := session.Opening{Person: person, WorkspaceID: grants[0].Workspace, Grants: grants, SignedIn: r.Now, How: how}
	// An earlier session of this browser ends, so that its token no longer works.
	if old, err := p.Sessions.Find(r.Context(), web.SessionToken(r), false); err == nil {
		o.Replaces = old
	}
	if !r.Framed() { // a frame keeps no form, and leaves that of a tab alone
		to = resumeDraft(r, &o, to)
	}
	token, expires, err := p.Sessions.Open(r.Context(), o)
	if err != nil {
		return err
	}
	web.SetSession(r, token, expires.Sub(r.Now))
	return r.Redirect(to)
}

// resumeDraft returns the page with a form of this person that was sent too late, in its
// workspace. Another person's form is not shown, but dropped.
func resumeDraft(r *web.Request, o *session.Opening, to string) (page string) {
	for _, g := range o.Grants {
		if page := r.DraftPage(g.Workspace, o.Person); page != "" {
			o.WorkspaceID = g.Workspace
			return page
		}
	}
	r.DropDraft()
	return to
}

func (p *Pages) signOut(r *web.Request) error {
	if err := p.Sessions.SignOut(r.Context(), r.Session); err != nil {
		return err
	}
	web.ClearSession(r)
	r.DropDraft()
	r.W.Header().Set("Clear-Site-Data", `"cache"`)
	return r.Redirect("/sign-in?did=signed-out")
}

// workspaceRow is a workspace that the person may look at.
type workspaceRow struct {
	ID, Name string
	Role     session.Role
	Current  bool
}

func (p *Pages) workspacesPage(r *web.Request) error {
	var ids []string
	for _, g := range r.Session.Grants {
		ids = append(ids, g.Workspace)
	}
	names, err := p.Sessions.Workspaces(r.Context(), ids)
	if err != nil {
		return err
	}
	var list []workspaceRow
	for _, g := range r.Session.Grants {
		if name, ok := names[g.Workspace]; ok {
			list = append(list, workspaceRow{g.Workspace, name, g.Role, g.Workspace == r.Session.WorkspaceID})
		}
	}
	slices.SortFunc(list, func(x, y workspaceRow) int {
		return cmp.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name))
	})
	return r.Show("workspaces", web.View{Title: "Workspaces", Body: list})
}

// switchWorkspace replaces the session by one in another workspace, with another
// token and the same absolute limit.
func (p *Pages) switchWorkspace(r *web.Request) error {
	wanted := r.Path("workspace")
	if !slices.ContainsFunc(r.Session.Grants, func(g session.Grant) bool { return g.Workspace == wanted }) {
		return &domain.UnknownWorkspaceError{WorkspaceID: wanted}
	}
	token, expires, err := p.Sessions.Open(r.Context(), session.Opening{
		Person: r.Session.Person, WorkspaceID: wanted, Grants: r.Session.Grants, SignedIn: p.Sessions.SignedIn(r.Session),
		How: "from another workspace", Replaces: r.Session,
	})
	if err != nil {
		return err
	}
	web.SetSession(r, token, max(expires.Sub(r.Now), time.Second))
	return r.Redirect("/")
}
