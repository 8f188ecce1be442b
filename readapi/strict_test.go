package readapi_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
)

// strictDescription is the served description in a form that finds what it does not
// tell: objects have no members but those described, and values are those listed. The
// served one leaves both open, because more may come (docs/contract/decisions.md, "What
// may change").
func strictDescription() ([]byte, error) {
	served, err := openapi.Document(openapi.Info{BaseURL: "https://api.example.com", DocsURL: docsURL})
	if err != nil {
		return nil, err
	}
	var document map[string]any
	if err := json.Unmarshal(served, &document); err != nil {
		return nil, err
	}
	makeStrict(document)
	describeAnswers(document)
	describeHeads(document)
	return json.Marshal(document)
}

// describeAnswers writes out what the served description says once for all operations: the headers of
// every answer, which /v1/me has, those of a 304, and which errors an operation has.
func describeAnswers(document map[string]any) {
	components, paths := document["components"].(map[string]any), document["paths"].(map[string]any)
	ofAll := maps.Clone(answersOf(paths["/v1/me"])["200"].(map[string]any)["headers"].(map[string]any))
	delete(ofAll, "ETag")
	components["responses"] = describedErrors(components, ofAll)
	for path, item := range paths {
		responses := answersOf(item)
		headers := responses["200"].(map[string]any)["headers"].(map[string]any)
		maps.Copy(headers, ofAll)
		unchanged := maps.Clone(headers)
		for _, name := range []string{"Link", "Event-Index", "Next-Cursor"} {
			delete(unchanged, name)
		}
		responses["304"].(map[string]any)["headers"] = unchanged
		delete(responses, "default")
		statuses := []string{"400", "401", "429", "431", "500", "503"}
		if !slices.Contains([]string{"/v1/me", "/v1/openapi.json"}, path) {
			statuses = append(statuses, "403")
		}
		if strings.Contains(path, "{") || strings.HasSuffix(path, "/checkpoint") {
			statuses = append(statuses, "404")
		}
		for _, status := range statuses {
			responses[status] = map[string]any{"$ref": "#/components/responses/Error" + status}
		}
	}
}

// answersOf returns the described answers to GET of a path.
func answersOf(item any) map[string]any {
	return item.(map[string]any)["get"].(map[string]any)["responses"].(map[string]any)
}

// describedErrors returns the described error once for each status, with its headers.
func describedErrors(components, ofAll map[string]any) map[string]any {
	one := components["responses"].(map[string]any)["Error"].(map[string]any)
	errors := map[string]any{}
	for _, status := range []string{"400", "401", "403", "404", "429", "431", "500", "503"} {
		headers := maps.Clone(ofAll)
		switch status {
		case "401":
			headers["WWW-Authenticate"] = map[string]any{"required": true, "schema": map[string]any{"type": "string", "const": "Bearer"}}
		case "429", "503":
			after := maps.Clone(components["headers"].(map[string]any)["Retry-After"].(map[string]any))
			after["required"] = true
			headers["Retry-After"] = after
		}
		described := maps.Clone(one)
		described["headers"] = headers
		errors["Error"+status] = described
	}
	return errors
}

// describeHeads writes out what the served description says of HEAD in words: each path answers it as
// it does GET, without the body.
func describeHeads(document map[string]any) {
	for _, item := range document["paths"].(map[string]any) {
		item := item.(map[string]any)
		head := maps.Clone(item["get"].(map[string]any))
		head["operationId"] = "head_" + head["operationId"].(string)
		responses := maps.Clone(head["responses"].(map[string]any))
		ok := maps.Clone(responses["200"].(map[string]any))
		delete(ok, "content")
		responses["200"] = ok
		head["responses"], item["head"] = responses, head
	}
}

// makeStrict goes through a part of the description.
func makeStrict(part any) {
	switch part := part.(type) {
	case map[string]any:
		if _, described := part["properties"].(map[string]any); described && part["additionalProperties"] == nil {
			part["additionalProperties"] = false
		}
		if values, listed := part["x-extensible-enum"].([]any); listed {
			if kinds, several := part["type"].([]any); several && slices.Contains(kinds, "null") {
				values = append(values, nil)
			}
			part["enum"] = values
		}
		for _, inner := range part {
			makeStrict(inner)
		}
	case []any:
		for _, inner := range part {
			makeStrict(inner)
		}
	}
}

// TestTheDescriptionLeavesRoom: nothing in the served description refuses what may be
// added, and its strict form does.
func TestTheDescriptionLeavesRoom(t *testing.T) {
	t.Parallel()
	served, err := openapi.Document(openapi.Info{BaseURL: "https://api.example.com", DocsURL: docsURL})
	if err != nil {
		t.Fatal(err)
	}
	strict, err := strictDescription()
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		name         string
		document     []byte
		closed, enum int
	}{{"served", served, 0, 0}, {"strict", strict, 20, 15}} {
		var document any
		if err := json.Unmarshal(of.document, &document); err != nil {
			t.Fatal(err)
		}
		forgetParameters(document.(map[string]any))
		closed, enums := countStrict(document)
		if of.closed == 0 && (closed != 0 || enums != 0) || closed < of.closed || enums < of.enum {
			t.Errorf("the %s description has %d closed objects and %d enumerations", of.name, closed, enums)
		}
	}
}

// forgetParameters deletes the parameters, which take the listed values alone, and the schemas that
// nothing else refers to.
func forgetParameters(document map[string]any) {
	var forget func(part any)
	used := map[any]bool{}
	forget = func(part any) {
		switch part := part.(type) {
		case map[string]any:
			delete(part, "parameters")
			used[part["$ref"]] = true
			for _, inner := range part {
				forget(inner)
			}
		case []any:
			for _, inner := range part {
				forget(inner)
			}
		}
	}
	forget(document)
	schemas := document["components"].(map[string]any)["schemas"].(map[string]any)
	maps.DeleteFunc(schemas, func(name string, _ any) bool { return !used["#/components/schemas/"+name] })
}

// countStrict counts what refuses additions.
func countStrict(part any) (closed, enums int) {
	count := func(inner any) {
		c, e := countStrict(inner)
		closed, enums = closed+c, enums+e
	}
	switch part := part.(type) {
	case map[string]any:
		if part["additionalProperties"] == false {
			closed++
		}
		if _, listed := part["enum"].([]any); listed {
			enums++
		}
		for _, inner := range part {
			count(inner)
		}
	case []any:
		for _, inner := range part {
			count(inner)
		}
	}
	return closed, enums
}
