package web

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"

	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

// Access is what a route requires of a request.
type Access int

// What routes require.
const (
	Anyone   Access = iota // nothing
	SignedIn               // a session
	Admin                  // a session of an admin
)

// Route is an address of the console. The checks are derived from it, so that no
// handler can forget one.
type Route struct {
	Method, Pattern string // of chi
	Access          Access
	Heavy           bool // it may read very many rows, so a workspace has few of them at a time
	Handle          Handler
}

// Handler answers a request. What it returns as an error is shown as a page.
type Handler func(*Request) error

// ServeHTTP answers a request that Site.Begin has begun.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := From(w, r)
	if err := h(req); err != nil {
		req.Fail(err)
	}
}

type requestKey struct{}

// Begin is the middleware that makes the Request and writes its log line.
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

// From returns the Request that Begin made, with the writer and request that a
// middleware or handler was called with. It panics where Begin does not come
// first.
func From(w http.ResponseWriter, r *http.Request) *Request {
	req := r.Context().Value(requestKey{}).(*Request)
	req.W, req.Request = w, r
	return req
}
