package rollup

import (
	"strings"
	"time"
)

// Request is what is counted of a request.
type Request struct {
	At          time.Time
	WorkspaceID string
	KeyID       string
	Route       string // pattern of the path, such as /v1/invoices/{id}; empty: unknown
	Status      int
	Duration    time.Duration
	Streamed    bool // its reader decided how long it took, so that its duration is not counted
	Refused     bool // before it was looked at more closely
	RateLimited bool // refused because it was over the key's limit
}

// Attempt is what is counted of an attempt to deliver.
type Attempt struct {
	At          time.Time // when it began
	WorkspaceID string
	WebhookID   string
	Outcome     string
	Duration    time.Duration
}

// Classes of routes: what they read costs much more or much less.
const (
	RouteList   = "list"
	RouteObject = "object"
	RouteEvents = "events"
	RouteOther  = "other"
)

// RouteClass is the class of a route, by its pattern.
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

// ClassRefused is the class of status of refused requests. The others are the first
// digit of the status.
const ClassRefused = 0

// Kinds of requests that Reader.Requests counts, besides those that succeeded.
const (
	KindRefused     = "0"
	KindClientError = "4"
	KindServerError = "5"
)

// cells are the counts of one workspace that are not written yet.
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

	refused int64 // for another reason
}

func newCells() *cells {
	return &cells{requests: map[requestCell]*tally{}, keys: map[keyCell]*keyCounts{}, attempts: map[attemptCell]*tally{}}
}

// size is how many rows the cells change, about.
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

// merge adds the counts of another one of the same workspace.
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

// at is the value of a key, made where there is none.
func at[K comparable, V any](m map[K]*V, key K) *V {
	v := m[key]
	if v == nil {
		v = new(V)
		m[key] = v
	}
	return v
}
