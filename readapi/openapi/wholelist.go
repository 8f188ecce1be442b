package openapi

import (
	"bytes"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

const wholeListNote = "The whole list comes in one answer at the same path with .ndjson or .csv after it, or with Accept: " + answer.TypeNDJSON + " or " + answer.TypeCSV + "."

// DescriptionOf describes what a route returns.
func DescriptionOf(r *route.Route) string {
	if r.StreamsWhole() {
		return r.Description + " " + wholeListNote
	}
	return r.Description
}

const (
	ndjsonDescription = "The whole list from the cursor, or the start, to the end, of one moment: a row on each line, as in data of a page, " +
		"and a last line with has_more, which is false, and next_cursor, where it goes on in either form or in pages. " +
		"Without the last line the list was broken off: start again from the cursor that you had. " +
		"It costs one request of the limit and one more for each 10,000 rows begun."
	csvDescription = "The same list as RFC 4180 has it, in UTF-8, with a row of names. Each field has a column, that of an object one for each of its fields, such as client.id; " +
		"arrays are JSON, null is an empty cell. With include=removed the last column, removed, is true for rows that were deleted or that the key may no longer see. " +
		"Take columns by their names, because more may come. Texts are exactly those of the rows, also where a spreadsheet would take them for formulas. " +
		"The cursor is in the header Next-Cursor and, when the list has ended, in the trailer field of the same name; a list that was broken off has no trailer and ends with an error of the connection."
)

// wholeLists adds the paths at which a list of rows comes whole, as NDJSON and as CSV.
func (s *schemas) wholeLists(paths object, r *route.Route) object {
	if !r.StreamsWhole() {
		return paths
	}
	for _, form := range []struct{ extension, name, media, description, example string }{
		{".ndjson", "NDJSON", answer.TypeNDJSON, ndjsonDescription, ExampleNDJSON(r)},
		{".csv", "CSV", answer.TypeCSV, csvDescription, ExampleCSV(r)},
	} {
		whole := *r
		whole.Kind, whole.Path = wholeKind, r.Path+form.extension
		whole.Operation = "download" + strings.TrimPrefix(r.Operation, "list") + form.name
		whole.Summary += ", whole, as " + form.name
		whole.Params = slices.DeleteFunc(slices.Clone(r.Params), func(p route.Param) bool { return p.Form == route.FormLimit })
		get := s.operation(&whole, object{}, `""`)
		ok := withHeader(object{{"description", "Done."}, {"headers", answerHeaders(&whole)}}, answer.HeaderNextCursor).
			with("content", object{{form.media, object{{"schema", object{{"type", "string"}, {"description", form.description}}}, {"example", form.example}}}})
		for i := range get {
			if responses, found := get[i].value.(object); found && get[i].name == "responses" {
				responses[0].value = ok
			}
		}
		paths = paths.with(whole.Path, object{{"get", get}})
	}
	return paths
}

// wholeKind stands for the kind of a list that comes whole: it has no pages and cannot be waited for.
const wholeKind route.Kind = -1

// withHeader adds a header to a described answer.
func withHeader(ok object, name string) object {
	for i := range ok {
		if headers, found := ok[i].value.(object); found && ok[i].name == "headers" {
			ok[i].value = headers.with(name, reference("headers", name))
		}
	}
	return ok
}

// ExampleNDJSON returns an example of a route's whole list as NDJSON.
func ExampleNDJSON(r *route.Route) string {
	return jsonform.ExampleOf(r.Resource.Fields) + "\n" + `{"has_more":false,"next_cursor":"` + exampleCursor + "\"}\n"
}

// ExampleCSV returns the same example as CSV.
func ExampleCSV(r *route.Route) string {
	columns := answer.NewColumns(r.Resource.Fields, func(jsonform.Part) bool { return true })
	row := bytes.TrimSuffix([]byte(jsonform.ExampleOf(r.Resource.Fields)), []byte("}"))
	var b strings.Builder
	w := answer.NewListWriter(&b, answer.CSV, columns)
	if _, err := w.Row([][]byte{row}); err != nil {
		panic("openapi: the example of " + r.Path + ": " + err.Error()) // only wrong fields in package domain cause this, and every test would hit it
	}
	if err := w.End(exampleCursor); err != nil {
		panic("openapi: the example of " + r.Path + ": " + err.Error())
	}
	return b.String()
}
