package readapi

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// Headers of answers, as they are written. They are set under these very
// names: canonical ones would be Etag and Ratelimit-Limit on the wire.
const (
	headerAllow           = "Allow"
	headerCacheControl    = "Cache-Control"
	headerChallenge       = "WWW-Authenticate"
	headerContentEncoding = "Content-Encoding"
	headerContentLength   = "Content-Length"
	headerContentType     = "Content-Type"
	headerETag            = "ETag"
	headerLimit           = "RateLimit-Limit"
	headerNoSniff         = "X-Content-Type-Options"
	headerPolicy          = "RateLimit-Policy"
	headerRate            = "RateLimit"
	headerRemaining       = "RateLimit-Remaining"
	headerRequestID       = "X-Request-Id"
	headerReset           = "RateLimit-Reset"
	headerRetryAfter      = "Retry-After"
	headerVary            = "Vary"
)

// Header values that never change.
//
//nolint:gochecknoglobals // constants; the server only reads them
var (
	cachePrivate = []string{"private, no-cache"}
	cacheNever   = []string{"private, no-store"}
	noSniff      = []string{"nosniff"}
	typeJSON     = []string{"application/json"}
	typeProblem  = []string{"application/problem+json"}
	varyEncoding = []string{"Accept-Encoding"}
	allowAll     = []string{allowed}
	challenge    = []string{"Bearer"}
)

// Names of what the RateLimit headers of the IETF draft count.
const (
	policyKey     = "key"
	policyAddress = "refused-keys"
)

// commonHeaders sets what every answer has (docs/contract/decisions.md, "Requests").
func (c *call) commonHeaders() http.Header {
	h := c.w.Header()
	limit, remaining, reset := strconv.Itoa(c.allowance.Limit), strconv.Itoa(c.allowance.Remaining), strconv.Itoa(c.allowance.Reset)
	h[headerRequestID] = []string{c.requestID}
	h[headerLimit] = []string{limit}
	h[headerRemaining] = []string{remaining}
	h[headerReset] = []string{reset}
	h[headerPolicy] = []string{`"` + c.policy + `";q=` + limit + `;w=60`}
	h[headerRate] = []string{`"` + c.policy + `";r=` + remaining + `;t=` + reset}
	h[headerNoSniff] = noSniff
	return h
}

// scratch are buffers for compressed bodies and pages.
//
//nolint:gochecknoglobals // a pool of memory, not state
var scratch = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keepScratch is the size up to which a buffer is kept for another request.
const keepScratch = 1 << 20

func getScratch() *bytes.Buffer {
	b, ok := scratch.Get().(*bytes.Buffer)
	if !ok {
		return new(bytes.Buffer)
	}
	b.Reset()
	return b
}

func putScratch(b *bytes.Buffer) {
	if b.Cap() <= keepScratch {
		scratch.Put(b)
	}
}

// write answers 200 with a JSON body of a version, or 304 where the caller has
// it.
func (c *call) write(body []byte, version string) {
	tag := c.tag(version)
	if match := c.matching(tag, strings.Join(c.r.Header.Values("If-None-Match"), ",")); match != "" {
		c.writeNotModified(match)
		return
	}
	small := getScratch()
	defer putScratch(small)
	used, packed := c.pack(small, body)
	if c.route.worthKeeping() {
		c.api.pages.offer(c.pageKey(), keptPage{version: version, used: used, body: packed, rows: c.rows})
	}
	c.writeTagged(packed, used, tag)
}

// writeKept answers with what was kept.
func (c *call) writeKept(p *keptPage, tag string) {
	c.writeTagged(p.body, p.used, tag)
}

func (c *call) writeTagged(packed []byte, used encoding, tag string) {
	h := c.commonHeaders()
	h[headerCacheControl] = cachePrivate
	h[headerETag] = []string{etag(tag, used)}
	c.send(http.StatusOK, typeJSON, packed, used)
}

// refuse answers with a problem document.
func (c *call) refuse(p *problem) {
	c.refusal, c.cause = p.refusal, p.cause
	if c.policy == "" { // failed before anything was counted
		c.countAddress()
	}
	body, err := c.appendProblem(p)
	if err != nil {
		c.api.cfg.Logger.ErrorContext(c.ctx, "an answer could not be written", "request_id", c.requestID, "error", err)
	}
	h := c.commonHeaders()
	h[headerCacheControl] = cacheNever
	if p.allow {
		h[headerAllow] = allowAll
	}
	if p.challenge {
		h[headerChallenge] = challenge
	}
	if p.retryAfter > 0 {
		h[headerRetryAfter] = []string{strconv.Itoa(p.retryAfter)}
	}
	small := getScratch()
	defer putScratch(small)
	used, packed := c.pack(small, body)
	c.send(p.status, typeProblem, packed, used)
}

// pack compresses a body where that serves, into small.
func (c *call) pack(small *bytes.Buffer, body []byte) (encoding, []byte) {
	best := c.accepted()[0]
	if best == identity || len(body) <= compressAbove {
		return identity, body
	}
	if err := c.api.codecs.compress(small, best, body); err != nil {
		c.api.cfg.Logger.LogAttrs(c.ctx, slog.LevelError, "an answer could not be compressed", slog.Any("error", err))
		return identity, body
	}
	return best, small.Bytes()
}

// send writes an answer, without the body for HEAD.
func (c *call) send(status int, contentType []string, packed []byte, used encoding) {
	h := c.w.Header()
	h[headerContentType] = contentType
	h[headerVary] = varyEncoding
	if used != identity {
		h[headerContentEncoding] = []string{used.name()}
	}
	h[headerContentLength] = []string{strconv.Itoa(len(packed))}
	c.status = status
	c.w.WriteHeader(status)
	if c.r.Method == http.MethodHead {
		return
	}
	n, err := c.w.Write(packed)
	c.bytes = n
	if err != nil && c.cause == nil {
		c.cause = err // the caller has gone
	}
}

// writeOptions answers OPTIONS.
func (c *call) writeOptions() {
	h := c.commonHeaders()
	h[headerAllow] = allowAll
	h[headerCacheControl] = cacheNever
	c.status = http.StatusNoContent
	c.w.WriteHeader(http.StatusNoContent)
}

// gone reports whether the caller no longer waits for an answer.
func (c *call) gone() bool { return c.r.Context().Err() == context.Canceled }
