package readapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"iter"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// request is the state of one request: what the checks have found out about it, and the answer. One
// goroutine at a time uses it.
//
// As a context.Context it ends with the request's timeout or when the caller goes.
type request struct {
	context.Context

	api     *API
	http    *http.Request
	routing *chi.Context
	out     answer.Writer
	began   time.Time
	asOf    time.Time // when the answer's data is read: later than began if the request waited
	id      string
	address netip.Addr

	known   func()               // called when the caller is known
	key     *access.Key          // nil until a valid one was found
	refused *access.RefusedError // why there is no valid key
	visible visibility

	target
	params parsedParams
	wait   waiter
	form   answer.Form // of the answer to a list of rows; JSON: a page

	reading
	outcome
}

// withContext copies a request and gives the copy another context, for a part of its work. keep copies
// the results back. The request's own context must not change under the code that still uses it.
func withContext(ctx context.Context, q *request) (c *request, keep func()) {
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
	tile     *eventtree.Path // in the tree of events; nil: the path names no possible tile
}

// reading says where the answer is read from, and how new it must be.
type reading struct {
	from  *source
	floor version // the version that the Copy must have reached
	moved int64   // the visible position, if the request has waited for it to move
}

// outcome is what the request log records about an answer.
type outcome struct {
	rows    int           // in the answer
	lacks   bool          // a later answer will have more, so this one is not cached
	broken  bool          // the answer was begun but could not be finished: problem says why
	problem *answer.Error // the error that was answered, or that broke the answer off; nil: none
}

// requestKey is the context key of the request.
type requestKey struct{}

// Value also finds the request itself and chi's routing context. A mux that finds a routing context
// does not make its own, which would copy the HTTP request once more.
func (q *request) Value(key any) any {
	switch key {
	case requestKey{}:
		return q
	case chi.RouteCtxKey:
		return q.routing
	}
	return q.Context.Value(key)
}

// requestOf returns the request that ServeHTTP set as r's context.
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

// requestID returns the caller's request id, or makes one. It does not accept an id that looks like
// a key or holds a part of the request's own key, because ids are logged.
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

// countRefusals makes the RateLimit headers show how many refused keys the address has left, as
// they do until the key is known.
func (q *request) countRefusals() {
	q.out.Policy, q.out.Allowance = answer.PolicyAddress, q.api.cfg.Limiter.Refusals(q.address)
}

// refuse answers with the problem for an error.
func (q *request) refuse(err error) {
	p := problemOf(err)
	q.problem = p
	if q.out.Policy == "" { // failed before anything was counted
		q.countRefusals()
	}
	q.out.Problem(p)
}

var errPanic = errors.New("panic while answering")

// answerPanic takes the result of recover at the end of a request. It logs a panic with its stack
// and answers 500. It passes http.ErrAbortHandler on.
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

// maxParams is the most parameters that an endpoint may have.
const maxParams = 12

// parsedParams holds the values of an endpoint's parameters, by their index in Params. Its methods
// accept the index -1 for a parameter that the endpoint lacks.
type parsedParams struct {
	given  uint // bit i: parameter i was given
	values [maxParams]string
}

func (p *parsedParams) has(i int) bool { return i >= 0 && p.given&(1<<i) != 0 }

// get returns a parameter's value, empty if it was not given.
func (p *parsedParams) get(i int) string {
	if !p.has(i) {
		return ""
	}
	return p.values[i]
}

// time returns a date-time parameter, the zero time if it was not given.
func (p *parsedParams) time(i int) time.Time {
	t, _ := domain.ParseTime(p.get(i))
	return t
}

// limit returns the page size.
func (p *parsedParams) limit(i int) int {
	if n, ok := route.ParseLimit(p.get(i)); ok {
		return n
	}
	return route.DefaultLimit
}

// parse reads the parameters of an endpoint from a query. It returns all faults, one for each
// parameter, in the order of the query (docs/contract/decisions.md, "Requests", 8), except those of
// cursors, which depend on all other parameters. It stops after answer.MaxParamErrors faults. noLimit
// is the fault of a limit; empty: the endpoint takes one.
func (p *parsedParams) parse(params []route.Param, query, noLimit string) []answer.ParamError {
	var errs []answer.ParamError
	for pair := range queryPairs(query) {
		if len(errs) == answer.MaxParamErrors {
			break
		}
		if !pair.decoded {
			errs = addUnknown(errs, pair.name, "cannot be decoded: want two hexadecimal digits after %")
			continue
		}
		i := slices.IndexFunc(params, func(p route.Param) bool { return p.Name == pair.name })
		switch {
		case i < 0:
			errs = addUnknown(errs, pair.name, unknownParam(params, noLimit == ""))
		case p.has(i):
			errs = addError(errs, pair.name, "is given more than once")
		default:
			p.given |= 1 << i
			p.values[i] = pair.value
			if noLimit != "" && params[i].Form == route.FormLimit {
				errs = addError(errs, pair.name, noLimit)
			} else if pair.value == "" {
				errs = addError(errs, pair.name, "must not be empty; leave it out instead")
			} else if fault := params[i].Fault(pair.value); fault != "" {
				errs = addError(errs, pair.name, fault)
			}
		}
	}
	return errs
}

func unknownParam(params []route.Param, limited bool) string {
	var names []string
	for i := range params {
		if limited || params[i].Form != route.FormLimit {
			names = append(names, params[i].Name)
		}
	}
	if len(names) == 0 {
		return "is not a parameter of this endpoint, which has none"
	}
	return "is not a parameter of this endpoint, which has " + strings.Join(names, ", ")
}

// addError adds a fault unless the parameter has one already or there are enough.
func addError(errs []answer.ParamError, field, message string) []answer.ParamError {
	if len(errs) == answer.MaxParamErrors || slices.ContainsFunc(errs, func(e answer.ParamError) bool { return e.Field == field }) {
		return errs
	}
	return append(errs, answer.ParamError{Field: field, Message: message})
}

// addUnknown is addError for a name that may be anything.
func addUnknown(errs []answer.ParamError, name, message string) []answer.ParamError {
	had := len(errs)
	if errs = addError(errs, name, message); len(errs) > had {
		errs[had].Unknown = true
	}
	return errs
}

// maxPrefer is the longest wait that a request may ask for, in seconds (docs/contract/decisions.md,
// "Waiting"). A longer one is cut to it.
const maxPrefer = 30

// preferredWait reads wait=N from Prefer (RFC 7240), in seconds; 0: there is none. Only the first
// one counts, and a malformed one is ignored, as the RFC demands.
func preferredWait(headers []string) int {
	for _, header := range headers {
		for preference := range strings.SplitSeq(header, ",") {
			preference, _, _ = strings.Cut(preference, ";") // without its parameters
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value = strings.TrimSpace(value)
			if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
				value = value[1 : len(value)-1]
			}
			seconds, ok := parsePosition(value)
			if !ok {
				return 0
			}
			return int(min(seconds, maxPrefer))
		}
	}
	return 0
}

// positionForm tells callers the form of Log-Position-At-Least.
const positionForm = "must be one position of the log: a whole number from 0 to 9223372036854775807, such as the Log-Position of an answer"

// requiredPosition reads Log-Position-At-Least; false: it is malformed or given more than once.
// Without the header the position is 0, which every answer reaches.
func requiredPosition(headers []string) (int64, bool) {
	switch len(headers) {
	case 0:
		return 0, true
	case 1:
		return parsePosition(headers[0])
	}
	return 0, false
}

// parsePosition reads a whole number of 0 or more: digits alone, without leading zeros.
func parsePosition(s string) (int64, bool) {
	if s == "" || len(s) > len(strconv.Itoa(math.MaxInt64)) || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// clientAddress returns the address that a request counts for: the peer's or, if the peer is a
// trusted proxy, the right-most address in X-Forwarded-For that is not one
// (docs/contract/decisions.md, "Requests", 3). The caller can make up the addresses to the left of
// it.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := peer.Addr().Unmap().WithZone("")
	if !isTrusted(address, trusted) {
		return address
	}
	forwarded := r.Header.Values("X-Forwarded-For")
	for i := len(forwarded) - 1; i >= 0; i-- {
		rest := forwarded[i]
		for rest != "" {
			last := strings.LastIndexByte(rest, ',')
			hop, ok := parseHop(rest[last+1:])
			rest = rest[:max(last, 0)]
			if !ok {
				return address // the last one that came from a trusted peer
			}
			address = hop
			if !isTrusted(address, trusted) {
				return address
			}
		}
	}
	return address
}

// parseHop reads one address of X-Forwarded-For, with or without a port.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if withPort, err := netip.ParseAddrPort(s); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	address, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return address.Unmap().WithZone(""), true
}

func isTrusted(address netip.Addr, trusted []netip.Prefix) bool {
	for _, p := range trusted {
		if p.Contains(address) {
			return true
		}
	}
	return false
}

// queryPair is one parameter of a query.
type queryPair struct {
	name, value string
	decoded     bool // false: it cannot be decoded, and name is as it came
}

// queryPairs splits a query. Unlike url.ParseQuery it leaves nothing out: it reports pairs that
// cannot be decoded, and a semicolon is an ordinary character.
func queryPairs(query string) iter.Seq[queryPair] {
	return func(yield func(queryPair) bool) {
		for part := range strings.SplitSeq(query, "&") {
			if part == "" {
				continue
			}
			rawName, rawValue, _ := strings.Cut(part, "=")
			name, err1 := url.QueryUnescape(rawName)
			value, err2 := url.QueryUnescape(rawValue)
			pair := queryPair{name: name, value: value, decoded: err1 == nil && err2 == nil}
			if !pair.decoded {
				pair.name = rawName
			}
			if !yield(pair) {
				return
			}
		}
	}
}
