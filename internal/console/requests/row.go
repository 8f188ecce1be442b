package requests

import (
	"cmp"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// row is a request of the request log.
type row struct {
	At       time.Time
	RecordID uuid.UUID
	ID       string // of X-Request-Id
	KeyID    string
	Prefix   string
	Method   string
	Route    string // the pattern; empty: an unknown path
	Status   int
	Micros   int64
	Bytes    int64
	Rows     int64
	KeyName  string // empty for a key that is not known any more

	// Empty for requests that an earlier version has recorded.
	Path    string // percent-encoded; empty where it is the route
	Address string // of the caller
	Agent   string // the header User-Agent
	Problem *requestlog.Problem
}

// Target is the path as far as it is known: for requests of earlier versions the route.
func (r *row) Target() string { return cmp.Or(r.Path, r.Route) }

// Why tells in some words what an error was about; empty where the status says it.
func (r *row) Why() string {
	switch {
	case r.Problem == nil:
		return ""
	case r.Problem.Permission != "":
		return "lacks " + r.Problem.Permission
	case len(r.Problem.Errors) == 1:
		return r.Problem.Errors[0].Field + " " + r.Problem.Errors[0].Message
	}
	names := make([]string, len(r.Problem.Errors))
	for i, e := range r.Problem.Errors {
		names[i] = e.Field
	}
	return strings.Join(names, ", ")
}

// Cursor names the request in addresses.
func (r *row) Cursor() string { return web.FormatCursor(position{At: r.At, ID: r.RecordID}) }

// Millis is how long the request took.
func (r *row) Millis() float64 { return float64(r.Micros) / 1000 }

// Look is the badge of its status.
func (r *row) Look() string {
	switch {
	case r.Status >= 500:
		return "bad"
	case r.Status >= 400:
		return "warn"
	}
	return "good"
}
