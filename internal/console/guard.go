package console

import (
	"net/http"
	"time"
)

// policy lets pages load from here alone, and run and style nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard sets the headers that every answer has.
func (c *Console) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		h.Set("Cache-Control", "no-store")
		if c.secure {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// The cookies, by what they hold.
const (
	sessionCookie  = "session"
	identityCookie = "identity" // state of a sign-in under way
)

// cookieName binds a cookie to this host where the browser can (RFC 6265bis,
// "The __Host- Prefix"); that needs https.
func (c *Console) cookieName(kind string) string {
	if c.secure {
		return "__Host-ledgerfeed-" + kind
	}
	return "ledgerfeed-" + kind
}

func (c *Console) readCookie(r *http.Request, kind string) string {
	cookie, err := r.Cookie(c.cookieName(kind))
	if err != nil {
		return ""
	}
	return cookie.Value
}

func (c *Console) setCookie(w http.ResponseWriter, kind, value string, lifetime time.Duration) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // not Secure on plain http alone, which New takes for loopback only
		Name: c.cookieName(kind), Value: value, Path: "/", MaxAge: int(lifetime / time.Second),
		HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteLaxMode,
	})
}

func (c *Console) clearCookie(w http.ResponseWriter, kind string) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // as above
		Name: c.cookieName(kind), Path: "/", MaxAge: -1,
		HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteLaxMode,
	})
}
