package openapi

import (
	"encoding/json"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

const (
	draft2020 = "https://json-schema.org/draft/2020-12/schema"

	// beyondSchemas says what EntrySchema leaves to append.
	beyondSchemas = "append --check also refuses what a schema cannot say: days, weeks and years that the calendar does not have, a created_at before 1970, " +
		"more than 4 decimals, a name that is given twice, half a surrogate pair, a salt without a field to keep next to the log, a line of more than 65,536 bytes, and what only the log knows."
)

// EntrySchema writes the JSON Schema of a producer's entries of one type, or of several together.
func EntrySchema(types ...domain.EntryTypeDescription) ([]byte, error) {
	head := object{{"$schema", draft2020}, {"$comment", beyondSchemas}}
	if len(types) == 1 {
		return indented(append(head.with("$id", "urn:ledgerfeed:entry:"+types[0].Type), entryOf(&types[0])...))
	}
	var refs []object
	schemas, mapping := object{}, object{}
	for i := range types {
		at := "#/$defs/" + types[i].Type
		refs, mapping = append(refs, object{{"$ref", at}}), mapping.with(types[i].Type, at)
		schemas = schemas.with(types[i].Type, entryOf(&types[i]))
	}
	return indented(append(head.with("$id", "urn:ledgerfeed:entries"), object{
		{"title", "Entry"}, {"description", "A line of NDJSON that ledgerfeed append takes."},
		{"type", "object"}, {"required", []string{"type"}},
		{"discriminator", object{{"propertyName", "type"}, {"mapping", mapping}}},
		{"oneOf", refs},
		{"$defs", schemas},
	}...))
}

func entryOf(t *domain.EntryTypeDescription) object {
	return append(object{{"title", t.Type}, {"description", t.Meaning}}, strict(t.Members)...).
		with("examples", []json.RawMessage{json.RawMessage(t.Example())})
}

// strict returns the schema of an object of input, which has these fields and no others.
func strict(fields []jsonform.FieldDescription) object {
	properties, required := object{}, []string{}
	for i := range fields {
		f := &fields[i]
		schema := input(f).with("description", f.Doc)
		if f.Fields == nil {
			schema = schema.with("examples", []json.RawMessage{json.RawMessage(f.Example)})
		}
		properties = properties.with(f.Name, schema)
		if f.Required {
			required = append(required, f.Name)
		}
	}
	return object{{"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}}
}

// input returns the schema of a field of input, which takes what the decoder takes.
func input(f *jsonform.FieldDescription) object {
	switch f.Form {
	case domain.FormObject:
		return strict(f.Fields)
	case domain.FormArray:
		return object{{"type", "array"}, {"items", strict(f.Fields)}}
	case domain.FormEnum:
		if len(f.Values) == 1 {
			return object{{"type", "string"}, {"const", f.Values[0]}}
		}
		return object{{"type", "string"}, {"enum", f.Values}}
	case domain.FormBool:
		return object{{"type", "boolean"}}
	case domain.FormInteger:
		return object{{"type", "integer"}, {"minimum", 0}, {"maximum", int64(domain.MaxInteger)}}
	// No multipleOf for the decimals: validators that use floating point would refuse 8.2.
	case domain.FormHours:
		return object{{"type", "number"}, {"minimum", 0}, {"exclusiveMaximum", int64(domain.DecimalBound)}}
	case domain.FormNumber:
		return object{{"type", "number"}, {"exclusiveMinimum", -int64(domain.DecimalBound)}, {"exclusiveMaximum", int64(domain.DecimalBound)}}
	}
	form := f.Form.(domain.Form)
	schema := object{{"type", "string"}, {"pattern", form.Pattern()}}
	if form == domain.FormText {
		schema = schema.with("maxLength", domain.MaxTextLength)
	}
	if format := map[domain.Form]string{domain.FormDate: "date", domain.FormDateTime: "date-time"}[form]; format != "" {
		schema = schema.with("format", format)
	}
	return schema
}
