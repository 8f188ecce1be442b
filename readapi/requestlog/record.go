// Package requestlog keeps the requests of the API for the console: accepted ones one by one for 30
// days, refused ones as counts per minute (docs/contract/service.md, "Limits", 6). It also keeps
// when each key was last used.
package requestlog

import (
	"net/netip"
	"time"
)

// Record is what is kept of a request. It holds no part of a query except the names of parameters,
// and it must not hold a key; the code that makes a Record ensures both.
type Record struct {
	At          time.Time // when the request arrived
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
	Streamed    bool   // the answer was a whole list, so Duration depends on its reader
	Refusal     string // why the request was refused before it was processed; empty: it was not

	// Only accepted requests have these. The texts must be valid UTF-8 without NUL.
	Path      string     // percent-encoded; empty if it equals Route. Bounded by MaxPath
	Address   netip.Addr // of the caller; the zero Addr: not known
	UserAgent string     // bounded by MaxUserAgent
	Problem   *Problem   // nil: the answer was no error
}

// Limits of text that callers send, in bytes, and of the faults kept of one request.
const (
	MaxPath      = 256
	MaxUserAgent = 200
	MaxFaults    = 10
)

// Problem is the error that the caller got.
type Problem struct {
	Title      string  `json:"title"`
	Detail     string  `json:"detail,omitempty"`
	Permission string  `json:"permission,omitempty"` // that the key lacks
	Errors     []Fault `json:"errors,omitempty"`     // the first MaxFaults
}

// Fault is what is wrong with one parameter.
type Fault struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// minuteOf returns the number of the clock minute, counted since 1970.
func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// dayOf returns the number of the day, counted since 1970, in UTC.
func dayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// Slots returns the partitions of request_log (its column slot) with the requests from one moment
// to another, both included.
func Slots(from, to time.Time) []int16 {
	var list []int16
	for day := dayOf(from); day <= dayOf(to) && len(list) < Partitions; day++ {
		list = append(list, int16(day%Partitions))
	}
	return list
}
