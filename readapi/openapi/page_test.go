package openapi_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"html"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
)

// TestPageForPeople: the page says all that the description says, in well-formed
// HTML, and fetches nothing.
func TestPageForPeople(t *testing.T) {
	t.Parallel()
	info := openapi.Info{BaseURL: "https://api.example.com", DocsURL: "https://docs.example.com"}
	page := testkit.Must(openapi.Page(info))(t)
	decoder := xml.NewDecoder(bytes.NewReader(page))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if outside := regexp.MustCompile(`(?i)(src|href)="[^#]|@import|url\(|<script|<link|<img|<iframe`).Find(page); outside != nil {
		t.Errorf("the page fetches something: %s", outside)
	}
	text := html.UnescapeString(string(page))
	document := testkit.Must(openapi3.NewLoader().LoadFromData(testkit.Must(openapi.Document(info))(t)))(t)
	for path, item := range document.Paths.Map() {
		_, section, found := strings.Cut(text, "<code>GET "+path+"</code>")
		section, _, _ = strings.Cut(section, "</section>")
		description, _, _ := strings.Cut(item.Get.Description, " Needs ")
		if !found || !strings.Contains(section, description) {
			t.Errorf("%s is not on the page", path)
		}
		for _, p := range item.Get.Parameters {
			if p.Value.In == "query" && !strings.Contains(section, "<code>"+p.Value.Name+"</code></td>") {
				t.Errorf("%s: the parameter %s is not on the page", path, p.Value.Name)
			}
		}
		for _, scopes := range *item.Get.Security {
			for _, scope := range scopes["apiKey"] {
				if !strings.Contains(section, "Needs <code>"+scope+"</code>") {
					t.Errorf("%s: the page does not mention %s", path, scope)
				}
			}
		}
	}
	for _, fields := range [][]jsonform.FieldDescription{
		domain.InvoiceFields(), domain.ChargeFields(), domain.TimeEntryFields(), domain.PaymentFields(), domain.ClientFields(),
		domain.ContractorFields(), domain.CreditFields(), domain.EventFields(),
	} {
		for i := range fields {
			if !strings.Contains(text, "<td><code>"+fields[i].Name+"</code></td>") {
				t.Errorf("the field %s is not on the page", fields[i].Name)
			}
		}
	}
	for status := range map[int]bool{400: true, 401: true, 403: true, 404: true, 405: true, 429: true, 431: true, 500: true, 503: true} {
		if !strings.Contains(text, "<td><code>"+strconv.Itoa(status)+"</code></td>") {
			t.Errorf("%d is not on the page", status)
		}
	}
}
