package pages

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// SignIn serves the pages for signing in and out.
type SignIn struct {
	Sessions *session.Store
	Provider *session.Provider // nil: only sign-in links sign people in
}

// signInBody is the template data of the sign-in page.
type signInBody struct {
	Provider bool   // there is an identity provider
	Away     bool   // the provider has not answered yet
	To       string // the page to go to afterwards
	Ended    string // web.EndedReading and so on; empty: no session ended
}

func (p *SignIn) signInPage(r *web.Request) error {
	body := signInBody{Provider: p.Provider != nil, To: web.Local(r.Query("to")), Ended: r.Query("ended")}
	body.Away = body.Provider && !p.Provider.Ready()
	return r.Show("sign-in", web.View{Title: "Sign in", Wide: true, Body: body})
}

// linkBody is the template data of the page of a sign-in link.
type linkBody struct {
	Link *session.Link // nil: the link does not work
	Path string
}

// linkPage shows where a link leads without using it up, because mail programs and
// chats open links to preview them.
func (p *SignIn) linkPage(r *web.Request) error {
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

func (p *SignIn) useLink(r *web.Request) error {
	l, err := p.Sessions.UseLink(r.Context(), r.Path("token"))
	if err != nil {
		return showLink(r, nil, err)
	}
	person := session.Person{Name: l.Person, Subject: l.ID}
	return p.begin(r, person, []session.Grant{{Workspace: l.WorkspaceID, Role: l.Role}}, "/", "with a sign-in link")
}

// embed opens the console in a product's frame, with a link that the product's server created. It
// needs no button, because no program previews frames.
func (p *SignIn) embed(r *web.Request) error {
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

// begin signs a person in, to the workspace of their draft or else of the first grant, and
// redirects the browser.
func (p *SignIn) begin(r *web.Request, person session.Person, grants []session.Grant, to, how string) error {
	o := session.Opening{Person: person, WorkspaceID: grants[0].Workspace, Grants: grants, SignedIn: r.Now, How: how}
	// An earlier session of this browser ends, so that its token no longer works.
	if old, err := p.Sessions.FindAnywhere(r.Context(), web.SessionToken(r)); err == nil {
		o.Replaces = old
	}
	if !r.Framed() { // a frame keeps no draft, and leaves that of a tab alone
		to = resumeDraft(r, &o, to)
	}
	token, expires, err := p.Sessions.Open(r.Context(), o)
	if err != nil {
		return err
	}
	web.SetSession(r, token, expires.Sub(r.Now))
	return r.Redirect(to)
}

// resumeDraft returns the page of this person's draft and sets o to the draft's workspace. If there
// is none, it deletes any draft of another person and returns to.
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

func (p *SignIn) signOut(r *web.Request) error {
	if err := p.Sessions.SignOut(r.Context(), r.Session); err != nil {
		return err
	}
	web.ClearSession(r)
	r.DropDraft()
	r.W.Header().Set("Clear-Site-Data", `"cache"`)
	return r.Redirect("/sign-in?did=signed-out")
}

// workspaceRow is a workspace that the person may open.
type workspaceRow struct {
	ID, Name string
	Role     session.Role
	Current  bool
}

func (p *SignIn) workspacesPage(r *web.Request) error {
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

// switchWorkspace replaces the session with one in another workspace, with a new token and the same
// absolute limit.
func (p *SignIn) switchWorkspace(r *web.Request) error {
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

const (
	// IdentityReturnPath is where the identity provider sends the browser back to.
	IdentityReturnPath = "/sign-in/identity/return"
	// attemptLifetime is how long a person may take to sign in at the provider.
	attemptLifetime = 10 * time.Minute
)

// refused returns the page for a failed sign-in, with a text for the person.
func refused(text string) error {
	return &web.PageError{Status: http.StatusForbidden, Title: "Could not sign you in", Text: text, Back: "/sign-in"}
}

// away returns the page for a provider that has not answered yet.
func away() error {
	return &web.PageError{
		Status: http.StatusServiceUnavailable, Title: "Your organisation's sign-in is not responding",
		Text: "It is retried automatically; try again in a minute. In the meantime you can use a sign-in link.", Back: "/sign-in",
	}
}

func (p *SignIn) beginIdentity(r *web.Request) error {
	if p.Provider == nil {
		return web.ErrNotFound
	}
	attempt, err := session.NewAttempt(p.Sessions.Token, web.Local(r.Query("to")))
	if err != nil {
		return err
	}
	address, err := p.Provider.SignInURL(attempt)
	if errors.Is(err, session.ErrNotReady) {
		return away()
	}
	if err != nil {
		return err
	}
	r.SetCookie(web.IdentityCookie, web.FormatCursor(attempt), attemptLifetime)
	return r.Redirect(address)
}

func (p *SignIn) returnIdentity(r *web.Request) error {
	if p.Provider == nil {
		return web.ErrNotFound
	}
	attempt, err := web.ParseCursor[session.Attempt](r.Cookie(web.IdentityCookie))
	if err != nil || !attempt.Matches(r.Query("state")) {
		return refused("This sign-in was not started in this browser, or was started too long ago. Start again.")
	}
	if !p.Provider.Ready() {
		return away() // this process has just started; the person can load the page again
	}
	r.ClearCookie(web.IdentityCookie)
	if r.Query("error") != "" {
		return refused("The identity provider did not sign you in. Start again, or ask the people who run it.")
	}
	person, values, err := p.Provider.Redeem(r.Context(), attempt, r.Query("code"))
	if err != nil {
		r.Warn("sign-in refused", err)
		return refused("The identity provider's answer was not accepted. Start again.")
	}
	grants, err := p.Provider.Grants(r.Context(), values, p.Sessions.Workspaces)
	if err != nil {
		return err
	}
	if len(grants) == 0 {
		return refused("You are signed in as " + person.Name + ", but have no role in any workspace here. Ask who manages your groups.")
	}
	to := attempt.To
	if len(grants) > 1 {
		to = "/workspaces"
	}
	return p.begin(r, person, grants, web.Local(to), "with the identity provider")
}

// Routes returns the routes of the pages.
func (p *SignIn) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Pattern: "/sign-in", Access: web.Anyone, Handle: p.signInPage},
		{Method: http.MethodGet, Pattern: "/sign-in/{token}", Access: web.Anyone, Handle: p.linkPage},
		{Method: http.MethodPost, Pattern: "/sign-in/{token}", Access: web.Anyone, Handle: p.useLink},
		{Method: http.MethodGet, Pattern: "/sign-in/identity", Access: web.Anyone, Handle: p.beginIdentity},
		{Method: http.MethodGet, Pattern: IdentityReturnPath, Access: web.Anyone, Handle: p.returnIdentity},
		{Method: http.MethodGet, Pattern: session.EmbedPath + "{token}", Access: web.Anyone, Handle: p.embed},
		{Method: http.MethodPost, Pattern: "/sign-out", Access: web.SignedIn, Handle: p.signOut},
		{Method: http.MethodGet, Pattern: "/workspaces", Access: web.SignedIn, Handle: p.workspacesPage},
		{Method: http.MethodPost, Pattern: "/workspaces/{workspace}", Access: web.SignedIn, Handle: p.switchWorkspace},
	}
}
