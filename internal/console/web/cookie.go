package web

import (
	"net/http"
	"time"
)

// Cookies, by what they hold.
const (
	SessionCookie  = "session"
	IdentityCookie = "identity" // a sign-in at the identity provider under way
	DraftCookie    = "draft"    // a form that was sent after its session had ended
)

// cookieName binds a cookie to this host where the browser can (RFC 6265bis, "The
// __Host- Prefix"); that needs https.
func (s *Site) cookieName(kind string) string {
	if s.Secure {
		return "__Host-ledgerfeed-" + kind
	}
	return "ledgerfeed-" + kind
}

// Cookie returns the value of a cookie; empty if there is none.
func (r *Request) Cookie(kind string) string {
	cookie, err := r.Request.Cookie(r.site.cookieName(kind))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// SetCookie sets a cookie.
func (r *Request) SetCookie(kind, value string, lifetime time.Duration) {
	r.writeCookie(kind, value, int(lifetime/time.Second))
}

// ClearCookie removes a cookie from the browser.
func (r *Request) ClearCookie(kind string) { r.writeCookie(kind, "", -1) }

func (r *Request) writeCookie(kind, value string, maxAge int) {
	http.SetCookie(r.W, &http.Cookie{ //nolint:gosec // without Secure only on plain http, which is allowed on loopback only
		Name: r.site.cookieName(kind), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: r.site.Secure, SameSite: http.SameSiteLaxMode,
	})
}
