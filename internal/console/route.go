package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

// need is what a request must bring to a route.
type need int

const (
	needNothing need = iota // whoever asks
	needSession             // a person of the workspace
	needAdmin               // one who may change
)

// route is a row of the table below. The checks are derived from it, so that
// no handler can forget one.
type route struct {
	pattern string // of http.ServeMux
	need    need
	serve   func(c *Console, a *ask) error
}

// routes is every address of the console. What changes something is a POST and
// needs an admin, but for signing in and out and choosing a workspace.
func routes() []route {
	return []route{
		{"GET /{$}", needSession, (*Console).home},
		{"GET /sign-in", needNothing, (*Console).signInPage},
		{"GET /sign-in/{token}", needNothing, (*Console).linkPage},
		{"POST /sign-in/{token}", needNothing, (*Console).linkUse},
		{"GET /sign-in/identity", needNothing, (*Console).identityBegin},
		{"GET " + identityReturnPath, needNothing, (*Console).identityReturn},
		{"POST /sign-out", needSession, (*Console).signOut},
		{"GET /workspaces", needSession, (*Console).workspacesPage},
		{"POST /workspaces/{workspace}", needSession, (*Console).workspaceSwitch},
		{"GET /api", needNothing, (*Console).referencePage},

		{"GET /keys", needSession, (*Console).keysPage},
		{"GET /keys/new", needAdmin, (*Console).keyNewPage},
		{"POST /keys", needAdmin, (*Console).keyCreate},
		{"GET /keys/{key}", needSession, (*Console).keyPage},
		{"GET /keys/{key}/rotate", needAdmin, (*Console).keyRotatePage},
		{"POST /keys/{key}/rotate", needAdmin, (*Console).keyRotate},
		{"GET /keys/{key}/revoke", needAdmin, (*Console).keyRevokePage},
		{"POST /keys/{key}/revoke", needAdmin, (*Console).keyRevoke},

		{"GET /webhooks", needSession, (*Console).webhooksPage},
		{"GET /webhooks/new", needAdmin, (*Console).webhookNewPage},
		{"GET /webhooks/check-address", needAdmin, (*Console).webhookCheckAddress},
		{"POST /webhooks", needAdmin, (*Console).webhookCreate},
		{"GET /webhooks/{webhook}", needSession, (*Console).webhookPage},
		{"GET /webhooks/{webhook}/edit", needAdmin, (*Console).webhookEditPage},
		{"POST /webhooks/{webhook}/edit", needAdmin, (*Console).webhookEdit},
		{"GET /webhooks/{webhook}/rotate", needAdmin, (*Console).webhookRotatePage},
		{"POST /webhooks/{webhook}/rotate", needAdmin, (*Console).webhookRotate},
		{"GET /webhooks/{webhook}/delete", needAdmin, (*Console).webhookDeletePage},
		{"POST /webhooks/{webhook}/delete", needAdmin, (*Console).webhookDelete},
		{"POST /webhooks/{webhook}/test", needAdmin, (*Console).webhookTest},
		{"POST /webhooks/{webhook}/turn-on", needAdmin, (*Console).webhookTurnOn},
		{"GET /webhooks/{webhook}/missed", needAdmin, (*Console).missedPage},
		{"POST /webhooks/{webhook}/missed", needAdmin, (*Console).missedSend},

		{"GET /deliveries/{delivery}", needSession, (*Console).deliveryPage},
		{"POST /deliveries/{delivery}/send-again", needAdmin, (*Console).deliveryResend},

		{"GET /events", needSession, (*Console).eventsPage},
		{"GET /events/{event}", needSession, (*Console).eventPage},
		{"GET /requests", needSession, (*Console).requestsPage},
		{"GET /requests/{record}", needSession, (*Console).requestPage},
		{"GET /audit", needSession, (*Console).auditPage},
	}
}

// ask is a request on its way through a handler.
type ask struct {
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context //nolint:containedctx // it is the request's
	now     time.Time
	id      string   // of the request, for the log and the page of an error
	session *session // nil where a route needs none
}

// path gives a part of the address.
func (a *ask) path(name string) string { return a.r.PathValue(name) }

// query gives a parameter of the address.
func (a *ask) query(name string) string { return strings.TrimSpace(a.r.URL.Query().Get(name)) }

// form gives a field of the form that was sent.
func (a *ask) form(name string) string { return strings.TrimSpace(a.r.PostFormValue(name)) }

// live tells that a page renews a part of itself: nobody is asking.
func (a *ask) live() bool { return a.r.URL.Query().Get("live") == "1" }

// see sends the browser to another page.
func (a *ask) see(path string) error {
	http.Redirect(a.w, a.r, path, http.StatusSeeOther)
	return nil
}

// maxForm bounds what a form may send, in bytes.
const maxForm = 64 << 10

// chain is all routes behind what holds for every request.
func (c *Console) chain() (http.Handler, error) {
	mux := http.NewServeMux()
	for _, r := range routes() {
		method, _, _ := strings.Cut(r.pattern, " ")
		if r.need == needNothing && method == http.MethodPost && !strings.HasPrefix(r.pattern, "POST /sign-in/") {
			return nil, fmt.Errorf("console: %s changes something and needs nothing", r.pattern)
		}
		mux.Handle(r.pattern, c.handle(r))
	}
	mux.Handle("GET /assets/{file}", c.assets)
	mux.Handle("/", c.handle(route{"", needNothing, func(*Console, *ask) error { return errNotHere }}))
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(c.handle(route{"", needNothing, func(*Console, *ask) error { return errForeign }}))
	return c.guard(origin.Handler(mux)), nil
}

// handle makes the checks of a route and turns its error into a page.
func (c *Console) handle(r route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		a := &ask{w: w, r: req, ctx: req.Context(), now: c.cfg.Clock().UTC(), id: "req_" + uuid.NewString()}
		began := time.Now()
		err := c.admit(a, r.need)
		if err == nil {
			err = r.serve(c, a)
		}
		if err != nil {
			c.fail(a, err)
		}
		level := slog.LevelDebug
		if req.Method != http.MethodGet {
			level = slog.LevelInfo
		}
		// The pattern, not the address: a sign-in link is in the address.
		attrs := []slog.Attr{
			slog.String("route", req.Method+" "+strings.TrimPrefix(r.pattern, req.Method+" ")), slog.String("request_id", a.id),
			slog.Duration("took", time.Since(began)),
		}
		if a.session != nil {
			attrs = append(attrs, slog.String("workspace", a.session.WorkspaceID), slog.String("person", a.session.Person))
		}
		c.cfg.Logger.LogAttrs(req.Context(), level, "console", attrs...)
	})
}

// admit finds who asks and reads the form.
func (c *Console) admit(a *ask, n need) error {
	if a.r.Method == http.MethodPost {
		a.r.Body = http.MaxBytesReader(a.w, a.r.Body, maxForm)
		if err := a.r.ParseForm(); err != nil {
			return errForm
		}
	}
	if n == needNothing {
		return nil
	}
	token := c.readCookie(a.r, sessionCookie)
	if token == "" {
		return errNoSession
	}
	s, err := c.cfg.Door.find(a.ctx, token, !a.live())
	if err != nil {
		if errors.Is(err, errNoSession) {
			c.clearCookie(a.w, sessionCookie)
		}
		return err
	}
	a.session = s
	if n == needAdmin && !s.MayChange() {
		return errViewer
	}
	return nil
}
