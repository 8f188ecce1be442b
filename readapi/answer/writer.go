package answer

import (
	"bytes"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Writer writes the answer to one request. It belongs to the request's goroutine.
type Writer struct {
	renderer  *Renderer
	w         http.ResponseWriter
	request   *http.Request
	requestID string
	encodings []Encoding // the result of accepted; nil until needed

	// Policy and Allowance are what the RateLimit headers say. Both must be set
	// before anything is written.
	Policy    Policy
	Allowance access.Allowance

	// LogPosition is the visible position of the data in a 200 or 304. Below 0, the initial value:
	// the answer is not about a workspace's data.
	LogPosition int64

	// Applied is the value of Preference-Applied in a 200 or 304 (RFC 7240); empty: no such header.
	Applied string

	// Begins is called, once or more, before anything is sent. It releases what the request holds
	// while it waits, so that a slow reader does not keep it. Nil: nothing is called.
	Begins func()

	// Forms says that the answer also depends on Accept. ByKey says that the answer may be cached
	// although it depends on the key. Immutable says that the answer never changes.
	Forms, ByKey, Immutable bool

	// Media is the media type of a 200; empty: JSON.
	Media string

	// EventIndex is the index of a page's first event in the tree that the key sees. NoIndex, the
	// initial value: the answer does not tell it.
	EventIndex int64

	// Next is the absolute address of the next page (RFC 8288, relation next); empty: there is none.
	Next string

	// What was written, for the request log.
	Status int   // 0: nothing yet
	Bytes  int   // of the body
	Err    error // the error of writing the body: the caller has gone
}

// NoIndex is the EventIndex of an answer without an index.
const NoIndex = -1

// Encoded is a body in an encoding.
type Encoded struct {
	Encoding Encoding
	Body     []byte
}

// Renderer holds what all answers of an API share.
type Renderer struct {
	docsURL string
	logger  *slog.Logger
	codecs  *codecs
	fixed   fixedValues
	buffers sync.Pool // of *bytes.Buffer
}

// Writer makes the Writer of the answer to a request.
func (r *Renderer) Writer(w http.ResponseWriter, request *http.Request, requestID string) Writer {
	return Writer{renderer: r, w: w, request: request, requestID: requestID, LogPosition: -1, EventIndex: NoIndex}
}

// accepted returns the encodings that the caller accepts, best first.
func (w *Writer) accepted() []Encoding {
	if w.encodings == nil {
		w.encodings = acceptedEncodings(w.request.Header.Values("Accept-Encoding"))
	}
	return w.encodings
}

// Preferred returns the encoding that the caller likes best. Small bodies are never compressed.
func (w *Writer) Preferred() Encoding { return w.accepted()[0] }

// Encode compresses a body into buffer, if the caller accepts that and the body is
// large enough; otherwise the result is the body itself.
func (w *Writer) Encode(buffer *bytes.Buffer, body []byte) Encoded {
	best := w.Preferred()
	if best == Identity || len(body) <= compressAbove {
		return Encoded{Identity, body}
	}
	if err := w.renderer.codecs.compress(buffer, best, body); err != nil {
		w.renderer.logger.LogAttrs(w.request.Context(), slog.LevelError, "cannot compress an answer; it is sent uncompressed",
			slog.String("request_id", w.requestID), slog.Any("error", err))
		return Encoded{Identity, body}
	}
	return Encoded{best, buffer.Bytes()}
}

// Match returns the ETag of the tagged answer that If-None-Match names: uncompressed, or in an
// encoding that the caller accepts. Empty: it names none.
func (w *Writer) Match(tag string) string {
	candidates := w.IfNoneMatch()
	if candidates == "" {
		return ""
	}
	for _, e := range w.accepted() {
		if current := etag(tag, e); matches(candidates, current) {
			return current
		}
	}
	return ""
}

// IfNoneMatch returns the request's If-None-Match headers as one list.
func (w *Writer) IfNoneMatch() string {
	return strings.Join(w.request.Header.Values("If-None-Match"), ",")
}

// OK answers 200 with a body. The tag identifies the body in every encoding.
func (w *Writer) OK(body Encoded, tag string) {
	media := w.renderer.fixed.typeJSON
	if w.Media != "" {
		media = []string{w.Media}
	}
	if w.Next != "" {
		w.w.Header()[HeaderLink] = []string{"<" + w.Next + `>; rel="next"`}
	}
	if w.EventIndex != NoIndex {
		w.w.Header()[HeaderEventIndex] = []string{strconv.FormatInt(w.EventIndex, 10)}
	}
	w.ok(media, body, tag)
}

// caching returns the Cache-Control of an answer that has an ETag.
func (w *Writer) caching() []string {
	if w.Immutable {
		return w.renderer.fixed.cacheImmutable
	}
	return w.renderer.fixed.cacheRevalidate
}

func (w *Writer) ok(contentType []string, body Encoded, tag string) {
	h := w.setCommon()
	w.setOfData(h)
	h[HeaderCacheControl] = w.caching()
	h[HeaderETag] = []string{etag(tag, body.Encoding)}
	w.send(http.StatusOK, contentType, body)
}

// NotModified answers 304; the ETag is one that Match returned.
func (w *Writer) NotModified(etag string) {
	h := w.setCommon()
	w.setOfData(h)
	h[HeaderETag] = []string{etag}
	h[HeaderCacheControl] = w.caching()
	h[HeaderVary] = w.vary()
	w.Status = http.StatusNotModified
	w.w.WriteHeader(http.StatusNotModified)
}

// Methods answers OPTIONS with 204 and the methods of every path.
func (w *Writer) Methods() {
	h := w.setCommon()
	h[HeaderAllow] = w.renderer.fixed.allow
	h[HeaderCacheControl] = w.renderer.fixed.cacheNever
	w.Status = http.StatusNoContent
	w.w.WriteHeader(http.StatusNoContent)
}

// Problem answers with a problem document.
func (w *Writer) Problem(p *Error) {
	body, err := p.document(w.renderer.docsURL, w.requestID)
	if err != nil {
		w.renderer.logger.ErrorContext(w.request.Context(), "cannot write a problem document; the answer has no body",
			"request_id", w.requestID, "error", err)
	}
	h := w.setCommon()
	h[HeaderCacheControl] = w.renderer.fixed.cacheNever
	switch p.Status {
	case http.StatusMethodNotAllowed:
		h[HeaderAllow] = w.renderer.fixed.allow
	case http.StatusUnauthorized:
		h[HeaderChallenge] = w.renderer.fixed.challenge
	}
	if p.RetryAfter > 0 {
		h[HeaderRetryAfter] = []string{strconv.Itoa(p.RetryAfter)}
	}
	buffer := w.renderer.Buffer()
	defer w.renderer.Release(buffer)
	w.send(p.Status, w.renderer.fixed.typeProblem, w.Encode(buffer, body))
}

// Begin calls Begins, if it is set. Every answer calls Begin itself.
func (w *Writer) Begin() {
	if w.Begins != nil {
		w.Begins()
	}
}

// setCommon sets the headers that every answer has.
func (w *Writer) setCommon() http.Header {
	w.Begin()
	var (
		h         = w.w.Header()
		policy    = string(w.Policy)
		perMinute = strconv.Itoa(w.Allowance.Limit)
		remaining = strconv.Itoa(w.Allowance.Remaining)
		reset     = strconv.Itoa(w.Allowance.Reset)
	)
	// One array for all values: a []string for each would be an allocation.
	values := [...]string{
		w.requestID, perMinute, remaining, reset,
		`"` + policy + `";q=` + perMinute + `;w=60`,
		`"` + policy + `";r=` + remaining + `;t=` + reset,
	}
	for i, name := range [...]string{HeaderRequestID, HeaderLimit, HeaderRemaining, HeaderReset, HeaderPolicy, HeaderRate} {
		h[name] = values[i : i+1 : i+1]
	}
	h[HeaderNoSniff] = w.renderer.fixed.noSniff
	return h
}

// setOfData sets the headers of answers about a workspace's data.
func (w *Writer) setOfData(h http.Header) {
	if w.LogPosition >= 0 {
		h[HeaderLogPosition] = []string{strconv.FormatInt(w.LogPosition, 10)}
	}
	if w.Applied != "" {
		h[HeaderApplied] = []string{w.Applied}
	}
}

// Extend gives the request another d to be answered and sent, whatever the server's timeouts are.
// If the server has no deadlines, it does nothing.
func (w *Writer) Extend(d time.Duration) {
	c := http.NewResponseController(w.w)
	// The server reads the connection while the request is in flight, to notice that the caller has
	// gone. The read timeout would end that.
	_ = c.SetReadDeadline(time.Time{})
	_ = c.SetWriteDeadline(time.Now().Add(d))
}

// vary returns the names of the request headers that the answer depends on.
func (w *Writer) vary() []string {
	switch {
	case w.Forms:
		return w.renderer.fixed.varyForm
	case w.ByKey:
		return w.renderer.fixed.varyKey
	}
	return w.renderer.fixed.varyEncoding
}

// send writes an answer, for HEAD without the body.
func (w *Writer) send(status int, contentType []string, body Encoded) {
	h := w.w.Header()
	h[HeaderContentType] = contentType
	h[HeaderVary] = w.vary()
	if body.Encoding != Identity {
		h[HeaderContentEncoding] = []string{body.Encoding.name()}
	}
	h[HeaderContentLength] = []string{strconv.Itoa(len(body.Body))}
	w.Status = status
	w.w.WriteHeader(status)
	if w.request.Method == http.MethodHead {
		return
	}
	w.Bytes, w.Err = w.w.Write(body.Body)
}

// NewRenderer makes a Renderer. The addresses of problem types begin with docsURL.
func NewRenderer(docsURL string, logger *slog.Logger) (*Renderer, error) {
	codecs, err := newCodecs()
	if err != nil {
		return nil, err
	}
	return &Renderer{docsURL: docsURL, logger: logger, codecs: codecs, fixed: newFixedValues()}, nil
}

// maxBuffer is the largest capacity of a buffer that is used again, in bytes.
const maxBuffer = 1 << 20

// Buffer returns an empty buffer for a body.
func (r *Renderer) Buffer() *bytes.Buffer {
	b, ok := r.buffers.Get().(*bytes.Buffer)
	if !ok {
		return new(bytes.Buffer)
	}
	b.Reset()
	return b
}

// Release takes back a buffer. Nothing may refer to its bytes any more.
func (r *Renderer) Release(b *bytes.Buffer) {
	if b.Cap() <= maxBuffer {
		r.buffers.Put(b)
	}
}

// Names of headers as they are written. They are set under exactly these names,
// because the canonical ones would be Etag and Ratelimit-Limit on the wire.
const (
	HeaderAllow           = "Allow"
	HeaderCacheControl    = "Cache-Control"
	HeaderChallenge       = "WWW-Authenticate"
	HeaderContentEncoding = "Content-Encoding"
	HeaderContentLength   = "Content-Length"
	HeaderContentType     = "Content-Type"
	HeaderDisposition     = "Content-Disposition"
	HeaderETag            = "ETag"
	HeaderEventIndex      = "Event-Index"
	HeaderLink            = "Link"
	HeaderLimit           = "RateLimit-Limit"
	HeaderLocation        = "Location"
	HeaderLogPosition     = "Log-Position"
	HeaderAtLeast         = "Log-Position-At-Least" // request header
	HeaderApplied         = "Preference-Applied"
	HeaderPrefer          = "Prefer" // request header
	HeaderNextCursor      = "Next-Cursor"
	HeaderNoSniff         = "X-Content-Type-Options"
	HeaderPolicy          = "RateLimit-Policy"
	HeaderPolicyOfContent = "Content-Security-Policy"
	HeaderRate            = "RateLimit"
	HeaderRemaining       = "RateLimit-Remaining"
	HeaderRequestID       = "X-Request-Id"
	HeaderReset           = "RateLimit-Reset"
	HeaderRetryAfter      = "Retry-After"
	HeaderTrailer         = "Trailer"
	HeaderVary            = "Vary"
)

// Values of headers that never change.
const (
	AllowedMethods  = "GET, HEAD, OPTIONS"                   // Allow
	CacheRevalidate = "private, no-cache"                    // Cache-Control with an ETag
	CacheImmutable  = "private, max-age=31536000, immutable" // Cache-Control of answers that never change
	CacheNever      = "private, no-store"                    // Cache-Control of all other answers
	Challenge       = "Bearer"                               // WWW-Authenticate
	NoSniff         = "nosniff"                              // X-Content-Type-Options
	VaryEncoding    = "Accept-Encoding"                      // Vary
	VaryForm        = "Accept, Accept-Encoding"              // Vary of lists of rows
	VaryKey         = "Authorization, Accept-Encoding"       // Vary of answers that may be cached although they depend on the key
)

// Policy is what the RateLimit headers of an answer count, as the IETF draft names
// it.
type Policy string

// The policies.
const (
	PolicyKey     Policy = "key"          // requests of the key
	PolicyAddress Policy = "refused-keys" // refused keys of the address
)

// fixedValues are header values as net/http takes them, made once and only read.
type fixedValues struct {
	allow, cacheRevalidate, cacheImmutable, cacheNever, challenge, noSniff, typeJSON, typeProblem, varyEncoding, varyForm, varyKey, trailer []string
}

func newFixedValues() fixedValues {
	return fixedValues{
		allow:           []string{AllowedMethods},
		cacheRevalidate: []string{CacheRevalidate},
		cacheImmutable:  []string{CacheImmutable},
		cacheNever:      []string{CacheNever},
		challenge:       []string{Challenge},
		noSniff:         []string{NoSniff},
		typeJSON:        []string{"application/json"},
		typeProblem:     []string{"application/problem+json"},
		varyEncoding:    []string{VaryEncoding},
		varyForm:        []string{VaryForm},
		varyKey:         []string{VaryKey},
		trailer:         []string{HeaderNextCursor},
	}
}

// etag returns the strong ETag of a representation: each encoding of an answer has its own.
func etag(tag string, e Encoding) string {
	if e == Identity {
		return `"` + tag + `"`
	}
	return `"` + tag + "-" + e.name() + `"`
}

// matches reports whether list, which is * or a list of ETags, has current. It compares weakly, as
// If-None-Match requires.
func matches(list, current string) bool {
	for list = strings.TrimLeft(list, " \t,"); list != ""; list = strings.TrimLeft(list, " \t,") {
		if list[0] == '*' {
			return true
		}
		list = strings.TrimPrefix(list, "W/")
		if list == "" || list[0] != '"' {
			return false // not a list of ETags
		}
		end := strings.IndexByte(list[1:], '"')
		if end < 0 {
			return false
		}
		if list[:end+2] == current {
			return true
		}
		list = list[end+2:]
	}
	return false
}
