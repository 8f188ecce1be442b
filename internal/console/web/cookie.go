package web

import (
	"net/http"
	"time"
)

// Cookies, by what they hold.
const (
	sessionCookie  = "session"
	IdentityCookie = "identity" // a sign-in at the identity provider under way
	DraftCookie    = "draft"    // a form that was sent after its session had ended
	framedCookie   = "framed"   // the session in a frame of a product
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

// sessionCookieOf is where the session of the request is: in a frame another one than in a
// tab, so that a frame never shows what somebody is signed in to beside it.
func sessionCookieOf(r *Request) string {
	if r.Framed() {
		return framedCookie
	}
	return sessionCookie
}

// SessionToken returns the token of the request's session; empty without one.
func SessionToken(r *Request) string { return r.Cookie(sessionCookieOf(r)) }

// SetSession keeps the token of a session in the browser.
func SetSession(r *Request, token string, lifetime time.Duration) {
	r.SetCookie(sessionCookieOf(r), token, lifetime)
}

// ClearSession removes the token from the browser.
func ClearSession(r *Request) { r.ClearCookie(sessionCookieOf(r)) }

func (r *Request) writeCookie(kind, value string, maxAge int) {
	sameSite, partitioned := http.SameSiteLaxMode, false
	if kind == framedCookie && r.site.Secure {
		// The product may be another site. The browser keeps the cookie for frames in that
		// site alone (CHIPS); sameOrigin protects what changes something.
		sameSite, partitioned = http.SameSiteNoneMode, true
	}
	http.SetCookie(r.W, &http.Cookie{ //nolint:gosec // without Secure only on plain http, which is allowed on loopback only
		Name: r.site.cookieName(kind), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: r.site.Secure, SameSite: sameSite, Partitioned: partitioned,
	})
}
