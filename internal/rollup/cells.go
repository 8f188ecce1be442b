package rollup

import (
	"strings"
	"time"
)

// Request is the part of a request that is counted.
type Request struct {
	At          time.Time
	WorkspaceID string
	KeyID       string
	Route       string // pattern of the path, such as /v1/invoices/{id}; empty: unknown
	Status      int
	Duration    time.Duration
	Streamed    bool // its duration depends on its reader, so it is not counted
	Refused     bool // before it was processed
	RateLimited bool // refused because it was over the key's limit
}

// Attempt is the part of a delivery attempt that is counted.
type Attempt struct {
	At          time.Time // when it began
	WorkspaceID string
	WebhookID   string
	Outcome     string
	Duration    time.Duration
}

// Classes of routes. What they read differs greatly in cost.
const (
	RouteList   = "list"
	RouteObject = "object"
	RouteEvents = "events"
	RouteOther  = "other"
)

// RouteClass returns the class of a route, by its pattern.
func RouteClass(route string) string {
	switch {
	case route == "/v1/events":
		return RouteEvents
	case route == "/v1/me", !strings.HasPrefix(route, "/v1/"):
		return RouteOther
	case strings.Contains(route, "{"):
		return RouteObject
	}
	return RouteList
}

// ClassRefused is the status class of refused requests. The other classes are the first digit of
// the status.
const ClassRefused = 0

// Kinds of requests that Reader.Requests counts, other than successful ones.
const (
	KindRefused     = "0"
	KindClientError = "4"
	KindServerError = "5"
)

// cells holds the counts of one workspace that are not written yet.
type cells struct {
	requests map[requestCell]*tally
	keys     map[keyCell]*keyCounts
	attempts map[attemptCell]*tally
}

type requestCell struct {
	step        Step
	at          time.Time
	routeClass  string
	statusClass int16
}

type keyCell struct {
	at    time.Time // a minute
	keyID string
}

type attemptCell struct {
	step      Step
	at        time.Time
	webhookID string
	outcome   string
}

// tally counts requests or attempts of one kind.
type tally struct {
	n       int64
	latency Latency
}

type keyCounts struct {
	requests, clientErrors, serverErrors, rateLimited int64

	refused int64 // for a reason other than the limit
}

func newCells() *cells {
	return &cells{requests: map[requestCell]*tally{}, keys: map[keyCell]*keyCounts{}, attempts: map[attemptCell]*tally{}}
}

// size returns about how many rows the cells change.
func (c *cells) size() int { return len(c.requests) + len(c.keys) + len(c.attempts) }

func (c *cells) addRequest(r *Request) {
	class := int16(r.Status / 100)
	if r.Refused {
		class = ClassRefused
	}
	for _, step := range steps() {
		t := at(c.requests, requestCell{step, step.start(r.At), RouteClass(r.Route), class})
		t.n++
		if !r.Refused && !r.Streamed {
			t.latency.Add(r.Duration)
		}
	}
	if r.KeyID == "" {
		return
	}
	k := at(c.keys, keyCell{Minute.start(r.At), r.KeyID})
	switch {
	case r.RateLimited:
		k.rateLimited++
		return
	case r.Refused:
		k.refused++
		return
	case class == 4:
		k.clientErrors++
	case class == 5:
		k.serverErrors++
	}
	k.requests++
}

func (c *cells) addAttempt(a *Attempt) {
	for _, step := range steps() {
		t := at(c.attempts, attemptCell{step, step.start(a.At), a.WebhookID, a.Outcome})
		t.n++
		t.latency.Add(a.Duration)
	}
}

// merge adds the counts of other cells of the same workspace.
func (c *cells) merge(other *cells) {
	for cell, t := range other.requests {
		at(c.requests, cell).merge(t)
	}
	for cell, t := range other.attempts {
		at(c.attempts, cell).merge(t)
	}
	for cell, k := range other.keys {
		sum := at(c.keys, cell)
		sum.requests += k.requests
		sum.clientErrors += k.clientErrors
		sum.serverErrors += k.serverErrors
		sum.rateLimited += k.rateLimited
		sum.refused += k.refused
	}
}

func (t *tally) merge(other *tally) {
	t.n += other.n
	t.latency.Merge(&other.latency)
}

// at returns the value of a key, and makes it if there is none.
func at[K comparable, V any](m map[K]*V, key K) *V {
	v := m[key]
	if v == nil {
		v = new(V)
		m[key] = v
	}
	return v
}

// Step is the length of the intervals that something is counted by, in minutes.
type Step int16

// The steps.
const (
	Minute Step = 1
	Hour   Step = 60
)

// Duration returns the length of the intervals.
func (s Step) Duration() time.Duration { return time.Duration(s) * time.Minute }

// How long counts are kept. A chart of an hour is made from minutes, and one of 30
// days from hours.
const (
	minuteRetention = 6 * time.Hour
	hourRetention   = 31 * 24 * time.Hour
)

// steps returns the intervals that everything is counted by.
func steps() []Step { return []Step{Minute, Hour} }

// start returns the start of the interval that contains t.
func (s Step) start(t time.Time) time.Time { return t.UTC().Truncate(s.Duration()) }
