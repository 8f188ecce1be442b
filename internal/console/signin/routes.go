package signin

import (
	"net/http"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// Routes are the addresses of the pages.
func (p *Pages) Routes() []web.Route {
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
