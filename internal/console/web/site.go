package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

//go:embed pages
var pageFiles embed.FS

// Site is what all requests share.
type Site struct {
	Clock  func() time.Time
	Logger *slog.Logger
	Tracer trace.Tracer // makes a span of each request; nil: none
	Secure bool         // the site is served over https: cookies are bound to the host

	EmbedOrigins List   // of the products that may show the console in a frame
	Name         string // of the product in titles and beside the logo
	Logo         string // the asset with the logo

	// AnomaliesWait tells whether anomalies that a session may see wait to be looked
	// at; the menu of every page says so.
	AnomaliesWait func(context.Context, *session.Session, time.Time) (bool, error)
	// NeedsAttention tells whether something on the overview does; the menu says so, too.
	NeedsAttention func(context.Context, *session.Session, time.Time) (bool, error)

	pages map[string]*template.Template // each with the layout and the shared parts
}

// shared are the files that every page may use.
func shared() []string { return []string{"pages/layout.html", "pages/parts.html"} }

// LoadPages reads the templates. They refer to the assets.
func (s *Site) LoadPages(a *Assets) error {
	base := template.New("layout").Funcs(template.FuncMap{
		"asset": a.address, "time": timeTag, "ago": Ago, "count": Count, "plural": Plural, "permission": Permission,
		"event": Event, "outcome": Outcome, "escape": url.PathEscape, "ms": Millis, "bytes": Bytes,
		"until": Until, "badge": Badge, "last": lastAttempt, "failure": Failure, "sentence": Sentence,
		"paths": PermissionPaths, "summary": faultSummary, "first": firstFault, "faultCount": faultCount,
		"named": func(name, value string) Pair { return Pair{name, value} }, "moments": Moments,
		"dotted":  func(typ string) []string { return strings.Split(typ, ".") },
		"product": func() string { return s.Name }, "logo": func() (string, error) { return a.address(s.Logo) },
	})
	base, err := base.ParseFS(pageFiles, shared()...)
	if err != nil {
		return fmt.Errorf("cannot read the console's pages: %w", err)
	}
	files, err := fs.Glob(pageFiles, "pages/*.html")
	if err != nil {
		return fmt.Errorf("cannot read the console's pages: %w", err)
	}
	s.pages = map[string]*template.Template{}
	for _, file := range files {
		if slices.Contains(shared(), file) {
			continue
		}
		t, err := base.Clone()
		if err == nil {
			t, err = t.ParseFS(pageFiles, file)
		}
		if err != nil {
			return fmt.Errorf("cannot read the console's pages: %w", err)
		}
		s.pages[strings.TrimSuffix(path.Base(file), ".html")] = t
	}
	return nil
}

// timeTag shows a moment with its zone: in UTC, and with scripts in the reader's zone,
// with UTC on hover. Form is "second", "minute" or "day".
func timeTag(form string, t time.Time) template.HTML {
	if t.IsZero() {
		return "—"
	}
	t = t.UTC()
	layout := map[string]string{"second": "2 Jan 2006, 15:04:05 UTC", "minute": "2 Jan 2006, 15:04 UTC", "day": "2 Jan 2006 UTC"}[form]
	tag := `<time datetime="` + t.Format(time.RFC3339) + `" title="` + t.Format("2006-01-02 15:04:05 UTC") +
		`" data-form="` + template.HTMLEscapeString(form) + `">` + t.Format(layout) + `</time>`
	return template.HTML(tag) //nolint:gosec // made of digits, fixed words and names of months only
}

func lastAttempt(list []delivery.AttemptView) delivery.AttemptView { return list[len(list)-1] }

// Failure describes what went wrong in an attempt, as far as its status does not.
func Failure(v delivery.AttemptView) string {
	switch {
	case v.Error == nil:
		return ""
	case v.Status == nil:
		return *v.Error
	}
	rest, named := strings.CutPrefix(*v.Error, "answered "+strconv.Itoa(*v.Status))
	if !named {
		return *v.Error
	}
	_, more, _ := strings.Cut(rest, ", ")
	return more
}

//go:embed assets
var assetFiles embed.FS

// Assets serves the stylesheet, the scripts and the icon. The name of each has a
// hash of its content, so that browsers may cache it for ever.
type Assets struct {
	byName map[string]string // console.css → /assets/console.1a2b3c4d.css
	bodies map[string]asset  // by the name with the hash
}

// asset is a file as it is, and compressed with gzip.
type asset struct{ plain, gzip []byte }

// LoadAssets reads the embedded files.
func LoadAssets() (*Assets, error) {
	a := &Assets{byName: map[string]string{}, bodies: map[string]asset{}}
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		return nil, fmt.Errorf("cannot read the console's assets: %w", err)
	}
	for _, e := range entries {
		body, err := fs.ReadFile(assetFiles, "assets/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("cannot read the console's assets: %w", err)
		}
		if _, err := a.Add(e.Name(), body); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Apply gives the stylesheet the colours of a theme, and adds its logo.
func (a *Assets) Apply(t *Theme) error {
	const sheet = "console.css"
	if css := t.CSS(); css != nil {
		if _, err := a.Add(sheet, slices.Concat(a.bodies[path.Base(a.byName[sheet])].plain, css)); err != nil {
			return err
		}
	}
	if t.Logo.Type == "" {
		return nil
	}
	_, err := a.Add("logo"+t.Logo.Type, t.Logo.Body)
	return err
}

// Add adds an asset and returns its address. It is compressed here, once.
func (a *Assets) Add(name string, body []byte) (address string, err error) {
	var small bytes.Buffer
	z, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(body)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return "", fmt.Errorf("cannot compress the console's asset %s: %w", name, err)
	}
	sum := sha256.Sum256(body)
	extension := path.Ext(name)
	hashed := strings.TrimSuffix(name, extension) + "." + hex.EncodeToString(sum[:6]) + extension
	a.byName[name] = "/assets/" + hashed
	a.bodies[hashed] = asset{body, small.Bytes()}
	return a.byName[name], nil
}

func (a *Assets) address(name string) (string, error) {
	address, ok := a.byName[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %q", name)
	}
	return address, nil
}

// ServeHTTP serves the asset that the route's parameter file names.
func (a *Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := chi.URLParam(r, "file")
	file, ok := a.bodies[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	if path.Ext(name) == "" || h.Get("Content-Type") == "" {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := file.plain
	if acceptsGzip(r) && len(file.gzip) < len(file.plain) {
		body = file.gzip
		h.Set("Content-Encoding", "gzip")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}

// acceptsGzip tells whether the caller takes gzip. One that weighs encodings (";q=")
// gets none, because no browser does.
func acceptsGzip(r *http.Request) bool {
	for item := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(item) == "gzip" {
			return true
		}
	}
	return false
}

// A draft is a form that was sent after its session had ended. It is kept in a cookie of
// the browser that sent it, so that the server stores nothing, until the same person is
// signed in to the same workspace again and sees the form with it. It is only ever shown,
// never sent by itself.

const (
	// DraftLifetime is how long a form is kept after its session has ended.
	DraftLifetime = 30 * time.Minute
	// maxDraft bounds the cookie, because proxies bound the headers of an answer. A
	// larger form is not kept.
	maxDraft = 2400

	draftPage  = "draft_page"  // the field with the address of the page that the form is on
	draftOwner = "draft_owner" // the field with the owner
)

// Draft is what makes a form one that is kept: two fields of it.
type Draft struct {
	Page  string // the address of the page that the form is on
	Owner string // see ownerOf
}

// Draft is for the forms on the page with an address.
func (v *View) Draft(page string) Draft {
	return Draft{Page: page, Owner: ownerOf(v.Session.WorkspaceID, v.Session.Person)}
}

// ownerOf stands for a person in a workspace. People who use sign-in links have another
// subject with every link, so they are told apart by the name that the link was made for.
func ownerOf(workspaceID string, p session.Person) string {
	who := p.Name
	if p.Issuer != "" {
		who = p.Subject
	}
	h := sha256.Sum256([]byte(workspaceID + "\x00" + p.Issuer + "\x00" + who))
	return base64.RawURLEncoding.EncodeToString(h[:12])
}

// OfAnother tells whether the form that was sent is on a page of another workspace or person
// than the session: who has opened two workspaces in one browser has the session of the last.
func OfAnother(r *Request) bool {
	owner := r.PostForm.Get(draftOwner)
	return owner != "" && owner != ownerOf(r.Session.WorkspaceID, r.Session.Person)
}

// keepDraft keeps the form that was sent, if it is one to keep and not too large. It
// returns the page that it is on; empty: nothing is kept.
func (r *Request) keepDraft() (page string) {
	page = Local(r.PostForm.Get(draftPage))
	if page == "/" || r.PostForm.Get(draftOwner) == "" {
		return ""
	}
	value := base64.RawURLEncoding.EncodeToString([]byte(r.PostForm.Encode()))
	if len(value) > maxDraft {
		return ""
	}
	r.SetCookie(DraftCookie, value, DraftLifetime)
	return page
}

// draft returns the form that is kept in the browser; nil: none.
func (r *Request) draft() url.Values {
	text, err := base64.RawURLEncoding.DecodeString(r.Cookie(DraftCookie))
	if err != nil || len(text) == 0 {
		return nil
	}
	form, err := url.ParseQuery(string(text))
	if err != nil {
		return nil
	}
	return form
}

// DraftPage is the page of the form that is kept for a person in a workspace; empty:
// none.
func (r *Request) DraftPage(workspaceID string, p session.Person) string {
	form := r.draft()
	if form.Get(draftOwner) != ownerOf(workspaceID, p) {
		return ""
	}
	page := Local(form.Get(draftPage))
	if page == "/" {
		return ""
	}
	return page
}

// RestoreDraft makes the fields of the form that is kept for this page and person those of
// the request, and keeps the form no longer. It returns false where there is none.
func (r *Request) RestoreDraft() bool {
	if r.DraftPage(r.Session.WorkspaceID, r.Session.Person) != r.URL.Path {
		return false
	}
	r.PostForm = r.draft()
	r.ClearCookie(DraftCookie)
	return true
}

// DropDraft keeps no form any longer: another person may use the browser.
func (r *Request) DropDraft() {
	if strings.TrimSpace(r.Cookie(DraftCookie)) != "" {
		r.ClearCookie(DraftCookie)
	}
}
