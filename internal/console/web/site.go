package web

import (
	"context"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/origin"
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

	EmbedOrigins origin.List // of the products that may show the console in a frame
	Name         string      // of the product in titles and beside the logo
	Logo         string      // the asset with the logo

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
		"asset": a.address, "time": timeTag, "ago": label.Ago, "count": label.Count, "plural": label.Plural, "permission": label.Permission,
		"event": label.Event, "outcome": label.Outcome, "escape": url.PathEscape, "ms": label.Millis, "bytes": label.Bytes,
		"until": label.Until, "badge": label.Badge, "last": lastAttempt, "failure": Failure, "sentence": label.Sentence,
		"paths": label.PermissionPaths, "summary": faultSummary, "first": firstFault, "faultCount": faultCount,
		"named": func(name, value string) Pair { return Pair{name, value} }, "moments": label.Moments,
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
