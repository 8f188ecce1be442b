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
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
)

//go:embed pages
var pageFiles embed.FS

// Site holds what all requests share.
type Site struct {
	Clock  func() time.Time
	Logger *slog.Logger
	Tracer trace.Tracer // starts a span for each request; nil: no spans
	Secure bool         // the site is served over https: cookies are bound to the host

	EmbedOrigins List   // of the products that may show the console in a frame
	Name         string // product name, in titles and next to the logo
	Logo         string // name of the logo asset

	// AnomaliesWait reports whether there are unacknowledged anomalies that a session may see. The
	// menu of every page shows it.
	AnomaliesWait func(context.Context, *session.Session, time.Time) (bool, error)
	// NeedsAttention reports whether something on the overview needs attention, which the menu shows,
	// and whether the data has stopped, which every page of data says.
	NeedsAttention func(context.Context, *session.Session, time.Time) (needed, stopped bool, err error)

	pages map[string]*template.Template // by name; each includes the layout and the shared parts
}

// shared returns the template files that every page may use.
func shared() []string { return []string{"pages/layout.html", "pages/parts.html"} }

// LoadPages parses the templates, which refer to the assets.
func (s *Site) LoadPages(a *Assets) error {
	base := template.New("layout").Funcs(template.FuncMap{
		"asset": a.address, "time": exactTag, "when": whenTag, "count": Count, "plural": Plural, "permission": Permission,
		"event": Event, "outcome": Outcome, "escape": url.PathEscape, "ms": Millis, "bytes": Bytes,
		"badge": Badge, "last": lastAttempt, "failure": Failure, "sentence": Sentence,
		"paths": PermissionPaths, "anomaly": anomaly.Name, "summary": faultSummary, "first": firstFault, "faultCount": faultCount,
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

// exactTag shows t in UTC, to the "second" or the "minute". Scripts convert it to the reader's zone.
// The page says once which zone that is, and the tag's title has UTC.
func exactTag(form string, t time.Time) template.HTML {
	layout := map[string]string{"second": "2 Jan 2006, 15:04:05", "minute": "2 Jan 2006, 15:04"}[form]
	return timeTag(form, t, t.UTC().Format(layout))
}

// whenTag shows how far t is from now, for lists. The tag's title has the exact time.
func whenTag(now, t time.Time) template.HTML { return timeTag("when", t, When(now, t)) }

func timeTag(form string, t time.Time, text string) template.HTML {
	if t.IsZero() {
		return Nothing
	}
	t = t.UTC()
	tag := `<time datetime="` + t.Format(time.RFC3339) + `" title="` + t.Format("2006-01-02 15:04:05 UTC") +
		`" data-form="` + template.HTMLEscapeString(form) + `">` + text + `</time>`
	return template.HTML(tag) //nolint:gosec // made of digits, fixed words and names of months only
}

func lastAttempt(list []delivery.AttemptView) delivery.AttemptView { return list[len(list)-1] }

// Failure describes what went wrong in an attempt, without repeating its status.
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

// Assets serves the stylesheet, the scripts and the icon. Each file name contains a hash of the
// content, so that browsers may cache it for ever.
type Assets struct {
	byName map[string]string // console.css → /assets/console.1a2b3c4d.css
	bodies map[string]asset  // by the name with the hash
}

// asset is a file, plain and compressed with gzip.
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

// Apply adds the colours of a theme to the stylesheet, and its logo to the assets.
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

// Add compresses an asset, stores it and returns its address.
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
	a.byName[name] = AssetsPath + hashed
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

// ServeHTTP serves the asset that the route parameter "file" names.
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

// acceptsGzip reports whether the caller accepts gzip. It ignores encodings with a weight (";q="),
// because browsers send none.
func acceptsGzip(r *http.Request) bool {
	for item := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(item) == "gzip" {
			return true
		}
	}
	return false
}

// A draft is a form that was sent after its session had ended. The server stores nothing: the
// browser that sent the form keeps it in a cookie. When the same person signs in to the same
// workspace again, the page shows the form with its values. The console never sends a draft on its
// own.

const (
	// DraftLifetime is how long the browser keeps a draft.
	DraftLifetime = 30 * time.Minute
	// maxDraft is the maximum length of the cookie's value, because proxies limit the headers of a
	// response. A larger form is not kept.
	maxDraft = 2400

	draftPage  = "draft_page"  // form field with the address of the form's page
	draftOwner = "draft_owner" // form field with the owner
)

// Draft holds the two hidden fields that let the browser keep a form as a draft.
type Draft struct {
	Page  string // address of the form's page
	Owner string // see ownerOf
}

// Draft returns the draft fields for a form on the page with this address.
func (v *View) Draft(page string) Draft {
	return Draft{Page: page, Owner: ownerOf(v.Session.WorkspaceID, v.Session.Person)}
}

// ownerOf identifies a person in a workspace. Each sign-in link has its own subject, so people who
// use links are identified by the name that the link was created for.
func ownerOf(workspaceID string, p session.Person) string {
	who := p.Name
	if p.Issuer != "" {
		who = p.Subject
	}
	h := sha256.Sum256([]byte(workspaceID + "\x00" + p.Issuer + "\x00" + who))
	return base64.RawURLEncoding.EncodeToString(h[:12])
}

// OfAnother reports whether the form comes from a page of another workspace or person than the
// session. A browser in which somebody opened two workspaces has only the session of the last one.
func OfAnother(r *Request) bool {
	owner := r.PostForm.Get(draftOwner)
	return owner != "" && owner != ownerOf(r.Session.WorkspaceID, r.Session.Person)
}

// keepDraft keeps the form as a draft, if it has the draft fields and is not too large. It returns
// the page of the form; empty: nothing is kept.
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

// draft returns the draft that the browser sent; nil: none.
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

// DraftPage returns the page of the draft of a person in a workspace; empty: none.
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

// RestoreDraft moves the draft for this page and person into the request's form and deletes the
// cookie. It returns false if there is no such draft.
func (r *Request) RestoreDraft() bool {
	if r.DraftPage(r.Session.WorkspaceID, r.Session.Person) != r.URL.Path {
		return false
	}
	r.PostForm = r.draft()
	r.ClearCookie(DraftCookie)
	return true
}

// DropDraft deletes any draft, because another person may use the browser.
func (r *Request) DropDraft() {
	if strings.TrimSpace(r.Cookie(DraftCookie)) != "" {
		r.ClearCookie(DraftCookie)
	}
}
