package reference_test

import (
	"bytes"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/klauspost/compress/gzip"
	"golang.org/x/net/html"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

// inspected is a page by the ids of its elements, with the text of each.
type inspected struct {
	text     map[string]string
	links    []string
	headings []string // of its content, with their level
	kinds    map[string]int
}

func inspect(t *testing.T, page []byte) inspected {
	t.Helper()
	root := testkit.Must(html.Parse(bytes.NewReader(page)))(t)
	p := inspected{text: map[string]string{}, kinds: map[string]int{}}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && slices.ContainsFunc(slices.Collect(n.Ancestors()), func(a *html.Node) bool { return a.Data == "main" }) {
			p.kinds[n.Data]++
			if level, err := strconv.Atoi(strings.TrimPrefix(n.Data, "h")); err == nil {
				p.headings = append(p.headings, strings.Repeat("#", level)+" "+textOf(n))
			}
		}
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				if _, twice := p.text[a.Val]; twice {
					t.Errorf("the id %s is there twice", a.Val)
				}
				p.text[a.Val] = textOf(n)
			case "href", "src", "action":
				p.links = append(p.links, a.Val)
			}
		}
	}
	return p
}

// textOf is the text of an element, its white space made one space.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
			b.WriteByte(' ')
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func info() openapi.Info {
	return openapi.Info{BaseURL: "https://api.example.com", DocsURL: "https://api.example.com/docs"}
}

// pages are those that the API serves.
func pages(t *testing.T) []*reference.Page {
	t.Helper()
	return testkit.Must(reference.Pages(info(), nil, reference.Under(reference.Root)))(t)
}

// parts are the texts of the elements with an id, of all pages.
func parts(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, p := range pages(t) {
		for id, text := range inspect(t, p.HTML).text {
			all[id] += text
		}
	}
	return all
}

// TestPagesSayWhatTheDescriptionSays: each operation with its parameters and permission,
// each field with its meaning, each type of event and each error is on a page.
func TestPagesSayWhatTheDescriptionSays(t *testing.T) {
	t.Parallel()
	all := parts(t)
	says := func(id string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(all[id], strings.Join(strings.Fields(w), " ")) {
				t.Errorf("%s does not say %q: %q", id, w, all[id])
			}
		}
	}
	document := testkit.Must(openapi3.NewLoader().LoadFromData(testkit.Must(openapi.Document(info()))(t)))(t)
	for path, item := range document.Paths.Map() {
		id := item.Get.OperationID
		if strings.HasPrefix(id, "download") {
			continue // the list itself says where it comes whole
		}
		description, _, _ := strings.Cut(item.Get.Description, " Needs ")
		says(id, "GET "+path, item.Get.Summary, description)
		for _, p := range item.Get.Parameters {
			if p.Value.In == "query" {
				says(id+"."+p.Value.Name, p.Value.Description)
			}
			if p.Value.Name == "cursor" {
				says(id, "Stop on has_more: false")
			}
		}
		for _, scopes := range *item.Get.Security {
			for _, scope := range scopes["apiKey"] {
				says(id, "Needs "+scope)
			}
		}
		for _, language := range []string{"curl", "Go", "TypeScript", "Python"} {
			says(id, language)
		}
	}
	for object, fields := range map[string][]jsonform.FieldDescription{
		"invoice": domain.InvoiceFields(), "charge": domain.ChargeFields(), "time-entry": domain.TimeEntryFields(), "payment": domain.PaymentFields(),
		"client": domain.ClientFields(), "contractor": domain.ContractorFields(), "client-credit": domain.CreditFields(), "event": domain.EventFields(),
		"removed-row": domain.TombstoneFields(),
	} {
		for i := range fields {
			f := &fields[i]
			id := "object-" + object + "." + f.Name
			says(id, openapi.FieldDescription(f), string(openapi.PermissionOf(f.Part)))
			for j := range f.Fields {
				inner := id + "." + f.Fields[j].Name
				if f.Form == domain.FormArray {
					inner = id + "[]." + f.Fields[j].Name
				}
				says(inner, openapi.FieldDescription(&f.Fields[j]))
			}
		}
	}
	for _, e := range domain.EventTypes() {
		says("event-"+e.Type, e.When, `"type": "`+e.Type+`"`, `"object_type": "`+e.ObjectType+`"`)
		if e.When == "" {
			t.Errorf("%s has no meaning", e.Type)
		}
	}
	for _, c := range answer.Codes() {
		says(string(c.Code), c.Meaning)
		for _, status := range c.Statuses {
			says(fmt.Sprintf("error-%d", status), openapi.ErrorDescription(status), string(c.Code))
		}
	}
}

// TestLinksLeadSomewhere: wherever the pages are, each link on them leads to a page and a part that
// are there, and a reader comes from the first page to the last by the links at their ends.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(string) string{
		"docs": reference.Under("/docs"), "api": reference.Under("/api"), "deep": reference.Under("/a/b"),
		"files": func(path string) string { return path + "index.html" },
	} {
		there := map[string]inspected{}
		list := testkit.Must(reference.Pages(info(), nil, address))(t)
		for _, p := range list {
			there["https://elsewhere.example/"+address(p.Path)] = inspect(t, p.HTML)
			there["https://api.example.com/"+reference.Under("/docs")(p.Path)+".md"] = inspected{}
		}
		for _, known := range []string{"docs/openapi.json", "docs/keys.txt"} {
			there["https://api.example.com/"+known] = inspected{}
		}
		for i, p := range list {
			at := "https://elsewhere.example/" + address(p.Path)
			base := testkit.Must(url.Parse(at))(t)
			linked := map[string]bool{}
			for _, link := range there[at].links {
				to := base.ResolveReference(testkit.Must(url.Parse(link))(t))
				id := to.Fragment
				to.Fragment = ""
				linked[to.String()] = true
				page, found := there[to.String()]
				if _, part := page.text[id]; !found && !strings.HasPrefix(link, "https://c2sp.org/") || id != "" && !part {
					t.Errorf("%s: the link %s of %q leads nowhere", name, link, p.Path)
				}
			}
			if i+1 < len(list) && !linked["https://elsewhere.example/"+address(list[i+1].Path)] {
				t.Errorf("%s: no link leads from %q to %q", name, p.Path, list[i+1].Path)
			}
			for link := range strings.SplitSeq(string(p.Markdown), "](") {
				link, _, _ = strings.Cut(link, ")")
				if _, found := there[link]; strings.HasPrefix(link, "https://api") && !found {
					t.Errorf("%s: the link %s in the Markdown of %q leads nowhere", name, link, p.Path)
				}
			}
		}
	}
}

// TestMarkdownSaysTheSame: the Markdown of a page has its headings, and as many rows, items and pieces
// of code.
func TestMarkdownSaysTheSame(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		page := inspect(t, p.HTML)
		var headings []string
		counts := map[string]int{}
		code := false
		for line := range strings.Lines(string(p.Markdown)) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(line, "```"):
				code = !code
				if code {
					counts["pre"]++
				}
			case code:
			case strings.HasPrefix(line, "#"):
				headings = append(headings, strings.ReplaceAll(line, "`", ""))
			case strings.HasPrefix(line, "|---"):
			case strings.HasPrefix(line, "|"):
				counts["tr"]++
			case strings.HasPrefix(line, "- "), regexp.MustCompile(`^\d\. `).MatchString(line):
				counts["li"]++
			}
		}
		if !slices.Equal(headings, page.headings) || len(headings) == 0 {
			t.Errorf("%q has the headings %q, and in Markdown %q", p.Path, page.headings, headings)
		}
		for _, kind := range []string{"pre", "tr", "li"} {
			if counts[kind] != page.kinds[kind] {
				t.Errorf("%q: %d of %s, and in Markdown %d", p.Path, page.kinds[kind], kind, counts[kind])
			}
		}
		if p.Title == "" || p.Summary == "" || !strings.HasPrefix(string(p.Markdown), "# "+p.Title+"\n") {
			t.Errorf("%q: title %q, summary %q", p.Path, p.Title, p.Summary)
		}
	}
}

// TestMarkdown: what is special in Markdown is written so that it means the same.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		if p.Path != "webhooks" {
			continue
		}
		for _, want := range []string{`| t=\<unix seconds>,v1=\<signature in hex>; two`, "| Header | Value |\n|---|---|\n| `Content-Type` | application/json |", "[Verifying a webhook](https://api.example.com/docs/guides/verifying.md) has programs"} {
			if !strings.Contains(string(p.Markdown), want) {
				t.Errorf("%q is not in\n%s", want, p.Markdown)
			}
		}
	}
}

// TestReadsOfEvents: what an event's page says to read is a path of the API.
func TestReadsOfEvents(t *testing.T) {
	t.Parallel()
	all := parts(t)
	document := testkit.Must(openapi3.NewLoader().LoadFromData(testkit.Must(openapi.Document(info()))(t)))(t)
	for _, e := range domain.EventTypes() {
		read := regexp.MustCompile(`Then read (\S+) `).FindStringSubmatch(all["event-"+e.Type])
		if e.Type == domain.TypeTestPing {
			continue
		}
		if read == nil {
			t.Errorf("%s: nothing to read", e.Type)
			continue
		}
		path, _, _ := strings.Cut(regexp.MustCompile(`\{\w+\}`).ReplaceAllString(read[1], "{id}"), "?")
		if document.Paths.Find(path) == nil {
			t.Errorf("%s: read %s, which is no path", e.Type, read[1])
		}
	}
}

// TestPagesLoadNothing: each page is one file, of at most 25 kB as it is sent.
func TestPagesLoadNothing(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		if outside := regexp.MustCompile(`(?i)\ssrc=|@import|url\(|<link rel="[^a]|<img|<iframe`).Find(p.HTML); outside != nil {
			t.Errorf("%q loads something: %s", p.Path, outside)
		}
		var sent bytes.Buffer
		z := testkit.Must(gzip.NewWriterLevel(&sent, gzip.BestSpeed))(t)
		testkit.Must(z.Write(p.HTML))(t)
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if sent.Len() > 25_000 {
			t.Errorf("%q has %d bytes when it is compressed", p.Path, sent.Len())
		}
	}
}

// TestLLMs: llms.txt has a line for each page but those of single statuses.
func TestLLMs(t *testing.T) {
	t.Parallel()
	list := pages(t)
	text := string(reference.LLMs(info(), list))
	if !strings.HasPrefix(text, "# Ledgerfeed API\n\n> Read access to ") {
		t.Error(text)
	}
	for _, p := range list[1:] {
		line := fmt.Sprintf("\n- [%s](https://api.example.com/docs/%s.md): %s\n", p.Title, p.Path, p.Summary)
		if strings.Contains(text, line) == strings.HasPrefix(p.Path, "errors/") {
			t.Errorf("%q in\n%s", line, text)
		}
	}
}
