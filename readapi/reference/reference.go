package reference

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/ledgerfeed/ledgerfeed/internal/signaturecheck"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
)

var (
	//go:embed pages
	pageFiles embed.FS
	//go:embed reference.js
	script string
)

// Root is the path at which the API serves the front page. The others are below it.
const Root = "/docs"

// Page is a page of the documentation.
type Page struct {
	Path           string // below the front page, such as guides/pages; empty: the front page
	Title, Summary string // its first heading and the text below it

	// HTML has the page's style in one <style> element and its script in one <script>. It loads
	// nothing else and can be read without the script. All pages have the same style and script.
	HTML []byte

	Markdown []byte

	menu string     // the heading of the menu that it is under; empty: the menu does not have it
	main *html.Node // its content, whose links to other pages are paths
}

// Menu is a heading of the menu, with its pages.
type Menu struct {
	Name  string
	Pages []*Page
}

// ID identifies the heading on the front page.
func (m Menu) ID() string { return strings.ToLower(m.Name) }

// Under returns the addresses of pages below a path, for Pages.
func Under(root string) func(string) string {
	return func(path string) string { return strings.TrimSuffix(strings.TrimPrefix(root, "/")+"/"+path, "/") }
}

// Pages writes the documentation. Pages link to each other by relative addresses; address returns
// that of a page, without a slash at the beginning. If keys is nil, the service signs nothing.
//
// The Markdown of a page is made from its HTML. Its links lead to the Markdown of other pages, as
// the API serves it.
func Pages(info openapi.Info, keys *signingkey.Keys, address func(path string) string) ([]*Page, error) {
	w := &writer{info: info, address: address}
	if err := w.parse(); err != nil {
		return nil, err
	}
	if err := w.contents(keys); err != nil {
		return nil, err
	}
	front := &Page{}
	if err := w.write(front, "front.html", struct {
		openapi.Info

		Menu []Menu
	}{info, menu(w.pages)}); err != nil {
		return nil, err
	}
	w.pages = slices.Insert(w.pages, 0, front)
	index, err := json.Marshal(index(w.pages, address))
	if err != nil {
		return nil, fmt.Errorf("write the index of the API's reference: %w", err)
	}
	withIndex := template.JS(strings.Replace(script, "const pages = [];", "const pages = "+string(index)+";", 1)) //nolint:gosec // it is ours
	for i := range w.pages {
		if err := w.finish(i, withIndex); err != nil {
			return nil, err
		}
	}
	return w.pages, nil
}

// LLMs writes llms.txt (llmstxt.org): a line for each page, with the address of its Markdown.
func LLMs(info openapi.Info, pages []*Page) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n> %s\n\nThe OpenAPI document: %s/openapi.json\n", pages[0].Title, pages[0].Summary, info.DocsURL)
	for _, m := range menu(pages) {
		fmt.Fprintf(&b, "\n## %s\n\n", m.Name)
		for _, p := range m.Pages {
			fmt.Fprintf(&b, "- [%s](%s): %s\n", p.Title, textOf(info, p.Path), p.Summary)
		}
	}
	return b.Bytes()
}

// textOf returns the address of a page's Markdown.
func textOf(info openapi.Info, path string) string {
	return info.BaseURL + "/" + Under(Root)(path) + ".md"
}

// menu returns the pages that are in the menu.
func menu(pages []*Page) (list []Menu) {
	for _, p := range pages {
		if n := len(list); p.menu != "" && (n == 0 || list[n-1].Name != p.menu) {
			list = append(list, Menu{Name: p.menu})
		}
		if p.menu != "" {
			last := &list[len(list)-1]
			last.Pages = append(last.Pages, p)
		}
	}
	return list
}

// objectsMenu is the heading of the pages about objects.
const objectsMenu = "Objects"

// writer writes pages.
type writer struct {
	info      openapi.Info
	address   func(string) string
	templates *template.Template
	pages     []*Page
}

// parse reads the templates.
func (w *writer) parse() error {
	var err error
	w.templates, err = template.New("").Funcs(template.FuncMap{
		"programs": func(name, path string) ([]sample, error) {
			return programs(name, name, places{URL: w.info.BaseURL + path})
		},
		"checks": func() ([]sample, error) {
			checks, err := signaturecheck.Samples(w.info.Brand.SignatureHeader())
			list := make([]sample, len(checks))
			for i, c := range checks {
				list[i] = sample{Of: "verify", Language: c.Language, Code: c.Code}
			}
			return list, err
		},
		"eventTypes": eventTypes,
		"errors":     apiErrors,
	}).ParseFS(pageFiles, "pages/*.html", "pages/*.css", "pages/guides/*.html")
	if err != nil {
		return fmt.Errorf("read the templates of the API's reference: %w", err)
	}
	return nil
}

// contents writes the content of all pages but the first, in the order of the menu.
func (w *writer) contents(keys *signingkey.Keys) error {
	for _, name := range []string{
		"permissions", "following", "pages", "filters", "changing-keys", "whole-lists", "waiting", "positions", "questions", "forms", "retries", "verifying", "missing", "proof", "go-client", "typescript-client", "python-client", "generated-clients", "copy", "what-may-change",
	} {
		if err := w.write(&Page{Path: "guides/" + name, menu: "Guides"}, name+".html", w.info); err != nil {
			return err
		}
	}
	objects, err := objectPages(w.info.BaseURL)
	if err != nil {
		return err
	}
	for i := range objects {
		if err := w.write(&Page{Path: objects[i].Path, menu: objectsMenu}, "object.html", &objects[i]); err != nil {
			return err
		}
	}
	signing, err := newKeysPage(w.info, keys)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		path, menu, template string
		shown                any
	}{
		{"event-types", "Webhooks", "event-types.html", w.info}, {"webhooks", "Webhooks", "webhooks.html", w.info},
		{"errors", "Service", "errors.html", w.info}, {"keys", "Service", "keys.html", signing},
	} {
		if err := w.write(&Page{Path: p.path, menu: p.menu}, p.template, p.shown); err != nil {
			return err
		}
	}
	for _, e := range apiErrors() {
		if err := w.write(&Page{Path: "errors/" + strconv.Itoa(e.Status)}, "error.html", e); err != nil {
			return err
		}
	}
	return nil
}

// write writes a page's content, and adds the page.
func (w *writer) write(p *Page, name string, shown any) error {
	var b bytes.Buffer
	if err := w.templates.ExecuteTemplate(&b, name, shown); err != nil {
		return fmt.Errorf("write the API's reference: %w", err)
	}
	p.main = &html.Node{Type: html.ElementNode, Data: "main", DataAtom: atom.Main}
	nodes, err := html.ParseFragment(&b, p.main)
	if err != nil {
		return fmt.Errorf("read %s of the API's reference: %w", name, err)
	}
	for _, n := range nodes {
		p.main.AppendChild(n)
	}
	p.Title, p.Summary = plain(find(p.main, atom.H1)), plain(find(p.main, atom.P))
	p.Markdown = []byte(markdown(p.main, func(href string) string {
		path, ok := inside(href)
		switch {
		case !ok && strings.HasPrefix(href, "#"): // Markdown has no ids
			return ""
		case !ok:
			return href
		}
		path, _, _ = strings.Cut(path, "#")
		return textOf(w.info, path)
	}))
	if p.Path != "" {
		w.pages = append(w.pages, p)
	}
	return nil
}

// finish puts the frame around a page's content.
func (w *writer) finish(i int, script template.JS) error {
	p := w.pages[i]
	at := layout{Page: p, Menu: menu(w.pages), Script: script, Text: textOf(w.info, p.Path), Up: strings.Repeat("../", strings.Count(w.address(p.Path), "/")), address: w.address}
	if i > 0 {
		at.Before = w.pages[i-1]
	}
	if i+1 < len(w.pages) {
		at.After = w.pages[i+1]
	}
	var b bytes.Buffer
	for n := range p.main.Descendants() {
		for i := range n.Attr {
			if path, ok := inside(n.Attr[i].Val); ok && n.Attr[i].Key == "href" {
				n.Attr[i].Val = at.To(path)
			}
		}
	}
	for n := range p.main.ChildNodes() {
		if err := html.Render(&b, n); err != nil {
			return fmt.Errorf("write the API's reference: %w", err)
		}
	}
	at.Main = template.HTML(b.String()) //nolint:gosec // html/template has written it
	var page bytes.Buffer
	if err := w.templates.ExecuteTemplate(&page, "layout.html", at); err != nil {
		return fmt.Errorf("write the API's reference: %w", err)
	}
	p.HTML = page.Bytes()
	return nil
}

// layout is the data of the frame around a page's content.
type layout struct {
	*Page

	Main          template.HTML
	Menu          []Menu
	Before, After *Page // nil: none
	Text          string
	Script        template.JS
	Up            string // leads from the page to where addresses begin

	address func(string) string
}

// To returns the link to a path, which may have an id behind it.
func (l layout) To(path string) string {
	path, id, found := strings.Cut(path, "#")
	if found {
		id = "#" + id
	}
	return l.Up + l.address(path) + id
}

// inside returns the path of a link to another page; false: it leads elsewhere.
func inside(href string) (path string, ok bool) {
	return href, !strings.HasPrefix(href, "#") && !strings.Contains(href, ":")
}

// Policy returns the Content-Security-Policy of a page, which allows its own style and script and
// nothing else.
func Policy(page []byte) string {
	hash := func(tag string) string {
		_, rest, found := bytes.Cut(page, []byte("<"+tag+">"))
		if !found {
			return "'none'"
		}
		text, _, _ := bytes.Cut(rest, []byte("</"+tag+">"))
		sum := sha256.Sum256(text)
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; style-src " + hash("style") + "; script-src " + hash("script") + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// apiError describes the errors of one status.
type apiError struct {
	Status int
	Title  string
	When   string // and what to do
	Codes  []answer.CodeOfStatus
}

// apiErrors describes the API's errors.
func apiErrors() []apiError {
	var list []apiError
	for _, status := range openapi.ErrorStatuses() {
		e := apiError{Status: status, Title: answer.Title(status), When: openapi.ErrorDescription(status)}
		for _, c := range answer.Codes() {
			if slices.Contains(c.Statuses, status) {
				e.Codes = append(e.Codes, c)
			}
		}
		list = append(list, e)
	}
	return list
}
