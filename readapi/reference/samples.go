package reference

import (
	"embed"
	"fmt"
	"strings"
	"text/template"

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

// places are the addresses in a program.
type places struct {
	URL string // without an id

	// With an id, which the program takes from the first row of List.
	List, Before, After string
	OfClient            bool // the id is that of the row's client
}

// Field is where a row of List has the id.
func (p places) Field() string {
	if p.OfClient {
		return "client.id"
	}
	return "id"
}

// samples returns programs that send a request to a route.
func samples(r *route.Route, base string) ([]sample, error) {
	if before, after, found := strings.Cut(base+r.Path, "{id}"); found {
		p := places{List: strings.TrimSuffix(before, "/"), Before: before, After: after}
		if r.Kind == route.Credit {
			p.List, p.OfClient = base+"/v1/credits", true
		}
		return programs(r.Operation, "first", p)
	}
	address := base + r.Path
	for _, v := range r.Variables() {
		address = strings.Replace(address, "{"+v.Name+"}", v.Example, 1)
	}
	if r.OfTree() {
		return programs(r.Operation, "raw", places{URL: address})
	}
	if r.Kind == route.Rows || r.Kind == route.Events {
		return programs(r.Operation, "list", places{URL: address + "?limit=10"})
	}
	return programs(r.Operation, "one", places{URL: address})
}

// programs returns programs of a kind, in all languages.
func programs(of, name string, at places) ([]sample, error) {
	var list []sample
	for _, l := range languages() {
		code, err := template.ParseFS(sampleFiles, "samples/"+name+l.suffix)
		if err != nil {
			return nil, fmt.Errorf("read the samples of the reference: %w", err)
		}
		var b strings.Builder
		if err := code.Execute(&b, at); err != nil {
			return nil, fmt.Errorf("write the samples of the reference: %w", err)
		}
		list = append(list, sample{of, l.name, b.String(), true})
	}
	return list, nil
}
