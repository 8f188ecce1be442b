package openapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
)

// described is the part of the API's description that programs of the guide of spreadsheets repeat.
type described struct {
	Paths map[string]struct {
		Get struct {
			Parameters []struct {
				Name   string
				Schema struct{ Maximum int }
			}
			Responses map[string]struct {
				Content map[string]struct{ Schema *describedSchema }
			}
		}
	}
	Components struct{ Schemas map[string]*describedSchema }
}

type describedSchema struct {
	Ref             string `json:"$ref"`
	Type            any
	Format, Pattern string
	Properties      map[string]*describedSchema
	Items           *describedSchema
	AnyOf, OneOf    []*describedSchema
}

func describe(t *testing.T) *described {
	t.Helper()
	d := &described{}
	info := openapi.Info{BaseURL: "https://api.example.com", DocsURL: "https://docs.example.com"}
	if err := json.Unmarshal(testkit.Must(openapi.Document(info))(t), d); err != nil {
		t.Fatal(err)
	}
	return d
}

// lists are the paths of the lists that also come whole, sorted.
func (d *described) lists() (paths []string) {
	for path := range d.Paths {
		if d.Paths[path+".ndjson"].Get.Responses != nil {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

type describedList struct {
	page, row *describedSchema
	takes     map[string]bool // names of parameters
	limit     int             // the most rows of a page
	follows   bool            // its rows have an id and the time of their last change, and are shown when they are gone
	decimals  []string        // the fields that are amounts or numbers with decimals, sorted
}

func (d *described) list(path string) *describedList {
	l := &describedList{page: d.answer(path), takes: map[string]bool{}}
	for _, p := range d.Paths[path].Get.Parameters {
		l.takes[p.Name] = true
		if p.Name == "limit" {
			l.limit = p.Schema.Maximum
		}
	}
	l.row = d.resolve(d.resolve(l.page.Properties["data"]).Items)
	for _, one := range l.row.OneOf { // a row, or a removed one
		if one = d.resolve(one); one.Properties["removed"] == nil {
			l.row = one
		}
	}
	l.follows = l.takes["include"] && l.row.Properties["updated_at"] != nil && l.row.Properties["id"] != nil
	for name, field := range l.row.Properties {
		if field = d.resolve(field); strings.Contains(fmt.Sprint(field.Type), "number") || strings.HasSuffix(field.Pattern, `\d+\.\d{2}$`) {
			l.decimals = append(l.decimals, name)
		}
	}
	slices.Sort(l.decimals)
	return l
}

func (d *described) resolve(s *describedSchema) *describedSchema {
	for s.Ref != "" {
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}

// stream is the schema of a value in the manifest. Airbyte wants null among the types, because a key
// may not see the field.
func (d *described) stream(s *describedSchema) map[string]any {
	s = d.resolve(s)
	for _, one := range append(s.AnyOf, s.OneOf...) { // the value or null; the row or a removed one
		if one = d.resolve(one); one.Type != "null" && one.Properties["removed"] == nil {
			s = one
		}
	}
	kind := s.Type
	if kinds, ok := kind.([]any); ok {
		kind = kinds[0]
	}
	made := map[string]any{"type": []any{"null", kind}}
	if s.Format == "date" || s.Format == "date-time" {
		made["format"] = s.Format
	}
	if s.Items != nil {
		made["items"] = d.stream(s.Items)
	}
	if s.Properties != nil {
		made["properties"] = d.fields(s)
	}
	return made
}

func (d *described) fields(s *describedSchema) map[string]any {
	fields := map[string]any{}
	for name, field := range s.Properties {
		fields[name] = d.stream(field)
	}
	return fields
}

// answer is the schema of what a path answers.
func (d *described) answer(path string) *describedSchema {
	return d.resolve(d.Paths[path].Get.Responses["200"].Content["application/json"].Schema)
}

// airbyteStream is a stream of the manifest, with what it refers to in its place.
type airbyteStream struct {
	Name       string
	PrimaryKey any                   `json:"primary_key"`
	Parameters struct{ Path string } `json:"$parameters"`
	Retriever  struct {
		Requester struct {
			URL        string
			Parameters map[string]string `json:"request_parameters"`
		}
		Paginator *struct {
			Size struct {
				Name string `json:"field_name"`
			} `json:"page_size_option"`
			Token struct {
				Name string `json:"field_name"`
			} `json:"page_token_option"`
			Strategy struct {
				Size   int    `json:"page_size"`
				Cursor string `json:"cursor_value"`
				Stop   string `json:"stop_condition"`
			} `json:"pagination_strategy"`
		}
		Selector struct {
			Extractor struct {
				Path []string `json:"field_path"`
			}
		} `json:"record_selector"`
	}
	Incremental *struct {
		Field string `json:"cursor_field"`
		Since struct {
			Name string `json:"field_name"`
		} `json:"start_time_option"`
	} `json:"incremental_sync"`
	Loader struct{ Schema any } `json:"schema_loader"`
}

// resolved puts what a node of the manifest refers to in its place. What stands beside the reference
// goes before.
func resolved(t *testing.T, manifest map[string]any, node any) any {
	t.Helper()
	switch node := node.(type) {
	case []any:
		made := make([]any, len(node))
		for i, v := range node {
			made[i] = resolved(t, manifest, v)
		}
		return made
	case map[string]any:
		made := map[string]any{}
		if ref, ok := node["$ref"].(string); ok {
			var at any = manifest
			for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
				inside, _ := at.(map[string]any)
				at = inside[name]
			}
			target, ok := resolved(t, manifest, at).(map[string]any)
			if !ok {
				t.Errorf("the manifest has no %s", ref)
			}
			maps.Copy(made, target)
		}
		for name, v := range node {
			if name != "$ref" {
				made[name] = resolved(t, manifest, v)
			}
		}
		return made
	}
	return node
}

// TestAirbyteReadsEachList: the streams of the manifest are the lists of the API, with parameters and
// fields that these have.
func TestAirbyteReadsEachList(t *testing.T) {
	t.Parallel()
	d := describe(t)
	var manifest map[string]any
	if err := yaml.Unmarshal(testkit.Must(os.ReadFile("../../packaging/airbyte/manifest.yaml"))(t), &manifest); err != nil {
		t.Fatal(err)
	}
	var streams []airbyteStream
	whole := testkit.Must(json.Marshal(resolved(t, manifest, manifest["streams"])))(t)
	if err := json.Unmarshal(whole, &streams); err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{"/v1/me": true}
	for _, path := range d.lists() {
		missing[path] = true
	}
	for _, s := range streams {
		path := "/v1/" + s.Parameters.Path
		if !missing[path] {
			t.Errorf("%s is no list of the API, or is twice", path)
			continue
		}
		delete(missing, path)
		if want := strings.ReplaceAll(s.Parameters.Path, "-", "_"); s.Name != want || s.Retriever.Requester.URL != "{{ config['url'] }}/v1/{{ parameters['path'] }}" {
			t.Errorf("the stream %s of %s", s.Name, s.Retriever.Requester.URL)
		}
		row := d.answer(path)
		if path != "/v1/me" {
			row = d.page(t, &s)
		}
		if made := d.stream(row); !reflect.DeepEqual(s.Loader.Schema, made) {
			t.Errorf("schemas in the manifest want:\n%s", lines(t, s.Name, made))
		}
	}
	if len(missing) > 0 {
		t.Errorf("no stream reads %v", slices.Collect(maps.Keys(missing)))
	}
}

// page checks how a stream reads the pages of a list, and returns the schema of a row.
func (d *described) page(t *testing.T, s *airbyteStream) (shown *describedSchema) {
	t.Helper()
	l := d.list("/v1/" + s.Parameters.Path)
	pages := s.Retriever.Paginator
	if pages == nil || pages.Strategy.Size != l.limit || pages.Strategy.Cursor != "{{ response['next_cursor'] }}" || pages.Strategy.Stop != "{{ not response['has_more'] }}" ||
		l.page.Properties["next_cursor"] == nil || l.page.Properties["has_more"] == nil || !slices.Equal(s.Retriever.Selector.Extractor.Path, []string{"data"}) {
		t.Fatalf("%s: %+v; a page has %v", s.Name, s.Retriever, slices.Collect(maps.Keys(l.page.Properties)))
	}
	shown = &describedSchema{Type: "object", Properties: maps.Clone(l.row.Properties)}
	if l.follows != (s.Incremental != nil) || l.follows != (s.Retriever.Requester.Parameters["include"] == "removed") {
		t.Errorf("%s: that it can be followed is %v", s.Name, l.follows)
	}
	sent := append(slices.Collect(maps.Keys(s.Retriever.Requester.Parameters)), pages.Size.Name, pages.Token.Name)
	if s.Incremental != nil {
		sent = append(sent, s.Incremental.Since.Name)
		shown.Properties["removed"] = &describedSchema{Type: "boolean"}
		if s.Incremental.Field != "updated_at" || s.Incremental.Since.Name != "updated_since" {
			t.Errorf("%s: %+v", s.Name, s.Incremental)
		}
	}
	for _, name := range sent {
		if !l.takes[name] {
			t.Errorf("%s takes no %q", s.Name, name)
		}
	}
	want := "id"
	if l.row.Properties["id"] == nil {
		want = "[[client id]]"
	} else if d.Paths["/v1/"+s.Parameters.Path+"/{id}"].Get.Responses == nil { // it is unique within a client alone
		want = "[[client id] [id]]"
	}
	if key := fmt.Sprint(s.PrimaryKey); key != want {
		t.Errorf("%s: the primary key %s, want %s", s.Name, key, want)
	}
	return shown
}

// lines is a schema as the manifest has it, with a line for each field.
func lines(t *testing.T, name string, schema map[string]any) string {
	t.Helper()
	text := &strings.Builder{}
	fmt.Fprintf(text, "  %s:\n    type: [\"null\", object]\n    properties:\n", name)
	fields, _ := schema["properties"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(text, "      %s: %s\n", field, testkit.Must(json.Marshal(fields[field]))(t))
	}
	return text.String()
}

// TestGuideNamesDecimals: the programs of the guide of spreadsheets read each list, and make each
// amount exact.
func TestGuideNamesDecimals(t *testing.T) {
	t.Parallel()
	d := describe(t)
	guide := string(testkit.Must(os.ReadFile("../../docs/guides/spreadsheets-and-bi.md"))(t))
	literal := func(name string, into any) { // of Python, which is JSON but for a comma at the end
		t.Helper()
		m := regexp.MustCompile(`(?s)\n   ` + name + ` = (\[.*?\]|\{.*?\n   \})\s`).FindStringSubmatch(guide)
		if m == nil {
			t.Fatalf("the guide has no %s", name)
		}
		text := regexp.MustCompile(`,(\s*[\]}])`).ReplaceAllString(m[1], "$1")
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	var followed, whole []string
	decimals := map[string][]string{}
	literal("FOLLOWED", &followed)
	literal("WHOLE", &whole)
	literal("DECIMALS", &decimals)
	for _, path := range d.lists() {
		l, name := d.list(path), strings.TrimPrefix(path, "/v1/")
		if slices.Contains(followed, name) != l.follows || slices.Contains(whole, name) == l.follows {
			t.Errorf("dlt: that %s can be followed is %v", name, l.follows)
		}
		slices.Sort(decimals[name])
		if !slices.Equal(decimals[name], l.decimals) {
			t.Errorf("dlt: %s has the decimals %v, want %v", name, decimals[name], l.decimals)
		}
	}
	rows := regexp.MustCompile(`Rows\("([^"]+)", \{([^}]+)\}\)`).FindStringSubmatch(guide)
	if rows == nil {
		t.Fatal("the guide's Power Query reads no list")
	}
	for name := range strings.SplitSeq(rows[2], ", ") {
		if !slices.Contains(d.list("/v1/"+rows[1]).decimals, strings.Trim(name, `"`)) {
			t.Errorf("Power Query: %s is no amount of %s", name, rows[1])
		}
	}
}
