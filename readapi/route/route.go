package route

import (
	"strings"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Route is one endpoint.
type Route struct {
	Path        string            // such as /v1/invoices/{id}; {id} is the only variable there is
	Operation   string            // unique name, for generated clients
	Group       string            // heading in the description
	Permission  access.Permission // empty: any valid key
	Summary     string
	Description string
	Params      []Param
	Kind        Kind
	Resource    *Resource // what is answered; nil for kinds with a form of their own
}

// Kind is the kind of a response: what it is made from, and its form.
type Kind int

// The kinds of responses.
const (
	Rows     Kind = iota + 1 // a page of the rows of a read table
	Row                      // one row of a read table
	Credit                   // a client's credit with a page of its history
	Events                   // a page of the log's feed
	Event                    // one event of the feed
	KeyInfo                  // the key that makes the request
	Document                 // the OpenAPI document
)

// HasID reports whether the path names one object by its id.
func (r *Route) HasID() bool { return strings.Contains(r.Path, "{id}") }

// HasPosition reports whether answers are of a position of the workspace's log
// (docs/contract/decisions.md, "Positions"). The key and the description of the API are
// not in the log.
func (r *Route) HasPosition() bool { return r.Kind != KeyInfo && r.Kind != Document }

// IsList reports whether answers are pages with a cursor, so that a request can wait for
// something after it (docs/contract/decisions.md, "Waiting").
func (r *Route) IsList() bool { return r.Kind == Rows || r.Kind == Credit || r.Kind == Events }

// ReadOf tells where what an event is about is read: the path, with {object_id} or
// {client_id} in the place of what the event's data has under that name. Empty: there is
// nothing to read.
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
