package console

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

func (c *Console) home(a *ask) error { return a.see("/webhooks") }

// signInBody is what the sign-in page is made from.
type signInBody struct {
	Provider bool   // sign in with the identity provider
	To       string // where to go on
}

func (c *Console) signInPage(a *ask) error {
	return c.show(a, "sign-in", view{
		Title: "Sign in", Wide: true, Body: signInBody{Provider: c.identity != nil, To: within(a.query("to"))},
	})
}

// linkBody is what the page behind a sign-in link is made from.
type linkBody struct {
	Link *link // nil: it does not work
	Path string
}

// linkPage shows where a link leads. It does not use it up: mail programs and
// chats open links to look at them.
func (c *Console) linkPage(a *ask) error {
	l, err := c.cfg.Door.lookAt(a.ctx, a.path("token"))
	return c.showLink(a, l, err)
}

func (c *Console) showLink(a *ask, l *link, err error) error {
	status := http.StatusOK
	switch {
	case errors.Is(err, errLink):
		status = http.StatusNotFound
	case err != nil:
		return err
	}
	return c.showStatus(a, status, "sign-in-link", view{Title: "Sign in", Wide: true, Body: linkBody{l, a.r.URL.Path}})
}

func (c *Console) linkUse(a *ask) error {
	l, err := c.cfg.Door.use(a.ctx, a.path("token"))
	if err != nil {
		return c.showLink(a, nil, err)
	}
	return c.begin(a, l.Person, l.WorkspaceID, []Grant{{l.WorkspaceID, l.Role}}, "/", "with a sign-in link")
}

// begin signs a person in and sends the browser on.
func (c *Console) begin(a *ask, person, workspace string, grants []Grant, to, how string) error {
	token, expires, err := c.cfg.Door.open(a.ctx, person, workspace, grants, a.now)
	if err != nil {
		return err
	}
	// An earlier session in this browser ends, so that its token is worth nothing.
	if old, err := c.cfg.Door.find(a.ctx, c.readCookie(a.r, sessionCookie), false); err == nil {
		if err := c.cfg.Door.end(a.ctx, old); err != nil {
			return err
		}
	}
	c.record(a, audit.Change{WorkspaceID: workspace, Person: person, Action: audit.SignIn, Detail: how})
	c.setCookie(a.w, sessionCookie, token, expires.Sub(a.now))
	return a.see(to)
}

func (c *Console) signOut(a *ask) error {
	if err := c.cfg.Door.end(a.ctx, a.session); err != nil {
		return err
	}
	c.record(a, audit.Change{Action: audit.SignOut})
	c.clearCookie(a.w, sessionCookie)
	a.w.Header().Set("Clear-Site-Data", `"cache"`)
	return a.see("/sign-in?did=signed-out")
}

// workspaceChoice is a workspace that the person may look at.
type workspaceChoice struct {
	ID, Name string
	Role     Role
	Current  bool
}

func (c *Console) workspacesPage(a *ask) error {
	var ids []string
	for _, g := range a.session.Grants {
		ids = append(ids, g.Workspace)
	}
	names, err := c.cfg.Door.workspaces(a.ctx, ids)
	if err != nil {
		return err
	}
	var list []workspaceChoice
	for _, g := range a.session.Grants {
		if name, ok := names[g.Workspace]; ok {
			list = append(list, workspaceChoice{g.Workspace, name, g.Role, g.Workspace == a.session.WorkspaceID})
		}
	}
	slices.SortFunc(list, func(x, y workspaceChoice) int {
		return strings.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name))
	})
	return c.show(a, "workspaces", view{Title: "Workspaces", Body: list})
}

// workspaceSwitch goes on in another workspace, with another token and without
// more time.
func (c *Console) workspaceSwitch(a *ask) error {
	wanted := a.path("workspace")
	if !slices.ContainsFunc(a.session.Grants, func(g Grant) bool { return g.Workspace == wanted }) {
		return &domain.UnknownWorkspaceError{WorkspaceID: wanted}
	}
	token, expires, err := c.cfg.Door.open(a.ctx, a.session.Person, wanted, a.session.Grants, c.cfg.Door.began(a.session))
	if err != nil {
		return err
	}
	if err := c.cfg.Door.end(a.ctx, a.session); err != nil {
		return err
	}
	c.record(a, audit.Change{WorkspaceID: wanted, Action: audit.SignIn, Detail: "from another workspace"})
	c.setCookie(a.w, sessionCookie, token, max(expires.Sub(a.now), time.Second))
	return a.see("/")
}

// record keeps a change that was made. It has been made: when it cannot be kept
// in the audit, the log is where it stays.
func (c *Console) record(a *ask, change audit.Change) {
	change.Via = audit.ViaConsole
	if a.session != nil {
		if change.WorkspaceID == "" {
			change.WorkspaceID = a.session.WorkspaceID
		}
		if change.Person == "" {
			change.Person = a.session.Person
		}
	}
	if err := c.cfg.Audit.Add(a.ctx, change); err != nil {
		c.cfg.Logger.ErrorContext(a.ctx, "a change is missing in the audit", "error", err, "request_id", a.id,
			"workspace", change.WorkspaceID, "person", change.Person, "action", change.Action, "object", change.ObjectID)
	}
}
