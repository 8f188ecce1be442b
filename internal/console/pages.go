package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
)

//go:embed pages
var pageFiles embed.FS

// pages is the templates: each page with the layout and the parts.
type pages struct {
	byName map[string]*template.Template
}

// view is what every page is made from.
type view struct {
	Title   string
	Section string // of the menu: keys, webhooks, events, requests, audit
	Session *session
	Now     time.Time
	Did     string // what was done just now, in a sentence; empty: nothing
	Wide    bool   // no menu: signing in
	Body    any
}

// pager is the addresses of the pages around one of a list; empty where there
// is none.
type pager struct {
	Newest, Older string
}

// shared are the files that every page may use.
func shared() []string { return []string{"pages/layout.html", "pages/parts.html"} }

func loadPages(a *assets) (*pages, error) {
	base := template.New("layout").Funcs(template.FuncMap{
		"asset": a.url, "time": timeTag, "ago": ago, "count": formatCount, "plural": plural, "permissionWords": permissionWords,
		"eventWords": eventWords, "outcomeWords": outcomeWords, "escape": url.PathEscape, "ms": formatMillis, "bytes": formatBytes,
		"until": until, "host": hostOf, "badge": badgeOf, "last": lastAttempt, "why": why, "sentence": sentence, "paths": permissionPaths,
	})
	base, err := base.ParseFS(pageFiles, shared()...)
	if err != nil {
		return nil, fmt.Errorf("read the console's pages: %w", err)
	}
	files, err := fs.Glob(pageFiles, "pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("read the console's pages: %w", err)
	}
	p := &pages{byName: map[string]*template.Template{}}
	for _, file := range files {
		if slices.Contains(shared(), file) {
			continue
		}
		t, err := base.Clone()
		if err == nil {
			t, err = t.ParseFS(pageFiles, file)
		}
		if err != nil {
			return nil, fmt.Errorf("read the console's pages: %w", err)
		}
		p.byName[strings.TrimSuffix(path.Base(file), ".html")] = t
	}
	return p, nil
}

// show answers with a page. A page that renews a part of itself gets that part,
// which its file calls "live".
func (c *Console) show(a *ask, page string, v view) error {
	return c.showStatus(a, http.StatusOK, page, v)
}

func (c *Console) showStatus(a *ask, status int, page string, v view) error {
	t := c.pages.byName[page]
	if t == nil {
		return fmt.Errorf("there is no page %q", page)
	}
	v.Session, v.Now = a.session, a.now
	if v.Did == "" {
		v.Did = didWords(a.query("did"))
	}
	part := "layout"
	if a.live() && t.Lookup("live") != nil {
		part = "live"
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, part, &v); err != nil {
		return fmt.Errorf("make the page %q: %w", page, err)
	}
	a.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	a.w.WriteHeader(status)
	_, _ = a.w.Write(b.Bytes()) // who has gone away misses nothing
	return nil
}

// showFragment answers with one part of a page's file.
func (c *Console) showFragment(a *ask, page, part string, data any) error {
	var b bytes.Buffer
	if err := c.pages.byName[page].ExecuteTemplate(&b, part, data); err != nil {
		return fmt.Errorf("make %s of the page %q: %w", part, page, err)
	}
	a.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = a.w.Write(b.Bytes()) // who has gone away misses nothing
	return nil
}

// timeTag shows a moment: in UTC, and with scripts in the reader's zone, with
// UTC on hover. Form is "second", "minute" or "day".
func timeTag(form string, t time.Time) template.HTML {
	if t.IsZero() {
		return "—"
	}
	t = t.UTC()
	layout := map[string]string{"second": "2 Jan 2006, 15:04:05 UTC", "minute": "2 Jan 2006, 15:04 UTC", "day": "2 Jan 2006"}[form]
	tag := `<time datetime="` + t.Format(time.RFC3339) + `" title="` + t.Format("2006-01-02 15:04:05 UTC") +
		`" data-form="` + template.HTMLEscapeString(form) + `">` + t.Format(layout) + `</time>`
	return template.HTML(tag) //nolint:gosec // made of digits, fixed words and names of months alone
}

func lastAttempt(list []delivery.AttemptView) delivery.AttemptView { return list[len(list)-1] }
