// Package web has what the pages of the console share: the request with its session, the templates
// and assets, charts, error pages, cookies and cursors.
package web

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// Request is a request with its session, and the writer of the response.
type Request struct {
	*http.Request
	W       http.ResponseWriter
	Now     time.Time
	ID      string           // for the log and the error page
	Session *session.Session // nil where the route requires none
	// Leave gives the request's place to another slow request. A handler calls it before it waits
	// without a database connection. Nil if the route has no place to give back.
	Leave func()
	site  *Site
}

// Path returns a parameter of the route's pattern.
func (r *Request) Path(name string) string {
	value := chi.URLParam(r.Request, name)
	if r.URL.RawPath == "" {
		return value
	}
	// chi matches the path as it was sent, still escaped.
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value
}

// Query returns a query parameter, trimmed.
func (r *Request) Query(name string) string { return strings.TrimSpace(r.URL.Query().Get(name)) }

// Field returns a field of the form, trimmed.
func (r *Request) Field(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }

// Live reports whether a page refreshes a part of itself, without any action by the person.
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

// View is the template data of every page.
type View struct {
	Title   string
	Section string // menu section: overview, keys, webhooks, events, data, requests, anomalies, audit, settings; search
	Session *session.Session
	Now     time.Time
	Flash   string // says what was just done; empty: nothing
	Wide    bool   // without the menu, such as on the sign-in page
	Body    any

	Searched       string // what the search field of the menu has
	Framed         bool   // in a product's frame
	AnomaliesWait  bool   // there are unacknowledged anomalies that the session may see
	NeedsAttention bool   // something on the overview needs attention
	Stopped        bool   // the page shows data, which has stopped at an entry
}

// Show answers with a page. A page that refreshes a part of itself gets only that part, which its
// file calls "live".
func (r *Request) Show(page string, v View) error {
	return r.ShowStatus(http.StatusOK, page, v)
}

// ShowStatus is Show with a status.
func (r *Request) ShowStatus(status int, page string, v View) error {
	t := r.site.pages[page]
	if t == nil {
		return fmt.Errorf("there is no page %q", page)
	}
	v.Session, v.Now, v.Flash, v.Framed = r.Session, r.Now, Flash(r.Query("did")), r.Framed()
	if page == "search" {
		v.Searched = r.Query("q")
	}
	part := "layout"
	if r.Live() && t.Lookup("live") != nil {
		part = "live"
	} else if r.Session != nil && !v.Wide {
		var stopped bool
		v.AnomaliesWait, v.NeedsAttention, stopped = r.marks()
		v.Stopped = stopped && (v.Section == "data" || v.Section == "events" || v.Section == "search")
	}
	return r.write(status, t, page, part, &v)
}

// marks returns the marks in the menu, and whether the data has stopped. It leaves out a mark that it
// cannot read, because the page is about something else.
func (r *Request) marks() (anomaliesWait, needsAttention, stopped bool) {
	anomaliesWait, err := r.site.AnomaliesWait(r.Context(), r.Session, r.Now)
	if err != nil {
		r.Warn("cannot look whether anomalies wait", err)
	}
	if needsAttention, stopped, err = r.site.NeedsAttention(r.Context(), r.Session, r.Now); err != nil {
		r.Warn("cannot look whether something needs attention", err)
	}
	return anomaliesWait, needsAttention, stopped
}

// ShowPart answers with one part of a page's file.
func (r *Request) ShowPart(page, part string, data any) error {
	return r.write(http.StatusOK, r.site.pages[page], page, part, data)
}

func (r *Request) write(status int, t *template.Template, page, part string, data any) error {
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, part, data); err != nil {
		return fmt.Errorf("cannot make %s of the page %q: %w", part, page, err)
	}
	r.WriteHTML(status, b.Bytes())
	return nil
}

// WriteHTML answers with a whole page.
func (r *Request) WriteHTML(status int, page []byte) {
	r.W.Header().Set("Content-Type", "text/html; charset=utf-8")
	r.W.WriteHeader(status)
	_, _ = r.W.Write(page) // an error means that the browser has gone away
}

// Access is what a route requires of a request.
type Access int

// What routes require.
const (
	Anyone   Access = iota // nothing
	SignedIn               // a session
	Admin                  // a session of an admin
)

// Route is a route of the console. The checks are derived from it, so that no handler can forget
// one.
type Route struct {
	Method, Pattern string // as chi expects them
	Access          Access
	Heavy           bool // may read very many rows, so few of a workspace run at the same time
	Handle          Handler
}

// Handler answers a request. The person sees a page about the error that it returns.
type Handler func(*Request) error

// ServeHTTP answers a request that has passed Site.Begin.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := From(w, r)
	if err := h(req); err != nil {
		req.Fail(err)
	}
}

type requestKey struct{}

// Begin is the middleware that creates the Request and writes its log line.
func (s *Site) Begin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := &Request{Now: s.Clock().UTC(), ID: "req_" + uuid.NewString(), site: s}
		began := time.Now()
		if s.Tracer != nil {
			ctx, span := tracing.StartRequest(s.Tracer, r)
			status := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			w, r = status, r.WithContext(ctx)
			defer func() {
				tracing.EndRequest(span, r.Method, chi.RouteContext(ctx).RoutePattern(), cmp.Or(status.Status(), http.StatusOK))
				span.End()
			}()
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, req)))
		level := slog.LevelDebug
		if r.Method != http.MethodGet {
			level = slog.LevelInfo
		}
		// The pattern, not the address: the address of a sign-in link is a secret.
		attrs := []slog.Attr{
			slog.String("route", r.Method+" "+chi.RouteContext(r.Context()).RoutePattern()), slog.String("request_id", req.ID),
			slog.Duration("took", time.Since(began)),
		}
		if req.Session != nil {
			attrs = append(attrs, slog.String("workspace", req.Session.WorkspaceID), slog.String("person", req.Session.Name), slog.String("subject", req.Session.Subject))
		}
		s.Logger.LogAttrs(r.Context(), level, "console", attrs...)
	})
}

// From returns the Request that Begin created, with the writer and request that were passed to the
// calling middleware or handler. It panics if Begin did not run first.
func From(w http.ResponseWriter, r *http.Request) *Request {
	req := r.Context().Value(requestKey{}).(*Request)
	req.W, req.Request = w, r
	return req
}
