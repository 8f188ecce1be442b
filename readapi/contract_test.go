package readapi_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// contract judges answers by the strict form of the served description, with a validator
// that is not ours.
type contract struct {
	document *openapi3.T
	quick    *quickJudge
}

// theContract is read once for all tests: it is the same for every stand.
var theContract = sync.OnceValues(func() (*contract, error) {
	raw, err := strictDescription()
	if err != nil {
		return nil, err
	}
	return parseContract(raw)
})

func parseContract(raw []byte) (*contract, error) {
	openapi3filter.RegisterBodyDecoder(ndjson, openapi3filter.FileBodyDecoder) // a text
	openapi3filter.RegisterBodyDecoder("application/octet-stream", openapi3filter.FileBodyDecoder)
	document, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return nil, err
	}
	quick, err := newQuickJudge(raw)
	if err != nil {
		return nil, err
	}
	return &contract{document, quick}, nil
}

// routeOf finds the description of a request; nil if there is none. A path without variables
// comes before one with them.
func (c *contract) routeOf(method string, target *url.URL) (found *routers.Route, variables map[string]string) {
	segments := strings.Split(target.EscapedPath(), "/")
	for pattern, item := range c.document.Paths.Map() {
		wanted, segments := strings.Split(pattern, "/"), segments
		if last := len(wanted) - 1; wanted[last] == "{tile}" && len(segments) > last { // which may have slashes
			segments = append(slices.Clone(segments[:last]), strings.Join(segments[last:], "/"))
		}
		if len(wanted) != len(segments) {
			continue
		}
		params, ok := map[string]string{}, true
		for i, w := range wanted {
			if strings.HasPrefix(w, "{") {
				params[strings.Trim(w, "{}")], _ = url.PathUnescape(segments[i])
				ok = ok && segments[i] != ""
			} else if w != segments[i] {
				ok = false
			}
		}
		if operation := item.GetOperation(method); ok && operation != nil && (found == nil || len(params) < len(variables)) {
			found = &routers.Route{Spec: c.document, Path: pattern, PathItem: item, Method: method, Operation: operation}
			variables = params
		}
	}
	return found, variables
}

// judge fails the test if an answer is not as described.
func (c *contract) judge(t testing.TB, method, target string, r reply) {
	t.Helper()
	u, err := url.Parse("https://api.example.com" + target)
	if err != nil {
		return // no URL, so not described
	}
	described := *u
	for media, extension := range map[string]string{"text/csv": ".csv", ndjson: ".ndjson"} {
		// The document has whole lists at paths of their own. Totals as CSV are described in words.
		if strings.HasPrefix(r.header.Get("Content-Type"), media) && !strings.HasSuffix(u.Path, extension) {
			described.Path += extension
		}
	}
	operation, params := c.routeOf(method, &described)
	if operation == nil {
		return
	}
	request, err := http.NewRequestWithContext(context.Background(), method, u.String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	input := &openapi3filter.RequestValidationInput{Request: request, PathParams: params, Route: operation, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true,
		ExcludeResponseBody: method != http.MethodGet || r.status == http.StatusNotModified,
	}}
	if r.status < 300 {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			t.Errorf("%s %s was answered with %d, but is not a described request: %v", method, target, r.status, err)
		}
	}
	if c.quick.accepts(operation, r) {
		return
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: r.status, Header: r.header,
		Body: io.NopCloser(bytes.NewReader(r.body)), Options: input.Options,
	})
	if err != nil {
		t.Errorf("%s %s: the answer %d is not as described: %.2000v", method, target, r.status, err)
	}
}

// TestDescription: the document is a valid one, examples included.
func TestDescription(t *testing.T) {
	t.Parallel()
	c, err := theContract()
	if err != nil {
		t.Fatal(err)
	}
	err = c.document.Validate(t.Context(), openapi3.IsOpenAPI31OrLater(), openapi3.EnableExamplesValidation(),
		openapi3.EnableSchemaPatternValidation(), openapi3.EnableMultiError())
	if err != nil {
		t.Error(err)
	}
	want := 0
	for _, r := range route.Table() {
		want++
		if r.StreamsWhole() {
			want += 2
		}
	}
	if n := c.document.Paths.Len(); n != want {
		t.Errorf("%d paths are described of %d", n, want)
	}
	s := newStand(t)
	s.workspace("acme")
	r := s.get("/v1/openapi.json", s.key("acme", allPermissions()...))
	document, err := openapi.Document(openapi.Info{BaseURL: "https://api.example.com", DocsURL: docsURL})
	if err != nil || !bytes.Equal(r.body, document) {
		t.Errorf("the served document is not the described one (%v)", err)
	}
	served, err := parseContract(r.body)
	if err != nil {
		t.Fatal(err)
	}
	served.judge(t, http.MethodGet, "/v1/openapi.json", r)
}
