package keys

import (
	"net/http"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// Routes are the addresses of the pages.
func (p *Pages) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Pattern: "/keys", Access: web.SignedIn, Handle: p.listPage},
		{Method: http.MethodGet, Pattern: "/keys/new", Access: web.Admin, Handle: p.newPage},
		{Method: http.MethodPost, Pattern: "/keys", Access: web.Admin, Handle: p.create},
		{Method: http.MethodGet, Pattern: "/keys/{key}", Access: web.SignedIn, Handle: p.keyPage},
		{Method: http.MethodGet, Pattern: "/keys/{key}/rename", Access: web.Admin, Handle: p.page("key-rename")},
		{Method: http.MethodPost, Pattern: "/keys/{key}/rename", Access: web.Admin, Handle: p.rename},
		{Method: http.MethodGet, Pattern: "/keys/{key}/rotate", Access: web.Admin, Handle: p.page("key-rotate")},
		{Method: http.MethodPost, Pattern: "/keys/{key}/rotate", Access: web.Admin, Handle: p.rotate},
		{Method: http.MethodGet, Pattern: "/keys/{key}/revoke", Access: web.Admin, Handle: p.revokePage},
		{Method: http.MethodPost, Pattern: "/keys/{key}/revoke", Access: web.Admin, Handle: p.revoke},
	}
}
