// Package requestlog keeps the requests of the API for the console: accepted ones
// one by one for 30 days, refused ones as counts by the minute
// (docs/contract/service.md, "Limits", 6). It also keeps when each key was last used.
package requestlog

import "time"

// Record is what is kept of a request. None of it comes from a query or from what
// the caller wrote into a path.
type Record struct {
	At          time.Time // when the request came
	WorkspaceID string    // empty without a known key
	KeyID       string
	KeyPrefix   string
	RequestID   string
	Method      string
	Route       string // such as /v1/invoices/{id}; empty for unknown paths
	Status      int
	Duration    time.Duration
	Bytes       int // of the body as it was sent
	Rows        int
	Refusal     string // why the request was refused before it was looked at more closely; empty: it was not
}

// minuteOf numbers clock minutes.
func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// dayOf numbers days since 1970, UTC.
func dayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }
