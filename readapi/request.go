package readapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// request is the context of one request: what the checks have found out about it,
// and the answer. It belongs to the request's goroutine.
//
// As a context.Context it ends with the request's timeout or when the caller goes.
type request struct {
	context.Context

	api     *API
	http    *http.Request
	routing *chi.Context
	out     answer.Writer
	began   time.Time
	asOf    time.Time // when what is answered is read: later than began if the request waited
	id      string
	address netip.Addr

	known   func()               // called when the caller is known
	key     *access.Key          // nil until a valid one was found
	refused *access.RefusedError // why there is none
	visible visibility

	target
	params parsedParams
	wait   waiter
	form   answer.Form // of a list of rows; JSON: a page

	reading
	outcome
}

// within is a request with another context, that of a part of its work. Keep gives what
// that part has left to the request, whose own context must not change under the code that
// still uses it.
func within(ctx context.Context, q *request) (c *request, keep func()) {
	c = new(request)
	*c = *q
	c.Context = ctx
	return c, func() { q.out, q.wait, q.outcome = c.out, c.wait, c.outcome }
}

// target is what a request asks for.
type target struct {
	page     string          // route of a page that needs no key
	endpoint *endpoint       // nil until the route was found
	pathID   string          // the {id} of the path
	tile     *eventtree.Path // of the tree over the events; nil: none that there could be
}

// reading is where the answer is read.
type reading struct {
	from  *source
	floor version // what the Copy must have reached
	moved int64   // the visible position, if the request has waited for it to move
}

// outcome is what the request log says of an answer.
type outcome struct {
	rows    int           // of the answer
	lacks   bool          // something that a later answer to the same has, so that it is not cached
	broken  bool          // the answer was begun and could not be finished: problem says why
	problem *answer.Error // what was answered instead; nil: nothing was
}

// requestKey finds the request in a context.
type requestKey struct{}

// Value also finds the request itself and chi's routing context. A mux that finds one
// does not make its own, which would be a second copy of the HTTP request.
func (q *request) Value(key any) any {
	switch key {
	case requestKey{}:
		return q
	case chi.RouteCtxKey:
		return q.routing
	}
	return q.Context.Value(key)
}

// requestOf returns the request that ServeHTTP made the context of r.
func requestOf(r *http.Request) *request {
	return r.Context().Value(requestKey{}).(*request)
}

func (a *API) newRequest(ctx context.Context, w http.ResponseWriter, r *http.Request) *request {
	q := &request{
		Context: ctx, api: a, http: r, reading: reading{from: a.source},
		began:   a.cfg.Clock(),
		id:      a.requestID(r.Header.Values(answer.HeaderRequestID), newOwnKey(r.Header.Values("Authorization"))),
		address: clientAddress(r, a.cfg.TrustedProxies),
	}
	q.asOf = q.began
	q.out = a.answers.Writer(w, r, q.id)
	return q
}

// requestID takes over the caller's id, or makes one. An id in the form of a key, or with a part of
// the request's own key, is not taken over, because ids are logged.
func (a *API) requestID(given []string, own ownKey) string {
	if len(given) == 1 && isRequestID(given[0]) && !a.keys.inText(given[0]) && !own.in(given[0]) {
		return given[0]
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return "req_" + hex.EncodeToString(random[:])
}

// isRequestID follows docs/contract/decisions.md, "Requests": 1 to 64 of
// [A-Za-z0-9._-].
func isRequestID(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// countRefusals makes the RateLimit headers say what the address has left of its
// refused keys, as they do until the key is known.
func (q *request) countRefusals() {
	q.out.Policy, q.out.Allowance = answer.PolicyAddress, q.api.cfg.Limiter.Refusals(q.address)
}

// refuse answers with the problem that an error stands for.
func (q *request) refuse(err error) {
	p := problemOf(err)
	q.problem = p
	if q.out.Policy == "" { // failed before anything was counted
		q.countRefusals()
	}
	q.out.Problem(p)
}

var errPanic = errors.New("panic while answering")

// answerPanic takes what recover returned after everything that is done for a request.
// A panic is logged with its stack and answered with 500.
func (q *request) answerPanic(fault any) {
	if fault == nil {
		return
	}
	if err, ok := fault.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(fault)
	}
	q.api.cfg.Logger.ErrorContext(q, "a request caused a panic",
		"request_id", q.id, "panic", fault, "stack", string(debug.Stack()))
	if q.out.Status == 0 {
		q.refuse(answer.Internal(errPanic))
	}
}
