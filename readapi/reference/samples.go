package reference

import (
	"embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

//go:embed samples
var sampleFiles embed.FS

// sample is a program to copy and run with a key in API_KEY.
type sample struct{ Language, Code string }

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
		return programs("raw", address)
	}
	if r.Kind == route.Rows || r.Kind == route.Events {
		return programs("list", address+"?limit=10")
	}
	return programs("one", address)
}

// followSamples returns programs that read what has changed in a list since their last run.
func followSamples(base string) ([]sample, error) {
	return programs("follow", base+"/v1/time-entries")
}

// wholeSamples returns programs that read a whole list and go on where it ended.
func wholeSamples(base string) ([]sample, error) {
	return programs("whole", base+"/v1/time-entries")
}

func programs(name, address string) ([]sample, error) {
	var list []sample
	for _, l := range languages() {
		parsed, err := template.ParseFS(sampleFiles, "samples/"+name+l.suffix)
		if err != nil {
			return nil, fmt.Errorf("read the samples of the reference: %w", err)
		}
		var code strings.Builder
		if err := parsed.Execute(&code, struct{ URL string }{address}); err != nil {
			return nil, fmt.Errorf("write the samples of the reference: %w", err)
		}
		list = append(list, sample{l.name, code.String()})
	}
	return list, nil
}
