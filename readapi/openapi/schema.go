package openapi

import (
	"encoding/json"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Patterns of forms that answers show in another way than entries (docs/contract/decisions.md, "Responses").
const (
	patternMoney       = `^\d+\.\d{2}$`
	patternSignedMoney = `^-?\d+\.\d{2}$`
	patternDateTime    = `^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$`
)

// schemas collects the named schemas of the description, each once.
type schemas struct {
	named object
	known map[string]bool
}

func newSchemas() *schemas { return &schemas{known: map[string]bool{}} }

func (s *schemas) add(name string, schema object) object {
	if !s.known[name] {
		s.known[name] = true
		s.named = s.named.with(name, schema)
	}
	return reference("schemas", name)
}

// fields adds the schema of an object with these fields.
func (s *schemas) fields(name string, fields []jsonform.FieldDescription) object {
	if s.known[name] {
		return reference("schemas", name)
	}
	s.known[name] = true
	at := len(s.named)
	s.named = s.named.with(name, nil) // before the schemas of the objects in it
	properties, required := object{}, []string{}
	for i := range fields {
		f := &fields[i]
		properties = properties.with(f.Name, s.field(f))
		if f.Part == domain.Base && !f.Optional {
			required = append(required, f.Name)
		}
	}
	description := ""
	if name == "Event" {
		description = domain.EventMeanings()
	}
	s.named[at].value = members(description, properties, required)
	return reference("schemas", name)
}

// members returns the schema of an object with these properties. The schema is open, because
// properties may be added (docs/contract/decisions.md, "What may change").
func members(description string, properties object, required []string) object {
	schema := object{{"type", "object"}}
	if description != "" {
		schema = schema.with("description", description)
	}
	return schema.with("properties", properties).with("required", required)
}

// extensible lists the known values of an enumeration. It does not use JSON Schema's enum, because
// generated clients would refuse values that are added later.
func (o object) extensible(values any) object { return o.with("x-extensible-enum", values) }

// knownValues says in a description which values an enumeration has.
func knownValues(values []string) string {
	return "Values that occur: " + strings.Join(values, ", ") + "; others may come."
}

// field returns the schema of a field.
func (s *schemas) field(f *jsonform.FieldDescription) object {
	var schema object
	switch f.Form {
	case domain.FormObject:
		schema = s.fields(f.Object, f.Fields)
		if f.Nullable {
			schema = object{{"anyOf", []object{schema, {{"type", "null"}}}}}
		}
	case domain.FormArray:
		schema = object{{"type", "array"}, {"items", s.fields(f.Object, f.Fields)}}
	default:
		schema = value(f)
	}
	description := FieldDescription(f)
	if f.Form == domain.FormEnum {
		description = strings.TrimSpace(description + " " + knownValues(f.Values))
	}
	if description != "" {
		schema = schema.with("description", description)
	}
	if p := PermissionOf(f.Part); p != "" {
		schema = schema.with("x-permission", p)
	}
	return schema
}

// PermissionOf returns the permission that a part of a row needs in addition to the endpoint's;
// empty: none.
func PermissionOf(part jsonform.Part) access.Permission {
	switch part {
	case domain.Pay:
		return access.PayRead
	case domain.Margin:
		return access.MarginRead
	case domain.Base:
	}
	return ""
}

// FieldDescription says what a field means, which values occur, and who sees it.
func FieldDescription(f *jsonform.FieldDescription) string {
	var sentences []string
	if f.Doc != "" {
		sentences = append(sentences, f.Doc)
	}
	if len(f.Known) > 0 {
		sentences = append(sentences, knownValues(f.Known))
	}
	if p := PermissionOf(f.Part); p != "" {
		sentences = append(sentences, "Needs "+string(p)+"; absent without it.")
	}
	return strings.Join(sentences, " ")
}

// value returns the schema of a single value.
func value(f *jsonform.FieldDescription) object {
	kind, more := "string", object{}
	switch f.Form {
	case domain.FormID:
		more = object{{"pattern", domain.FormID.Pattern()}}
	case domain.FormText:
		more = object{{"minLength", 1}}
	case domain.FormEnum:
		more = more.extensible(f.Values)
	case domain.FormMoney:
		more = object{{"pattern", patternMoney}}
	case domain.FormSignedMoney:
		more = object{{"pattern", patternSignedMoney}}
	case domain.FormCurrency:
		more = object{{"pattern", domain.FormCurrency.Pattern()}}
	case domain.FormDate:
		more = object{{"format", "date"}}
	case domain.FormDateTime:
		more = object{{"format", "date-time"}, {"pattern", patternDateTime}}
	case domain.FormPeriod:
		more = object{{"pattern", domain.FormPeriod.Pattern()}}
	case domain.FormHours:
		kind, more = "number", object{{"format", "double"}, {"minimum", 0}} // without double, generated clients use 32 bits
	case domain.FormNumber:
		kind, more = "number", object{{"format", "double"}}
	case domain.FormInteger:
		kind, more = "integer", object{{"format", "int64"}, {"minimum", 0}, {"maximum", int64(domain.MaxInteger)}}
	case domain.FormCount:
		kind, more = "integer", object{{"minimum", 0}}
	case domain.FormBool:
		kind = "boolean"
	case domain.FormObject, domain.FormArray: // see field
	}
	var typ any = kind
	if f.Nullable {
		typ = []string{kind, "null"}
	}
	schema := append(object{{"type", typ}}, more...)
	if f.Example != "" {
		schema = schema.with("examples", []json.RawMessage{json.RawMessage(f.Example)})
	}
	return schema
}

// text returns a schema of text without further rules.
func text(description, example string) object {
	return object{{"type", "string"}, {"description", description}, {"examples", []string{example}}}
}

// response adds the schemas of a route's answer. It returns the schema of the whole answer and an
// example.
func (s *schemas) response(r *route.Route) (schema object, example string) {
	switch r.Kind {
	case route.Row, route.Event:
		return s.fields(r.Resource.SchemaName(), r.Resource.Fields), jsonform.ExampleOf(r.Resource.Fields)
	case route.Rows, route.Events:
		row := s.fields(r.Resource.SchemaName(), r.Resource.Fields)
		if r.Resource.Removed != "" {
			row = object{{"oneOf", []object{row, s.removedRow()}}}
		}
		list := s.add(r.Resource.Name+"List", members("", object{
			{"data", object{{"type", "array"}, {"items", row}, {"description", "The rows of the page."}}},
			{"has_more", hasMore()},
			{"next_cursor", nextCursor()},
		}, []string{"data", "has_more", "next_cursor"}))
		return list, `{"data":[` + jsonform.ExampleOf(r.Resource.Fields) + `],"has_more":true,"next_cursor":"` + exampleCursor + `"}`
	case route.Totals:
		row := s.fields(r.Resource.SchemaName(), r.Resource.Fields)
		totals := s.add(r.Resource.Name+"s", members("", object{
			{"data", object{{"type", "array"}, {"items", row}, {"description", "In the order of the groups, then of currency and what else separates rows; null comes last."}}},
			{"log_position", object{{"type", "integer"}, {"format", "int64"}, {"minimum", 0}, {"description", "The position of the workspace's log that the sums are of."}}},
		}, []string{"data", "log_position"}))
		return totals, `{"data":[` + jsonform.ExampleOf(r.Resource.Fields) + `],"log_position":48213}`
	case route.Credit:
		return s.credit()
	case route.KeyInfo:
		return s.keyInfo()
	case route.Document, route.Checkpoint, route.Tile, route.Bundle: // treeContent describes answers about the tree
	}
	return s.add("Description", object{
		{"type", "object"}, {"description", "An OpenAPI 3.1 document."}, {"required", []string{"openapi", "info", "paths"}},
		{"properties", object{
			{"openapi", object{{"type", "string"}, {"description", "Version of OpenAPI."}}},
			{"info", object{{"type", "object"}, {"additionalProperties", true}, {"description", "About this API."}}},
			{"paths", object{{"type", "object"}, {"additionalProperties", true}, {"description", "The operations, by path."}}},
		}},
		{"additionalProperties", true},
	}), `{"openapi":"3.1.0","info":{"title":"Ledgerfeed","version":"1"},"paths":{}}`
}

// Example returns an example of a route's answer: JSON, except for answers about the tree over the
// events.
func Example(r *route.Route) string {
	if r.OfTree() {
		return treeExample(r)
	}
	_, example := newSchemas().response(r)
	return example
}

// removedRow adds the schema of what stands for a row that has left a list.
func (s *schemas) removedRow() object {
	properties, required := object{}, []string{}
	for _, f := range domain.TombstoneFields() {
		schema := s.field(&f)
		if f.Form == domain.FormBool {
			schema = schema.with("const", true)
		}
		properties = properties.with(f.Name, schema)
		required = append(required, f.Name)
	}
	return s.add("RemovedRow", members("A row that was deleted, or that the key may no longer see; only with include=removed. A row that no longer matches a filter is not reported.", properties, required))
}

const exampleCursor = "q83vEjRWeJASNFZ4kBI0Vg"

func hasMore() object {
	return object{{"type", "boolean"}, {"description", "Whether rows are waiting behind next_cursor now."}}
}

func nextCursor() object {
	return text("Where to go on. Always given: after the last page, keep it and ask again later to get what has changed since.", exampleCursor)
}

// credit adds the schema of a client's credit: its own fields, then a page of its history.
func (s *schemas) credit() (object, string) {
	fields := domain.CreditFields()
	properties, required := object{}, []string{}
	for i := range fields {
		properties = properties.with(fields[i].Name, s.field(&fields[i]))
		required = append(required, fields[i].Name)
	}
	row := s.fields("CreditHistoryRow", domain.CreditMoveFields())
	properties = properties.
		with("history", object{{"type", "array"}, {"items", row}, {"description", "Newest first."}}).
		with("has_more", hasMore()).
		with("next_cursor", nextCursor())
	credit := s.add("ClientCredit", members("", properties, append(required, "history", "has_more", "next_cursor")))
	return credit, strings.TrimSuffix(jsonform.ExampleOf(fields), "}") + `,"history":[` + jsonform.ExampleOf(domain.CreditMoveFields()) +
		`],"has_more":false,"next_cursor":"` + exampleCursor + `"}`
}

func (s *schemas) keyInfo() (object, string) {
	scopes := access.PermissionsOf(access.AllPermissions()...).Strings()
	company := s.add("Company", members("The workspace.", object{
		{"id", object{{"type", "string"}, {"pattern", domain.FormID.Pattern()}, {"description", "Id of the workspace."}}},
		{"name", object{{"type", "string"}, {"description", "Name of the workspace."}}},
	}, []string{"id", "name"}))
	key := s.add("Key", members("The key that made the request.", object{
		{"name", object{{"type", "string"}, {"description", "Name that the key was given when it was made."}}},
		{"prefix", text("The public beginning of the key.", "service_4fT9kQ2x")},
	}, []string{"name", "prefix"}))
	me := s.add("KeyInformation", members("", object{
		{"company", company},
		{"key", key},
		{"scopes", object{{"type", "array"}, {"description", "The key's permissions. " + knownValues(scopes)}, {"items", object{{"type", "string"}}.extensible(scopes)}}},
		{"rate_limit_per_minute", object{{"type", "integer"}, {"minimum", 1}, {"description", "Requests that the key may make in a clock minute."}}},
	}, []string{"company", "key", "scopes", "rate_limit_per_minute"}))
	return me, `{"company":{"id":"northwind","name":"Northwind Agency"},"key":{"name":"Reporting","prefix":"service_4fT9kQ2x"},` +
		`"scopes":["invoices:read","events:read"],"rate_limit_per_minute":120}`
}
