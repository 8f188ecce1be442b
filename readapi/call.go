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

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/limit"
)

// call is one request on its way through the checks to its answer.
type call struct {
	api       *API
	w         http.ResponseWriter
	r         *http.Request
	ctx       context.Context //nolint:containedctx // a call lives as long as its request
	began     time.Time
	requestID string
	address   netip.Addr

	allowance limit.Allowance // what the RateLimit headers say
	policy    string          // whose: of the key or of the address

	key   *access.Key // nil until the key is checked
	route *route      // nil until the route is found
	id    string      // what {id} of the path stands for
	given given
	sight sight

	encodings []encoding // of accepted; nil until it is asked

	rows    int // of the answer, for the log
	status  int
	bytes   int
	refusal Refusal
	cause   error // an inner error, for the log
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), a.cfg.Timeout)
	defer cancel()
	c := &call{
		api: a, w: w, r: r, ctx: ctx,
		began:   a.cfg.Clock(),
		address: addressOf(r, a.cfg.TrustedProxies),
	}
	c.requestID = c.chooseRequestID()
	defer a.record(c)
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		if fault == http.ErrAbortHandler { //nolint:errorlint,err113 // compared as net/http does
			panic(fault)
		}
		a.cfg.Logger.ErrorContext(ctx, "a request caused a panic",
			"request_id", c.requestID, "panic", fault, "stack", string(debug.Stack()))
		if c.status == 0 {
			c.refuse(internal(errPanic))
		}
	}()
	if err := c.run(); err != nil {
		c.refuse(problemOf(err))
	}
}

var errPanic = errors.New("panic while answering")

// chooseRequestID takes over the caller's id, or makes one. An id in the form of
// a key is not taken over: ids are logged.
func (c *call) chooseRequestID() string {
	if ids := c.r.Header.Values("X-Request-Id"); len(ids) == 1 && isRequestID(ids[0]) && !c.api.keys.inText(ids[0]) {
		return ids[0]
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return "req_" + hex.EncodeToString(random[:])
}

// isRequestID follows docs/contract/decisions.md, "Requests": 1 to 64 of [A-Za-z0-9._-].
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
