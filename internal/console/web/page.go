package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

// View is what every page is made from.
type View struct {
	Title   string
	Section string // of the menu: overview, keys, webhooks, events, data, requests, anomalies, audit
	Session *session.Session
	Now     time.Time
	Flash   string // what was done just now, in a sentence; empty: nothing
	Wide    bool   // without the menu: signing in
	Body    any

	Framed         bool // in a frame of a product
	AnomaliesWait  bool // anomalies that the session may see wait to be looked at
	NeedsAttention bool // something on the overview does
}

// Show answers with a page. A page that renews a part of itself gets only that
// part, which its file calls "live".
func (r *Request) Show(page string, v View) error {
	return r.ShowStatus(http.StatusOK, page, v)
}

// ShowStatus is Show with a status.
func (r *Request) ShowStatus(status int, page string, v View) error {
	t := r.site.pages[page]
	if t == nil {
		return fmt.Errorf("there is no page %q", page)
	}
	v.Session, v.Now, v.Flash, v.Framed = r.Session, r.Now, label.Flash(r.Query("did")), r.Framed()
	part := "layout"
	if r.Live() && t.Lookup("live") != nil {
		part = "live"
	} else if r.Session != nil && !v.Wide {
		v.AnomaliesWait, v.NeedsAttention = r.marks()
	}
	return r.write(status, t, page, part, &v)
}

// marks are those in the menu. One is missing where it is not known: the page is about
// something else.
func (r *Request) marks() (anomaliesWait, needsAttention bool) {
	anomaliesWait, err := r.site.AnomaliesWait(r.Context(), r.Session, r.Now)
	if err != nil {
		r.Warn("cannot look whether anomalies wait", err)
	}
	if needsAttention, err = r.site.NeedsAttention(r.Context(), r.Session, r.Now); err != nil {
		r.Warn("cannot look whether something needs attention", err)
	}
	return anomaliesWait, needsAttention
}

// ShowPart answers with one part of a page's file.
func (r *Request) ShowPart(page, part string, data any) error {
	return r.write(http.StatusOK, r.site.pages[page], page, part, data)
}

func (r *Request) write(status int, t *template.Template, page, part string, data any) error {
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, part, data); err != nil {
		return fmt.Errorf("cannot make %s of the page %q: %w", part, page, err)
	}
	r.WriteHTML(status, b.Bytes())
	return nil
}

// WriteHTML answers with a whole page.
func (r *Request) WriteHTML(status int, page []byte) {
	r.W.Header().Set("Content-Type", "text/html; charset=utf-8")
	r.W.WriteHeader(status)
	_, _ = r.W.Write(page) // an error means that the browser has gone away
}
