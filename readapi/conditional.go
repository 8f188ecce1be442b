package readapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// tagger makes the tags in ETags. A tag identifies everything that an answer depends on: the
// version of its data, the URL, what the key may see, and how this program writes answers. It is a
// keyed hash, so it reveals nothing and cannot be forged.
type tagger struct {
	mac     *keyedHash
	program [sha256.Size]byte // identifies how this program writes answers
}

func newTagger(key, document []byte) *tagger {
	return &tagger{mac: newKeyedHash(deriveKey(key, "etag")), program: sha256.Sum256(document)}
}

// tagSize is the size of a tag in bytes: 120 bits, or 20 characters.
const tagSize = 15

// tag returns the tag of the answer to a request at a version. All encodings share it.
func (q *request) tag(v version) string {
	b := make([]byte, 0, 256)
	b = appendSized(b, q.key.WorkspaceID)
	b = appendSized(b, q.key.Permissions.String())
	b = appendSized(b, q.http.URL.EscapedPath())
	b = appendSized(b, q.http.URL.RawQuery)
	b = appendSized(b, v.name)
	if q.form != answer.JSON {
		b = appendSized(b, q.form.ContentType())
	}
	sum := q.api.tags.mac.sum(q.api.tags.program[:], b)
	return base64.RawURLEncoding.EncodeToString(sum[:tagSize])
}

// cacheKey returns the request's key in the cache.
func (q *request) cacheKey() cacheKey {
	return cacheKey{
		workspaceID: q.key.WorkspaceID, permissions: q.key.Permissions,
		path: q.http.URL.EscapedPath(), query: q.http.URL.RawQuery, preferred: q.out.Preferred(),
	}
}

// isCached reports whether the answer to a request is cached. Whole lists are not: they are large,
// and their readers decide when to read them.
func isCached(q *request) bool { return q.form == answer.JSON && q.endpoint.cacheable() }

// countCached counts the result of a cache lookup.
func (q *request) countCached(cached *cachedAnswer, current bool) {
	switch {
	case !isCached(q):
	case current:
		q.api.metrics.cached.WithLabelValues("current").Inc()
	case cached != nil:
		q.api.metrics.cached.WithLabelValues("outdated").Inc()
	default:
		q.api.metrics.cached.WithLabelValues("none").Inc()
	}
}

// answerUnchanged answers 304 if the caller already has the current answer, or 200 from the cache.
// Both need the workspace's version; a request that can use neither skips that query.
func (q *request) answerUnchanged() (done bool, err error) {
	if q.endpoint.version == nil {
		return false, nil
	}
	if q.endpoint.Kind == route.Checkpoint && q.wait.seconds > 0 {
		return false, nil // the request may have to wait
	}
	var cached *cachedAnswer
	if isCached(q) {
		cached = q.api.cache.get(q.cacheKey())
	}
	if q.wait.seconds > 0 && (cached == nil || cached.rows == 0) {
		return q.wait.resumes(q, cached) // there may be nothing to answer with yet
	}
	// Only ETags count here: "*" matches only if there is an answer.
	candidates := q.out.IfNoneMatch()
	if cached == nil && !strings.Contains(candidates, `"`) {
		q.countCached(nil, false)
		return false, nil
	}
	v, err := q.endpoint.version(q)
	if err != nil {
		return false, err
	}
	if err := reached(q, v); err != nil {
		return false, err
	}
	tag := q.tag(v)
	current := cached != nil && cached.version == v
	q.countCached(cached, current)
	// A current cached answer proves that the resource exists, so "*" matches.
	q.out.LogPosition = v.position
	if current || strings.Contains(candidates, tag) {
		if etag := q.out.Match(tag); etag != "" {
			q.out.NotModified(etag)
			return true, nil
		}
	}
	if !current {
		return false, nil
	}
	q.rows, q.out.EventIndex, q.out.Next = cached.rows, cached.index, q.nextAddress(cached.next)
	q.out.OK(cached.body, tag)
	return true, nil
}

// answerWith answers 200 with the body, or 304 if the caller already has this version. It sends
// nothing yet if the request should wait for a newer answer; see waiter.holds.
func (q *request) answerWith(body []byte, v version) error {
	q.api.waits.reads.share(q, body, v)
	if q.wait.holds(q, body, v) {
		// A credit is not cached here: resumes never uses one, and other requests get it
		// compressed.
		if q.endpoint.IsList() && q.endpoint.Kind != route.Credit {
			q.api.cache.put(q.cacheKey(), cachedAnswer{version: v, body: answer.Encoded{Encoding: answer.Identity, Body: body}, index: answer.NoIndex})
		}
		return nil
	}
	tag := q.tag(v)
	next := nextCursor(body)
	q.out.LogPosition, q.out.Next = v.position, q.nextAddress(next)
	if etag := q.out.Match(tag); etag != "" {
		q.out.NotModified(etag)
		return nil
	}
	buffer := q.api.answers.Buffer()
	defer q.api.answers.Release(buffer)
	encoded := answer.Encoded{Encoding: answer.Identity, Body: body}
	if q.endpoint.Kind != route.Tile { // hashes cannot be compressed
		encoded = q.out.Encode(buffer, body)
	}
	if isCached(q) && !q.lacks {
		q.api.cache.put(q.cacheKey(), cachedAnswer{version: v, body: encoded, rows: q.rows, index: q.out.EventIndex, next: next})
	}
	q.out.OK(encoded, tag)
	return nil
}

// nextCursor returns the cursor at the end of a page that has more; empty: the body is no such page.
func nextCursor(body []byte) string {
	const more = `"has_more":true,"next_cursor":"`
	rest, ok := bytes.CutSuffix(body, []byte(`"}`))
	if !ok {
		return ""
	}
	// A cursor has no quotation marks, so its first one is the one before the last.
	begin := bytes.LastIndexByte(rest, '"') + 1
	if !bytes.HasSuffix(rest[:begin], []byte(more)) {
		return ""
	}
	return string(rest[begin:])
}

// nextAddress returns the absolute address of the page at a cursor, with the request's other parameters
// as they came (docs/contract/decisions.md, "Responses": lists); empty without a cursor.
func (q *request) nextAddress(cursor string) string {
	if cursor == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString(q.api.cfg.BaseURL + q.http.URL.EscapedPath() + "?")
	for part := range strings.SplitSeq(q.http.URL.RawQuery, "&") {
		name, _, _ := strings.Cut(part, "=")
		if decoded, err := url.QueryUnescape(name); part != "" && (err != nil || decoded != "cursor") {
			b.WriteString(part + "&")
		}
	}
	return b.String() + "cursor=" + cursor
}
