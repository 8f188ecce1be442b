package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/pages"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// Console is the web interface, an http.Handler.
type Console struct {
	sessions  *session.Store
	trail     *audit.Trail
	site      *web.Site
	assets    *web.Assets
	reference map[string][]byte // pages of the API reference by path; their style and script are assets
	handler   chi.Router
	slow      *slow

	signIn    *pages.SignIn
	overview  *pages.Overview
	keys      *pages.Keys
	webhooks  *pages.Webhooks
	events    *pages.Events
	data      *pages.Data
	search    *pages.Search
	requests  *pages.Requests
	anomalies *pages.Anomalies
	settings  *pages.Settings
}

// ServeHTTP answers a request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// routes returns all routes of the console except the assets. A route that changes something is a
// POST and requires an admin, except for signing in and out and choosing a workspace.
func (c *Console) routes() []web.Route {
	return slices.Concat(
		[]web.Route{
			{Method: http.MethodGet, Pattern: ReferencePath, Access: web.Anyone, Handle: c.referencePage},
			{Method: http.MethodGet, Pattern: ReferencePath + "/*", Access: web.Anyone, Handle: c.referencePage},
			{Method: http.MethodGet, Pattern: "/audit", Access: web.SignedIn, Heavy: true, Handle: c.auditPage},
			{Method: http.MethodGet, Pattern: "/audit.csv", Access: web.SignedIn, Heavy: true, Handle: c.auditFile},
		},
		c.signIn.Routes(), c.overview.Routes(), c.keys.Routes(), c.webhooks.Routes(), c.events.Routes(), c.data.Routes(), c.search.Routes(), c.requests.Routes(), c.anomalies.Routes(), c.settings.Routes(),
	)
}

// router puts the routes on a mux, with the checks as middleware in this order: security headers,
// compression, the log line, the origin, the form and its text, the session, the role.
func (c *Console) router() (chi.Router, error) {
	r := chi.NewRouter()
	r.Use(middleware.GetHead, securityHeaders(c.site))
	r.Method(http.MethodGet, web.AssetsPath+"{file}", c.assets)
	handled := r.With(compressed(), c.site.Begin, sameOrigin, parseForm, readable)
	notFound := recognise(c.sessions)(refuse(web.ErrNotFound)).ServeHTTP
	handled.NotFound(notFound)
	handled.MethodNotAllowed(notFound)
	for _, route := range c.routes() {
		if route.Method == http.MethodPost && route.Access == web.Anyone && !strings.HasPrefix(route.Pattern, "/sign-in/") {
			return nil, fmt.Errorf("console: POST %s changes something and requires nothing", route.Pattern)
		}
		checks := c.checks(&route)
		if strings.HasPrefix(route.Pattern, "/sign-in") {
			checks = append(checks, inTab)
		}
		handled.With(checks...).Method(route.Method, route.Pattern, route.Handle)
	}
	return r, nil
}

// Unvisited returns the patterns of the pages that none of the addresses leads to. Tests and
// benchmarks that visit every page use it to find pages they miss. It ignores files and addresses
// that only redirect to a page.
func (c *Console) Unvisited(addresses []string) []string {
	visited := []string{"/audit.csv", pages.FilePattern, "/sign-in/identity", pages.IdentityReturnPath, session.EmbedPath + "{token}"}
	for _, address := range addresses {
		path, _, _ := strings.Cut(address, "?")
		found := chi.NewRouteContext()
		c.handler.Match(found, http.MethodGet, path)
		visited = append(visited, found.RoutePattern())
	}
	var left []string
	for _, route := range c.routes() {
		if route.Method == http.MethodGet && !slices.Contains(visited, route.Pattern) {
			left = append(left, route.Pattern)
		}
	}
	return left
}

// checks returns the middleware that enforces what a route requires.
func (c *Console) checks(route *web.Route) []func(http.Handler) http.Handler {
	inTurn := c.slow.inTurn(route.Heavy)
	switch route.Access {
	case web.Anyone:
		return nil
	case web.SignedIn:
		return []func(http.Handler) http.Handler{signedIn(c.sessions), ownForm, inTurn}
	case web.Admin:
	}
	return []func(http.Handler) http.Handler{signedIn(c.sessions), ownForm, admin, inTurn}
}
