package openapi

import (
	"strings"

	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Examples of answers about the tree over the events.
const (
	exampleCheckpoint = "api.example.com/northwind/events\n1042\nkk9TQ0MiYfqIyfHt5m0F7sqlJM7JMULLR7ALYTuHGxc=\n" +
		"position 48213\nchain 2MmyPpMa7ZGKCDv+0MmyPpMa7ZGKCDv+0MmyPpMa7ZE=\n\n" +
		"— api.example.com/northwind/events mHxB4gUFwJVpTfDNMzKGdbyB9gDfXvR1hTzPqZkDCuEvbWNfHi6iYUNpjJ2xYcWmjXkq1ZlQk2rGcSqAqgVbHgBQ5Q0=\n"
	exampleTile   = "(256 hashes of 32 bytes)"
	exampleBundle = "(256 events, each after its length in two bytes)"
)

// treeExample returns an example of an answer about the tree over the events. It describes binary
// answers in words.
func treeExample(r *route.Route) string {
	switch r.Kind {
	case route.Checkpoint:
		return exampleCheckpoint
	case route.Tile:
		return exampleTile
	default:
		return exampleBundle
	}
}

// treeContent describes the body of an answer about the tree over the events.
func treeContent(r *route.Route) object {
	media, _, _ := strings.Cut(r.MediaType(), ";")
	if r.Kind == route.Checkpoint {
		return object{{media, object{{"schema", object{{"type", "string"}, {"description", "A signed note."}}}, {"example", exampleCheckpoint}}}}
	}
	return object{{media, object{{"schema", object{{"type", "string"}, {"contentMediaType", media}, {"description", treeExample(r)}}}}}}
}

// variables describes the variables of a path, except {id}.
func variables(r *route.Route) (list []object) {
	for _, v := range r.Variables() {
		list = append(list, object{
			{"name", v.Name}, {"in", "path"}, {"required", true}, {"description", v.Description},
			{"schema", object{{"type", "string"}, {"minLength", 1}}}, {"example", v.Example},
		})
	}
	return list
}
