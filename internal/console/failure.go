package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// What a request can be refused for, besides having no session.
var (
	errNotHere = errors.New("there is nothing at this address")
	errForeign = errors.New("the request came from another site")
	errViewer  = errors.New("a viewer cannot change anything")
	errForm    = errors.New("the form cannot be read")
)

// failure is what a page about an error says.
type failure struct {
	Status int
	Title  string
	Words  string
	ID     string // of the request, where it helps to find the log line
	Back   string // where to go on; empty: nowhere
}

// fail answers with what went wrong. What is inside an error that nobody
// expected goes to the log, not to the page.
func (c *Console) fail(a *ask, err error) {
	if errors.Is(err, errNoSession) {
		c.sendToSignIn(a)
		return
	}
	f := explain(err)
	f.ID = a.id
	switch {
	case a.ctx.Err() != nil && errors.Is(err, context.Canceled):
		return // the browser has gone away
	case f.Status >= http.StatusInternalServerError:
		c.cfg.Logger.ErrorContext(a.ctx, "console", "request_id", a.id, "error", err)
	}
	if a.session != nil && f.Back == "" {
		f.Back = "/"
	}
	if err := c.showStatus(a, f.Status, "failure", view{Title: f.Title, Wide: a.session == nil, Body: f}); err != nil {
		c.cfg.Logger.ErrorContext(a.ctx, "console", "request_id", a.id, "error", err)
		http.Error(a.w, f.Title, f.Status)
	}
}

// explain finds the words for an error.
func explain(err error) failure {
	var (
		key       *access.UnknownKeyError
		webhook   *delivery.UnknownWebhookError
		sent      *delivery.UnknownDeliveryError
		workspace *domain.UnknownWorkspaceError
		notLive   *access.NotLiveError
	)
	switch {
	case errors.As(err, &key), errors.As(err, &webhook), errors.As(err, &sent), errors.As(err, &workspace), errors.Is(err, errNotHere):
		return failure{Status: http.StatusNotFound, Title: "Not found",
			Words: "There is nothing at this address in your workspace. It may have been deleted, or be older than what is kept."}
	case errors.Is(err, errCursor), errors.Is(err, delivery.ErrCursor), errors.Is(err, errForm):
		return failure{Status: http.StatusBadRequest, Title: "That address does not work",
			Words: "The address of the page is not complete, or what was sent cannot be read. Begin again from the list."}
	case errors.Is(err, errForeign):
		return failure{Status: http.StatusForbidden, Title: "Refused",
			Words: "This request came from another site, so nothing was changed. Open the console and do it there."}
	case errors.Is(err, errViewer):
		return failure{Status: http.StatusForbidden, Title: "You can look, but not change",
			Words: "Your role in this workspace is viewer. Ask an admin of the workspace to do this, or to give you their role."}
	case errors.As(err, &notLive):
		return failure{Status: http.StatusConflict, Title: "This key is " + string(notLive.State),
			Words: "A key that is " + string(notLive.State) + " cannot be changed any more. Create a new one.", Back: "/keys"}
	case errors.Is(err, delivery.ErrOff):
		return failure{Status: http.StatusConflict, Title: "The webhook is off",
			Words: "Nothing is sent to a webhook that is off. Turn it back on first.", Back: "/webhooks"}
	case errors.Is(err, delivery.ErrNotFinished):
		return failure{Status: http.StatusConflict, Title: "Still on its way",
			Words: "This delivery is tried again by itself. It can be sent again once it has finished.", Back: "/webhooks"}
	case errors.Is(err, errIdentity):
		return failure{Status: http.StatusForbidden, Title: "Could not sign you in", Words: identityWords(err), Back: "/sign-in"}
	}
	return failure{Status: http.StatusInternalServerError, Title: "Something went wrong",
		Words: "This is our fault, not yours. Try again in a moment; if it stays, tell support the number below."}
}

// sendToSignIn sends a browser without a session to where it gets one, and
// back to where it was going.
func (c *Console) sendToSignIn(a *ask) {
	address := "/sign-in"
	if a.r.Method == http.MethodGet && a.r.URL.Path != "/" && !a.live() {
		address += "?to=" + url.QueryEscape(a.r.URL.RequestURI())
	}
	if a.live() {
		a.w.Header().Set("HX-Redirect", "/sign-in")
		a.w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(a.w, a.r, address, http.StatusSeeOther)
}

// within gives an address of this console, or its home for any other.
func within(address string) string {
	if !strings.HasPrefix(address, "/") || strings.HasPrefix(address, "//") || strings.ContainsAny(address, "\\\r\n\t") {
		return "/"
	}
	return address
}
