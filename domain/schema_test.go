package domain_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
)

// entrySchemas are the JSON Schemas of entries, compiled.
type entrySchemas struct {
	all     *jsonschema.Schema            // the bundle
	types   map[string]*jsonschema.Schema // by type
	formats map[string]*jsonschema.Schema // the same for a validator that asserts formats too
}

func compileSchemas(t *testing.T) *entrySchemas {
	t.Helper()
	compile := func(text []byte, assertFormats bool) *jsonschema.Schema {
		document := testkit.Must(jsonschema.UnmarshalJSON(strings.NewReader(string(text))))(t)
		c := jsonschema.NewCompiler()
		if assertFormats {
			c.AssertFormat()
		}
		id := document.(doc)["$id"].(string)
		if err := c.AddResource(id, document); err != nil {
			t.Fatal(err)
		}
		return testkit.Must(c.Compile(id))(t)
	}
	s := &entrySchemas{compile(testkit.Must(openapi.EntrySchema(domain.EntryTypes()...))(t), false), map[string]*jsonschema.Schema{}, map[string]*jsonschema.Schema{}}
	for _, typ := range domain.EntryTypes() {
		text := testkit.Must(openapi.EntrySchema(typ))(t)
		s.types[typ.Type], s.formats[typ.Type] = compile(text, false), compile(text, true)
	}
	return s
}

// verdicts of the decoder and the schema.
const (
	bothTake, bothRefuse, beyondSchema = "both take", "both refuse", "only the decoder refuses"
)

// judge fails where the schema of a type refuses what append takes, and where it takes what append
// refuses for a reason that a schema can say.
func (s *entrySchemas) judge(t failer, typ, text string) (verdict string) {
	t.Helper()
	d, wrong := domain.DecodeDraft([]byte(text))
	if wrong == nil && d.IsStored() {
		wrong = errors.New("only --restore takes a stored form")
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	refused := s.types[typ].Validate(value)
	switch {
	case wrong == nil && refused == nil:
		if err := s.formats[typ].Validate(value); err != nil {
			t.Errorf("append takes %s; with formats the schema says %v", text, err)
		}
		return bothTake
	case wrong == nil:
		t.Errorf("append takes %s; the schema says %v", text, refused)
	case refused != nil:
		return bothRefuse
	case !beyond(wrong, text):
		t.Errorf("the schema takes %s; append says %v", text, wrong)
	}
	return beyondSchema
}

// beyond reports whether a schema cannot know any of the faults of a line.
func beyond(wrong error, text string) bool {
	faults, ok := errors.AsType[jsonform.FieldErrors](wrong)
	for _, f := range faults {
		switch f.Want {
		case domain.FormDate.Description(), domain.FormDateTime.Description(), domain.FormPeriod.Description(), domain.PublishTimeDescription:
		case domain.FormHours.Description(), domain.FormNumber.Description():
			var v any = parseDoc(text)
			for name := range strings.SplitSeq(f.Field, ".") {
				v = v.(doc)[name]
			}
			if new(big.Rat).Mul(rat(v), big.NewRat(10_000, 1)).IsInt() {
				return false
			}
		case "none, because no field of the data is detached":
		default:
			return false
		}
	}
	return ok
}

// values are examples of values, and some at which a schema and the decoder may part.
func values() []string {
	return append(examples(), `"9999-12-31T23:59:59-00:01"`, `"1969-12-31T23:59:59Z"`, `"0000-01-01"`, `1e14`, `-1e14`, `9007199254740992`, `3.0`,
		`"`+strings.Repeat("A", 43)+`"`, `"`+strings.Repeat("B", 43)+`"`)
}

// TestSchemasAgreeOnEveryValue tries each example of a value for each field.
func TestSchemasAgreeOnEveryValue(t *testing.T) {
	t.Parallel()
	s := compileSchemas(t)
	verdicts := map[string]int{}
	for _, typ := range domain.EntryTypes() {
		whole := parseDoc(typ.Example())
		var try func(fields []jsonform.FieldDescription, at doc)
		try = func(fields []jsonform.FieldDescription, at doc) {
			each := func(name string) {
				before, given := at[name]
				for _, value := range values() {
					at[name] = json.RawMessage(value)
					verdicts[s.judge(t, typ.Type, string(testkit.Must(json.Marshal(whole))(t)))]++
				}
				delete(at, name)
				verdicts[s.judge(t, typ.Type, string(testkit.Must(json.Marshal(whole))(t)))]++
				if given {
					at[name] = before
				}
			}
			for i := range fields {
				f := &fields[i]
				each(f.Name)
				if f.Fields == nil {
					continue
				}
				inside, kept := parseDoc(strings.Trim(f.Example, "[]")), at[f.Name]
				if at[f.Name] = any(inside); f.Form == domain.FormArray {
					at[f.Name] = []any{doc{}, inside}
				}
				try(f.Fields, inside)
				if delete(at, f.Name); kept != nil {
					at[f.Name] = kept
				}
			}
			each("surprise")
		}
		try(typ.Members, whole)
	}
	for verdict, least := range map[string]int{bothTake: 2_000, bothRefuse: 20_000, beyondSchema: 50} {
		if verdicts[verdict] < least {
			t.Errorf("%s: %d entries, want at least %d", verdict, verdicts[verdict], least)
		}
	}
}

// TestSchemasAgreeOnRandomEntries breaks entries of random streams in up to three places.
func TestSchemasAgreeOnRandomEntries(t *testing.T) {
	t.Parallel()
	s := compileSchemas(t)
	values := values()
	names := []string{"surprise", "stored", "salt", "workspace_id", "id", "created_at"}
	for _, typ := range domain.Types() {
		for i := range typ.Fields {
			names = append(names, typ.Fields[i].Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	rapid.Check(t, func(t *rapid.T) {
		r := entries().Draw(t, "entry")
		whole := doc{"workspace_id": "w", "type": r.typ, "data": r.data}
		places := []doc{whole, r.data}
		for _, name := range sortedKeys(r.data) {
			if inside, ok := r.data[name].(doc); ok {
				places = append(places, inside)
			}
			if list, ok := r.data[name].([]any); ok && len(list) > 0 {
				places = append(places, list[0].(doc))
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "faults") {
			at := rapid.SampledFrom(places).Draw(t, "place")
			known := sortedKeys(at)
			if len(known) == 0 || rapid.Bool().Draw(t, "any name") {
				known = names
			}
			name := rapid.SampledFrom(known).Draw(t, "name")
			if rapid.IntRange(0, 4).Draw(t, "leave out") == 0 {
				delete(at, name)
				continue
			}
			at[name] = json.RawMessage(rapid.SampledFrom(values).Draw(t, "value"))
		}
		text, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		verdict := s.judge(t, r.typ, string(text))
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if refused := s.all.Validate(value); (refused != nil) != (verdict == bothRefuse) {
			t.Errorf("%s: %s, but the bundle says %v", text, verdict, refused)
		}
	})
}

// TestExamplesOfEntriesAreTaken: the shortest line, and a line with the examples of all fields.
func TestExamplesOfEntriesAreTaken(t *testing.T) {
	t.Parallel()
	s := compileSchemas(t)
	for _, typ := range domain.EntryTypes() {
		long := slices.Clone(typ.Members)
		for i := range long {
			if long[i].Name == "data" {
				long[i].Example = jsonform.ExampleOf(long[i].Fields)
			}
		}
		for _, text := range []string{typ.Example(), jsonform.ExampleOf(long)} {
			if s.judge(t, typ.Type, text) != bothTake {
				t.Errorf("%s is refused", text)
			}
			if err := s.all.Validate(parseDoc(text)); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	if s.all.Validate(doc{"workspace_id": "w", "type": "no.type", "data": doc{}}) == nil {
		t.Error("the bundle takes an unknown type")
	}
}

// TestEntriesAreExplained: types and fields have a meaning in sentences, and no meaning is left over.
func TestEntriesAreExplained(t *testing.T) {
	t.Parallel()
	unused := domain.MeaningKeys()
	for _, typ := range domain.EntryTypes() {
		if !strings.HasSuffix(typ.Meaning, ".") {
			t.Errorf("%s has no meaning: %q", typ.Type, typ.Meaning)
		}
		var explained func(path string, fields []jsonform.FieldDescription)
		explained = func(path string, fields []jsonform.FieldDescription) {
			for i := range fields {
				f := &fields[i]
				if !strings.HasSuffix(f.Doc, ".") || strings.Contains(f.Doc, "null") || !json.Valid([]byte(f.Example)) {
					t.Errorf("%s: %s means %q, such as %s", typ.Type, path+f.Name, f.Doc, f.Example)
				}
				delete(unused, domain.MeaningKey(typ.Type, f.Name))
				explained(path+f.Name+".", f.Fields)
			}
		}
		explained("", typ.Members)
	}
	if len(unused) > 0 {
		t.Errorf("nothing has these meanings: %v", sortedKeys(unused))
	}
}
