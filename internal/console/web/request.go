// Package web is what the pages of the console share: the request with its
// session, the templates and assets, the pages about errors, cookies and
// cursors.
package web

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

// Request is a request with its session, and the writer of the response.
type Request struct {
	*http.Request
	W       http.ResponseWriter
	Now     time.Time
	ID      string           // for the log and the page about an error
	Session *session.Session // nil where the route requires none
	// Leave says that what follows takes long without a connection to the database, so that
	// another slow request may begin. Nil where the route has no place to give back.
	Leave func()
	site  *Site
}

// Path returns a parameter of the route's pattern.
func (r *Request) Path(name string) string {
	value := chi.URLParam(r.Request, name)
	if r.URL.RawPath == "" {
		return value
	}
	// chi matches the path as it was sent, with its escapes.
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value
}

// Query returns a parameter of the address.
func (r *Request) Query(name string) string { return strings.TrimSpace(r.URL.Query().Get(name)) }

// Field returns a field of the form that was sent.
func (r *Request) Field(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }

// Live tells that a page renews a part of itself: the person has done nothing.
func (r *Request) Live() bool { return r.URL.Query().Get("live") == "1" }

// Redirect sends the browser to another page.
func (r *Request) Redirect(address string) error {
	http.Redirect(r.W, r.Request, address, http.StatusSeeOther)
	return nil
}

// Warn writes a log line about the request.
func (r *Request) Warn(message string, err error) {
	r.site.Logger.WarnContext(r.Context(), message, "request_id", r.ID, "error", err)
}
