package webhooks

import (
	"net/http"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// Routes are the addresses of the pages.
func (p *Pages) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Pattern: "/webhooks", Access: web.SignedIn, Handle: p.listPage},
		{Method: http.MethodGet, Pattern: "/webhooks/new", Access: web.Admin, Handle: newPage(p.Store)},
		{Method: http.MethodGet, Pattern: "/webhooks/check-address", Access: web.Admin, Handle: p.checkAddress},
		{Method: http.MethodPost, Pattern: "/webhooks", Access: web.Admin, Handle: p.create},
		{Method: http.MethodGet, Pattern: "/webhooks/{webhook}", Access: web.SignedIn, Heavy: true, Handle: p.webhookPage},
		{Method: http.MethodGet, Pattern: "/webhooks/{webhook}/edit", Access: web.Admin, Handle: p.editPage},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/edit", Access: web.Admin, Handle: p.edit},
		{Method: http.MethodGet, Pattern: "/webhooks/{webhook}/rotate", Access: web.Admin, Handle: p.confirm("webhook-rotate", "Rotate the signing secret")},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/rotate", Access: web.Admin, Handle: p.rotate},
		{Method: http.MethodGet, Pattern: "/webhooks/{webhook}/delete", Access: web.Admin, Handle: p.confirm("webhook-delete", "Delete webhook")},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/delete", Access: web.Admin, Handle: p.delete},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/test", Access: web.Admin, Handle: p.test},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/turn-on", Access: web.Admin, Handle: p.turnOn},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/pause", Access: web.Admin, Handle: pausing{p}.pause},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/resume", Access: web.Admin, Handle: pausing{p}.resume},
		{Method: http.MethodGet, Pattern: "/webhooks/{webhook}/missed", Access: web.Admin, Heavy: true, Handle: p.missedPage},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/missed", Access: web.Admin, Handle: p.sendMissed},

		{Method: http.MethodGet, Pattern: "/deliveries/{delivery}", Access: web.SignedIn, Handle: p.deliveryPage},
		{Method: http.MethodPost, Pattern: "/deliveries/{delivery}/send-again", Access: web.Admin, Handle: p.resend},
		{Method: http.MethodPost, Pattern: "/deliveries/{delivery}/retry", Access: web.Admin, Handle: p.retry},
		{Method: http.MethodPost, Pattern: "/webhooks/{webhook}/send-again", Access: web.Admin, Handle: p.resendSeveral},
	}
}
