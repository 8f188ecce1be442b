package reference

import (
	"embed"
	"fmt"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

//go:embed samples
var sampleFiles embed.FS

// sample is a program to copy. Of names what it is of: an operation, or the subject of a guide.
type sample struct {
	Of, Language, Code string

	Runs bool // as it is, with a key in API_KEY
}

// languages returns the languages of the samples with the suffixes of their files.
func languages() []language {
	return []language{{"curl", ".sh"}, {"Go", ".go.txt"}, {"TypeScript", ".ts"}, {"Python", ".py"}}
}

type language struct{ name, suffix string }

// samples returns programs that send a request to a route.
func samples(r *route.Route, base string) ([]sample, error) {
	address := base + strings.Replace(r.Path, "{id}", openapi.IDExample(r), 1)
	for _, v := range r.Variables() {
		address = strings.Replace(address, "{"+v.Name+"}", v.Example, 1)
	}
	if r.OfTree() {
		return programs(r.Operation, "raw", address)
	}
	if r.Kind == route.Rows || r.Kind == route.Events {
		return programs(r.Operation, "list", address+"?limit=10")
	}
	return programs(r.Operation, "one", address)
}

// programs returns programs of a kind, in all languages.
func programs(of, name, address string) ([]sample, error) {
	var list []sample
	for _, l := range languages() {
		code, err := sampleFiles.ReadFile("samples/" + name + l.suffix)
		if err != nil {
			return nil, fmt.Errorf("read the samples of the reference: %w", err)
		}
		list = append(list, sample{of, l.name, strings.ReplaceAll(string(code), "{{.URL}}", address), true})
	}
	return list, nil
}
