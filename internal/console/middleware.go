package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// contentPolicy lets pages load resources from this host only, and forbids inline scripts and
// styles.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors "

// securityHeaders sets the headers of every response. Only the products in EmbedOrigins may show
// the console in a frame; in any other frame there is no session.
func securityHeaders(site *web.Site) func(http.Handler) http.Handler {
	products := strings.Join(site.EmbedOrigins, " ")
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			if products != "" && web.Framed(r) {
				h.Set("Content-Security-Policy", contentPolicy+products)
			} else {
				h.Set("Content-Security-Policy", contentPolicy+"'none'")
				h.Set("X-Frame-Options", "DENY")
			}
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Referrer-Policy", "same-origin")
			h.Set("Cross-Origin-Opener-Policy", "same-origin")
			h.Set("Cross-Origin-Resource-Policy", "same-origin")
			h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
			h.Set("Cache-Control", "no-store")
			if site.Secure {
				h.Set("Strict-Transport-Security", "max-age=31536000")
			}
			next.ServeHTTP(w, r)
		})
	}
}

// sameOrigin refuses requests that another site makes a browser send, unless they only read.
func sameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(refuse(web.ErrCrossOrigin))
	return protection.Handler(next)
}

// refuse answers every request with the error page for err.
func refuse(err error) http.Handler {
	return web.Handler(func(*web.Request) error { return err })
}

// maxForm is the maximum size of a form, in bytes.
const maxForm = 64 << 10

// parseForm parses the form of a POST request.
func parseForm(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			if err := r.ParseForm(); err != nil {
				web.From(w, r).Fail(web.ErrForm)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// readable refuses requests with text that is not UTF-8 or contains NUL. No name, id or address in
// the console does, and the database accepts neither. It must come after parseForm.
func readable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, values := range []url.Values{{"": {r.URL.Path}}, r.URL.Query(), r.PostForm} {
			for _, list := range values {
				if slices.ContainsFunc(list, func(text string) bool { return !utf8.ValidString(text) || strings.ContainsRune(text, 0) }) {
					web.From(w, r).Fail(web.ErrForm)
					return
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// signedIn finds the session of the request. Without one, it redirects the browser to the sign-in
// page.
func signedIn(sessions *session.Store) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			req := web.From(w, r)
			token := web.SessionToken(req)
			if token == "" {
				req.Fail(session.ErrNone)
				return
			}
			s, err := sessions.Find(r.Context(), token, !req.Live())
			if errors.Is(err, session.ErrNone) {
				web.ClearSession(req)
			}
			if err != nil {
				req.Fail(err)
				return
			}
			req.Session = s
			next.ServeHTTP(w, r.WithContext(audit.As(r.Context(), s.Actor())))
		})
	}
}

// recognise finds the session of a request but does not require one, so that a signed-in person
// sees the menu on the answer.
func recognise(sessions *session.Store) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			req := web.From(w, r)
			if token := web.SessionToken(req); token != "" {
				s, err := sessions.Find(r.Context(), token, false)
				if err == nil {
					req.Session = s
				} else if !errors.Is(err, session.ErrNone) {
					req.Warn("cannot look for a session", err)
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

// compressed compresses pages, unless another site led the browser here. Such a site could choose a
// part of the address that the page repeats, and learn from response sizes what else the page
// contains (BREACH). Browsers that do not say where a request comes from get no compression either.
func compressed() func(http.Handler) http.Handler {
	compress := middleware.Compress(5, "text/html", "text/csv")
	return func(next http.Handler) http.Handler {
		smaller := compress(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.Header.Get("Sec-Fetch-Site") {
			case "same-origin", "none": // "none": the person typed the address, or chose a bookmark
				smaller.ServeHTTP(w, r)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}

// inTab refuses to sign people in inside a frame, where they cannot see which site asks them.
func inTab(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if req := web.From(w, r); req.Framed() {
			req.Fail(session.ErrNone)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownForm refuses forms from pages that an earlier session of this browser loaded, in another
// workspace or as another person. It must come after signedIn.
func ownForm(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if req := web.From(w, r); web.OfAnother(req) {
			req.Fail(&web.PageError{
				Status: http.StatusConflict, Title: "This page belongs to another workspace or person",
				Text: "Since it was loaded, this browser has opened " + req.Session.WorkspaceName + " as " + req.Session.Name + ". Nothing was changed. Load the page again before you do this.",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admin refuses sessions that may not change anything. It must come after signedIn.
func admin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if req := web.From(w, r); !req.Session.MayChange() {
			req.Fail(web.ErrViewer)
			return
		}
		next.ServeHTTP(w, r)
	})
}
