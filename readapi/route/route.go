package route

import (
	"strings"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Route is one endpoint.
type Route struct {
	Path        string            // such as /v1/invoices/{id}; see Variables
	Operation   string            // unique name, for generated clients
	Group       string            // heading in the OpenAPI document
	Permission  access.Permission // empty: any valid key
	Summary     string
	Description string
	Params      []Param
	Kind        Kind
	Resource    *Resource // the kind of object in the answer; nil for kinds with their own form
}

// Kind is the kind of a response: what it is made from, and its form.
type Kind int

// The kinds of responses.
const (
	Rows       Kind = iota + 1 // a page of the rows of a read table
	Row                        // one row of a read table
	Totals                     // sums over the rows of a read table
	Credit                     // a client's credit with a page of its history
	Events                     // a page of the log's feed
	Event                      // one event of the feed
	Checkpoint                 // the signed state of the tree over the events
	Tile                       // hashes of that tree
	Bundle                     // leaves of that tree
	KeyInfo                    // information about the request's key
	Document                   // the OpenAPI document
)

// Variable is a variable in a path.
type Variable struct{ Name, Description, Example string }

// Variables returns the variables in the path, except {id}.
func (r *Route) Variables() (list []Variable) {
	for _, v := range []Variable{
		{"level", "The level: at 0 the hashes are those of events, and at each other one those of the full tiles below.", "0"},
		{"tile", "The number of the tile, as c2sp.org/tlog-tiles writes it: groups of three digits, all but the last with an x before them, such as x001/234, and .p/W after it " +
			"for the first W of 256 hashes or events.", "000.p/1"},
	} {
		if strings.Contains(r.Path, "{"+v.Name+"}") {
			list = append(list, v)
		}
	}
	return list
}

// Pattern returns the path with * in place of {tile}, which may have slashes.
func (r *Route) Pattern() string { return strings.Replace(r.Path, "{tile}", "*", 1) }

// OfTree reports whether answers come from the tree of events. They are not JSON.
func (r *Route) OfTree() bool { return r.Kind == Checkpoint || r.Kind == Tile || r.Kind == Bundle }

// CanWait reports whether a request can wait for an answer that the caller does not have yet
// (docs/contract/decisions.md, "Waiting").
func (r *Route) CanWait() bool { return r.IsList() || r.Kind == Checkpoint }

// MediaType returns the media type of answers with status 200.
func (r *Route) MediaType() string {
	switch r.Kind {
	case Checkpoint:
		return "text/plain; charset=utf-8"
	case Tile, Bundle:
		return "application/octet-stream"
	default:
		return "application/json"
	}
}

// HasID reports whether the path names one object by its id.
func (r *Route) HasID() bool { return strings.Contains(r.Path, "{id}") }

// HasPosition reports whether answers show the workspace's log at a position
// (docs/contract/decisions.md, "Positions"). The key information and the OpenAPI document do not.
func (r *Route) HasPosition() bool { return r.Kind != KeyInfo && r.Kind != Document }

// StreamsWhole reports whether the list also comes whole, in one answer.
func (r *Route) StreamsWhole() bool { return r.Kind == Rows }

// IsList reports whether answers are pages with a cursor, so that a request can wait for
// something after it (docs/contract/decisions.md, "Waiting").
func (r *Route) IsList() bool { return r.Kind == Rows || r.Kind == Credit || r.Kind == Events }

// ReadOf returns the path at which the object of an event is read. {object_id} or {client_id}
// stands for the value with that name in the event's data. Empty: there is nothing to read.
func ReadOf(objectType string) string {
	switch objectType {
	case "invoice", "credit_note":
		return "/v1/invoices/{object_id}"
	case "payout":
		return "/v1/payments/{object_id}"
	case "time_entry":
		return "/v1/time-entries/{object_id}"
	case "charge":
		return "/v1/charges/{object_id}"
	case "credit":
		return "/v1/clients/{client_id}/credit"
	case "period":
		return "/v1/invoices?period={object_id}"
	}
	return ""
}
