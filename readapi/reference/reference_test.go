package reference_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/klauspost/compress/gzip"
	"golang.org/x/net/html"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

// inspected is a page by the ids of its elements, with the text of each.
type inspected struct {
	text  map[string]string
	links []string
}

func inspect(t *testing.T, page []byte) inspected {
	t.Helper()
	root := testkit.Must(html.Parse(bytes.NewReader(page)))(t)
	p := inspected{text: map[string]string{}}
	for n := range root.Descendants() {
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

// TestPageSaysWhatTheDescriptionSays: each operation with its parameters and permission,
// each field with its meaning, each type of event and each error is on the page, and no
// link leads nowhere.
func TestPageSaysWhatTheDescriptionSays(t *testing.T) {
	t.Parallel()
	page := inspect(t, testkit.Must(reference.Page(info()))(t))
	says := func(id string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(page.text[id], strings.Join(strings.Fields(w), " ")) {
				t.Errorf("%s does not say %q: %q", id, w, page.text[id])
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
			says("object-"+object+"."+fields[i].Name, openapi.FieldDescription(&fields[i]), string(openapi.PermissionOf(fields[i].Part)))
		}
	}
	for _, e := range domain.EventTypes() {
		says("event-"+e.Type, e.When, `"type": "`+e.Type+`"`, `"object_type": "`+e.ObjectType+`"`)
		if e.When == "" {
			t.Errorf("%s has no meaning", e.Type)
		}
	}
	for _, status := range reference.Statuses() {
		says(fmt.Sprintf("error-%d", status), openapi.ErrorDescription(status))
	}
	for _, link := range page.links {
		id, within := strings.CutPrefix(link, "#")
		if _, found := page.text[id]; within && !found || !within && !strings.HasPrefix(link, info().DocsURL+"/") {
			t.Errorf("the link %s leads nowhere", link)
		}
	}
}

// TestReadsOfEvents: what an event's page says to read is a path of the API.
func TestReadsOfEvents(t *testing.T) {
	t.Parallel()
	page := inspect(t, testkit.Must(reference.Page(info()))(t))
	document := testkit.Must(openapi3.NewLoader().LoadFromData(testkit.Must(openapi.Document(info()))(t)))(t)
	for _, e := range domain.EventTypes() {
		read := regexp.MustCompile(`Then read (\S+) `).FindStringSubmatch(page.text["event-"+e.Type])
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

// TestPageLoadsNothing: the page is one file, of at most 150 kB as it is sent.
func TestPageLoadsNothing(t *testing.T) {
	t.Parallel()
	page := testkit.Must(reference.Page(info()))(t)
	if outside := regexp.MustCompile(`(?i)\ssrc=|@import|url\(|<link|<img|<iframe`).Find(page); outside != nil {
		t.Errorf("the page loads something: %s", outside)
	}
	var sent bytes.Buffer
	z := testkit.Must(gzip.NewWriterLevel(&sent, gzip.BestSpeed))(t)
	testkit.Must(z.Write(page))(t)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if sent.Len() > 150_000 {
		t.Errorf("the page has %d bytes when it is compressed", sent.Len())
	}
}

// TestErrorPages: each status of errors has its page, which says when it is answered.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	for _, status := range reference.Statuses() {
		page := inspect(t, testkit.Must(reference.ErrorPage(status))(t))
		if !strings.Contains(page.text["main"], fmt.Sprint(status)) || !strings.Contains(page.text["main"], openapi.ErrorDescription(status)) {
			t.Errorf("%d: %s", status, page.text["main"])
		}
	}
	if !slices.Contains(reference.Statuses(), 429) {
		t.Error("429 has no page")
	}
}
