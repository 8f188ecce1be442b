package openapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// TestNumbersAreDoubles: a generated client in Go, C# or Java takes a number without a format for one of
// four bytes, which does not have 1234.5678.
func TestNumbersAreDoubles(t *testing.T) {
	t.Parallel()
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Type   any
					Format string
				}
			}
		}
	}
	info := openapi.Info{BaseURL: "https://api.example.com", DocsURL: "https://docs.example.com"}
	if err := json.Unmarshal(testkit.Must(openapi.Document(info))(t), &document); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for name, s := range document.Components.Schemas {
		for field, f := range s.Properties {
			if kind := fmt.Sprint(f.Type); !strings.Contains(kind, "number") {
				continue
			}
			if found[field] = true; f.Format != "double" {
				t.Errorf("%s.%s has the format %q", name, field, f.Format)
			}
		}
	}
	for _, field := range []string{"billable_hours", "hours", "hours_remaining", "margin_percent"} {
		if !found[field] {
			t.Errorf("%s is no number", field)
		}
	}
}

// TestPeriodPointsToDates: an answer for a month does not say that weekly periods are not in it, so
// wherever period can be given, its description does (docs/contract/decisions.md, "Dates").
func TestPeriodPointsToDates(t *testing.T) {
	t.Parallel()
	var document struct {
		Paths map[string]struct {
			Get struct {
				Parameters []struct{ Name, Description string }
			}
		}
	}
	info := openapi.Info{BaseURL: "https://api.example.com", DocsURL: "https://docs.example.com"}
	if err := json.Unmarshal(testkit.Must(openapi.Document(info))(t), &document); err != nil {
		t.Fatal(err)
	}
	found := 0
	for path, item := range document.Paths {
		for _, p := range item.Get.Parameters {
			if p.Name != "period" {
				continue
			}
			found++
			for _, want := range []string{"A month does not include weekly periods", "the answer does not say so", "use date_from and date_to"} {
				if !strings.Contains(p.Description, want) {
					t.Errorf("%s: period does not say %q: %s", path, want, p.Description)
				}
			}
		}
	}
	if found != 12 { // three lists in three forms, and their totals
		t.Errorf("%d operations have period", found)
	}
}

// TestEveryFieldHasAMeaning: each field of each schema says what it means, in a whole
// sentence, by itself or by the schema that it refers to.
func TestEveryFieldHasAMeaning(t *testing.T) {
	t.Parallel()
	type schema struct {
		Ref         string `json:"$ref"`
		Description string
		Properties  map[string]schema
	}
	var document struct {
		Components struct{ Schemas map[string]schema }
	}
	info := openapi.Info{BaseURL: "https://api.example.com", DocsURL: "https://docs.example.com"}
	if err := json.Unmarshal(testkit.Must(openapi.Document(info))(t), &document); err != nil {
		t.Fatal(err)
	}
	schemas := document.Components.Schemas
	fields := 0
	for name, s := range schemas {
		for field, f := range s.Properties {
			fields++
			meaning := f.Description
			if meaning == "" {
				meaning = schemas[strings.TrimPrefix(f.Ref, "#/components/schemas/")].Description
			}
			if !strings.HasSuffix(meaning, ".") || strings.HasPrefix(meaning, "Values that occur") || strings.HasPrefix(meaning, "Needs ") {
				t.Errorf("%s.%s has no meaning, or not in a sentence: %q", name, field, meaning)
			}
		}
	}
	if fields < 150 {
		t.Errorf("%d fields are described", fields)
	}
}

// TestParametersTakeListedValuesAlone: a parameter with listed values refers to an enumeration that has
// exactly those, though several parameters share its name.
func TestParametersTakeListedValuesAlone(t *testing.T) {
	t.Parallel()
	type schema struct {
		Ref   string `json:"$ref"`
		Items *schema
		Enum  []string
	}
	var document struct {
		Paths map[string]struct {
			Get struct {
				Parameters []struct {
					Name   string
					Schema schema
				}
			}
		}
		Components struct{ Schemas map[string]schema }
	}
	info := openapi.Info{BaseURL: "https://api.example.com", DocsURL: "https://docs.example.com"}
	if err := json.Unmarshal(testkit.Must(openapi.Document(info))(t), &document); err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, r := range route.Table() {
		for i := range r.Params {
			if r.Params[i].Values == nil {
				continue
			}
			listed++
			described := document.Paths[r.Path].Get.Parameters[i]
			found := described.Schema
			if found.Items != nil {
				found = *found.Items
			}
			values := document.Components.Schemas[strings.TrimPrefix(found.Ref, "#/components/schemas/")].Enum
			if described.Name != r.Params[i].Name || !slices.Equal(values, r.Params[i].Values) {
				t.Errorf("%s: %s takes %q, and not %q", r.Path, r.Params[i].Name, values, r.Params[i].Values)
			}
		}
	}
	if listed < 10 {
		t.Errorf("%d parameters have listed values", listed)
	}
}
