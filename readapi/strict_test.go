package readapi_test

import (
	"encoding/json"
	"maps"
	"slices"
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
	describeHeads(document)
	return json.Marshal(document)
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
		closed, enums := countStrict(document)
		if of.closed == 0 && (closed != 0 || enums != 0) || closed < of.closed || enums < of.enum {
			t.Errorf("the %s description has %d closed objects and %d enumerations", of.name, closed, enums)
		}
	}
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
		for name, inner := range part {
			if name != "parameters" { // which take the listed values alone
				count(inner)
			}
		}
	case []any:
		for _, inner := range part {
			count(inner)
		}
	}
	return closed, enums
}
