package web

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Local returns an address of this console unchanged, and "/" for any other, so that a link cannot
// redirect to another site.
func Local(address string) string {
	if !strings.HasPrefix(address, "/") || strings.HasPrefix(address, "//") || strings.ContainsAny(address, "\\\r\n\t") {
		return "/"
	}
	return address
}

// Address returns a path with those parameters that have a value: name, value, name, value, and so
// on.
func Address(path string, parameters ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(parameters); i += 2 {
		if parameters[i+1] != "" {
			v.Set(parameters[i], parameters[i+1])
		}
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// Pager holds the addresses of the neighbouring pages of a list; empty: there is none.
type Pager struct {
	Newest, Newer, Older string

	Showing string // the part of the list on the page, such as "1–25 of 10,000+"; empty: not shown
}

// Pair is a name and a value in a list.
type Pair struct{ Name, Value string }

// ErrCursor reports a cursor that does not belong to its list.
var ErrCursor = errors.New("the cursor is not one of this list")

// FormatCursor encodes a position, a plain struct, for a link.
func FormatCursor(position any) string {
	b, err := json.Marshal(position)
	if err != nil {
		return "" // not reached: positions are plain structs
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor decodes what FormatCursor made. The error is ErrCursor.
func ParseCursor[P any](cursor string) (*P, error) {
	p := new(P)
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || bytes.Contains(b, []byte(`\u0000`)) || json.Unmarshal(b, p) != nil { // PostgreSQL takes no NUL
		return nil, ErrCursor
	}
	return p, nil
}

// Cookies, by what they hold.
const (
	sessionCookie  = "session"
	IdentityCookie = "identity" // a sign-in in progress at the identity provider
	DraftCookie    = "draft"    // a form that was sent after its session had ended
	framedCookie   = "framed"   // the session in a product's frame
)

// cookieName returns the name of a cookie. With https, it binds the cookie to this host
// (RFC 6265bis, "The __Host- Prefix").
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

// sessionCookieOf returns the cookie with the session of the request. A frame has its own cookie,
// so that it never shows what somebody is signed in to in a tab.
func sessionCookieOf(r *Request) string {
	if r.Framed() {
		return framedCookie
	}
	return sessionCookie
}

// SessionToken returns the token of the request's session; empty without one.
func SessionToken(r *Request) string { return r.Cookie(sessionCookieOf(r)) }

// AssetsPath begins the paths of styles, scripts and pictures.
const AssetsPath = "/assets/"

// SessionTokenOf is SessionToken for a request that no Site has yet. secure: the Site is at https;
// embeds: it has EmbedOrigins.
func SessionTokenOf(r *http.Request, secure, embeds bool) string {
	kind := sessionCookie
	if embeds && Framed(r) {
		kind = framedCookie
	}
	cookie, err := r.Cookie((&Site{Secure: secure}).cookieName(kind))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// SetSession stores the token of a session in the browser.
func SetSession(r *Request, token string, lifetime time.Duration) {
	r.SetCookie(sessionCookieOf(r), token, lifetime)
}

// ClearSession removes the token from the browser.
func ClearSession(r *Request) { r.ClearCookie(sessionCookieOf(r)) }

func (r *Request) writeCookie(kind, value string, maxAge int) {
	sameSite, partitioned := http.SameSiteLaxMode, false
	if kind == framedCookie && r.site.Secure {
		// The product may be another site. The browser then keeps the cookie only for frames in
		// that site (CHIPS). sameOrigin protects the requests that change something.
		sameSite, partitioned = http.SameSiteNoneMode, true
	}
	http.SetCookie(r.W, &http.Cookie{ //nolint:gosec // without Secure only on plain http, which is allowed on loopback only
		Name: r.site.cookieName(kind), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: r.site.Secure, SameSite: sameSite, Partitioned: partitioned,
	})
}

// FramedHeader is a header that scripts of a framed page add to their requests: browsers mark only
// the request for the page itself. Another site cannot set it.
const FramedHeader = "Ledgerfeed-Framed"

// Framed reports whether a request is for a page in a frame, or comes from one.
func Framed(r *http.Request) bool {
	return slices.Contains([]string{"iframe", "frame"}, r.Header.Get("Sec-Fetch-Dest")) || r.Header.Get(FramedHeader) != ""
}

// Framed reports whether the request is for the console in a product's frame, and so uses the
// session of that frame. It is always false without EmbedOrigins.
func (r *Request) Framed() bool { return len(r.site.EmbedOrigins) > 0 && Framed(r.Request) }

// ParseMoment parses a time as a form input sends it. Scripts send RFC 3339 in UTC; without
// scripts, browsers send the format of the input, which is also read as UTC.
func ParseMoment(text string) (t time.Time, ok bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// Moment is an optional time in a form, which the template part "moment" shows.
type Moment struct {
	Name  string    // for people
	Field string    // name of the form field
	At    time.Time // zero: empty
}

// QueryMoment reads a time from the address; a value that cannot be parsed gives an empty Moment.
func (r *Request) QueryMoment(name, field string) Moment {
	t, _ := ParseMoment(r.Query(field))
	return Moment{Name: name, Field: field, At: t}
}

// Value returns the input's value for browsers without scripts, in UTC.
func (m Moment) Value() string {
	if m.At.IsZero() {
		return ""
	}
	return m.At.Format("2006-01-02T15:04")
}

// UTC returns the time for scripts and addresses.
func (m Moment) UTC() string {
	if m.At.IsZero() {
		return ""
	}
	return m.At.Format(time.RFC3339)
}
