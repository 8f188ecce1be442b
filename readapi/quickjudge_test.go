package readapi_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/routers"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// quickJudge compiles each schema of the description once. The judge of kin-openapi compiles
// it again for every value, which took half of the time of all tests that ask the API. What
// the quick judge does not accept goes to the judge, who says what is wrong. Under .ci/full
// the judge sees everything.
type quickJudge struct {
	document any
	compiler *jsonschema.Compiler

	mu        sync.Mutex // the compiler is for one goroutine at a time
	responses map[string]*quickResponse
}

// quickResponse is what an operation says of the answers with one status.
type quickResponse struct {
	headers  map[string]quickHeader
	contents map[string]*jsonschema.Schema // nil: a text, which has no schema that it could break
}

type quickHeader struct {
	schema   *jsonschema.Schema
	number   bool
	required bool
}

func newQuickJudge(raw []byte) (*quickJudge, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(quickURL, document); err != nil {
		return nil, err
	}
	return &quickJudge{document: document, compiler: compiler, responses: map[string]*quickResponse{}}, nil
}

const quickURL = "https://api.example.com/openapi.json"

// accepts reports whether an answer to GET is surely as described.
func (q *quickJudge) accepts(route *routers.Route, r reply) bool {
	if testkit.Full() || route.Method != http.MethodGet {
		return false
	}
	described := q.response(route, r.status)
	if described == nil {
		return false
	}
	for name, h := range described.headers {
		if !h.accepts(r.header.Values(name)) {
			return false
		}
	}
	schema, known := described.contents[r.header.Get("Content-Type")]
	if !known || schema == nil {
		return false
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.body))
	return err == nil && schema.Validate(value) == nil
}

func (h quickHeader) accepts(values []string) bool {
	switch {
	case len(values) == 0:
		return !h.required
	case len(values) > 1:
		return false
	case h.number:
		if _, err := strconv.ParseInt(values[0], 10, 64); err != nil {
			return false
		}
		return h.schema.Validate(json.Number(values[0])) == nil
	}
	return h.schema.Validate(values[0]) == nil
}

// response is what the description says of an answer; nil: nothing that is judged here.
func (q *quickJudge) response(route *routers.Route, status int) *quickResponse {
	at := []string{"paths", route.Path, "get", "responses", strconv.Itoa(status)}
	key := strings.Join(at, " ")
	q.mu.Lock()
	defer q.mu.Unlock()
	found, known := q.responses[key]
	if !known {
		found = q.compile(at)
		q.responses[key] = found
	}
	return found
}

func (q *quickJudge) compile(at []string) *quickResponse {
	response, at := q.resolve(at)
	if response == nil {
		return nil
	}
	compiled := &quickResponse{map[string]quickHeader{}, map[string]*jsonschema.Schema{}}
	headers, _ := response["headers"].(map[string]any)
	for name := range headers {
		header, at := q.resolve(append(at[:len(at):len(at)], "headers", name))
		schema, at := q.resolve(append(at, "schema"))
		kind, _ := schema["type"].(string)
		if kind != "string" && kind != "integer" {
			return nil
		}
		required, _ := header["required"].(bool)
		compiled.headers[name] = quickHeader{q.schema(at), kind == "integer", required}
		if compiled.headers[name].schema == nil {
			return nil
		}
	}
	contents, _ := response["content"].(map[string]any)
	for media := range contents {
		if strings.HasSuffix(media, "json") {
			compiled.contents[media] = q.schema(append(at[:len(at):len(at)], "content", media, "schema"))
		}
	}
	return compiled
}

func (q *quickJudge) schema(at []string) *jsonschema.Schema {
	pointer := ""
	for _, name := range at {
		pointer += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	schema, err := q.compiler.Compile(quickURL + "#" + pointer)
	if err != nil {
		return nil
	}
	return schema
}

// resolve follows references, and returns what it finds and where that is.
func (q *quickJudge) resolve(at []string) (found map[string]any, where []string) {
	value := q.document
	for _, name := range at {
		members, _ := value.(map[string]any)
		value = members[name]
	}
	found, _ = value.(map[string]any)
	if ref, ok := found["$ref"].(string); ok {
		return q.resolve(strings.Split(strings.TrimPrefix(ref, "#/"), "/"))
	}
	return found, at
}
