package readapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/batch"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
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

// answerRequest answers a request that passed all checks, if possible without reading the data.
func answerRequest(q *request) error {
	err := readFrom(q, func(q *request) error {
		done, err := q.answerUnchanged()
		if !done && err == nil {
			err = answerForm(q)
		}
		return err
	})
	if errors.Is(err, errBehind) {
		q.wait.behind = true
		return nil
	}
	return err
}

// answerForm answers in the form that the request asks for.
func answerForm(q *request) error {
	if q.form != answer.JSON {
		return answerWhole(q)
	}
	return q.endpoint.answer(q)
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
	q.rows, q.out.EventIndex = cached.rows, cached.index
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
	q.out.LogPosition = v.position
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
		q.api.cache.put(q.cacheKey(), cachedAnswer{version: v, body: encoded, rows: q.rows, index: q.out.EventIndex})
	}
	q.out.OK(encoded, tag)
	return nil
}

// version is the state of the data in an answer.
type version struct {
	name string // changes when the answer does

	// position is the visible position of the data (docs/contract/decisions.md, "Positions"). Below
	// 0: the answer is not about a workspace's data.
	position int64

	moved int64 // when position was reached, in Unix microseconds; 0: unknown
}

// olderThan reports whether v is older than other. A repair makes rows newer at the same position.
func (v version) olderThan(other version) bool {
	return v.position < other.position || v.position == other.position && v.moved > 0 && v.moved < other.moved
}

// raise sets v to the newer of v and other.
func (v *version) raise(other version) {
	if other.position > v.position || other.position == v.position && other.moved > v.moved {
		*v = other
	}
}

// noPosition is the position of answers that are not about a workspace's data.
const noPosition = -1

// formatRowsVersion makes the version of a workspace's read tables from the visible position and
// the time it moved. The time tells apart the rows before and after a repair at the same position.
func formatRowsVersion(position int64, movedAt string) version {
	moved, _ := strconv.ParseInt(movedAt, 10, 64) // never fails: movedAt is a formatted number
	return version{strconv.FormatInt(position, 10) + "." + movedAt, position, moved}
}

// formatFeedVersion makes the version of a workspace's feed from the version of its rows and the
// first position that is still within its retention.
func formatFeedVersion(rows version, kept int64) version {
	return version{rows.name + "." + strconv.FormatInt(kept, 10), rows.position, rows.moved}
}

// versionQuery asks for the version of a workspace's rows.
type versionQuery struct {
	workspaceID string

	version version
	err     error
}

var errNoVersionRow = errors.New("the workspace has no checkpoint")

// newVersionReader makes a coalescer that reads the versions of workspaces.
func newVersionReader(pool pg.DB, timeout time.Duration) *batch.Coalescer[*versionQuery] {
	return newCoalescer(pool, timeout, func(ctx context.Context, queries []*versionQuery) {
		asked := map[string]struct{}{} // several queries may name the same workspace
		for _, q := range queries {
			asked[q.workspaceID] = struct{}{}
		}
		found, err := readVersions(ctx, pool, slices.Collect(maps.Keys(asked)))
		for _, q := range queries {
			q.version, q.err = found[q.workspaceID], err
			if err == nil && q.version.name == "" {
				q.err = fmt.Errorf("read the version of workspace %s: %w", q.workspaceID, errNoVersionRow)
			}
		}
	})
}

// readPositions returns the visible position of each workspace that has one.
func readPositions(ctx context.Context, pool pg.DB, workspaceIDs []string) (map[string]int64, error) {
	found, err := readVersions(ctx, pool, workspaceIDs)
	positions := make(map[string]int64, len(found))
	for id, v := range found {
		positions[id] = v.position
	}
	return positions, err
}

// versionOf returns the statement that selects the versions of workspaces that meet a condition.
func versionOf(condition string) string {
	return `
		SELECT workspace_id, position, coalesce((extract(epoch FROM moved_at) * 1000000)::bigint, 0)::text
		  FROM log_checkpoint WHERE workspace_id ` + condition + ` AND consumer = '` + eventlog.ReadModels + `'`
}

// readVersions returns the version of each workspace that has one.
func readVersions(ctx context.Context, pool pg.DB, workspaceIDs []string) (map[string]version, error) {
	found := make(map[string]version, len(workspaceIDs))
	if err := scanVersions(found)(pool.Query(ctx, versionOf("= ANY ($1)"), workspaceIDs)); err != nil {
		return nil, err
	}
	return found, nil
}

// scanVersions returns a function that puts the rows of versionOf into found.
func scanVersions(found map[string]version) func(pgx.Rows, error) error {
	return func(rows pgx.Rows, err error) error {
		var (
			id, movedAt string
			position    int64
		)
		if err == nil {
			_, err = pgx.ForEachRow(rows, []any{&id, &position, &movedAt}, func() error {
				found[id] = formatRowsVersion(position, movedAt)
				return nil
			})
		}
		if err != nil {
			return fmt.Errorf("read the versions of workspaces: %w", err)
		}
		return nil
	}
}

// rowsVersion returns the version for endpoints that show rows of read tables.
func rowsVersion(q *request) (version, error) {
	query := &versionQuery{workspaceID: q.key.WorkspaceID}
	if err := q.from.versions.Do(q, query); err != nil {
		return version{}, fmt.Errorf("read the version of a workspace: %w", err)
	}
	return query.version, query.err
}

// feedVersion returns the version of the list of events.
func feedVersion(q *request) (version, error) {
	rows, err := rowsVersion(q)
	if err != nil {
		return version{}, err
	}
	// It is safe to read this after the version: where the feed begins depends only on the clock
	// and on entries that have long been in the log.
	kept, err := q.from.feed.KeptFrom(q, q.key.WorkspaceID, q.oldestKept())
	if err != nil {
		return version{}, err
	}
	return formatFeedVersion(rows, kept), nil
}

// oldestKept returns the publish time before which events can no longer be read.
func (q *request) oldestKept() time.Time { return q.asOf.Add(-q.api.cfg.Retention) }

// documentVersion returns a constant version: every tag already depends on the OpenAPI document.
func documentVersion(*request) (version, error) {
	return version{name: "document", position: noPosition}, nil
}

// answerCache holds answers as they were sent, each with its version. It saves reading, rendering
// and compressing the rows. A cached answer is used only if the workspace's version, read after the
// request arrived, is still the same, so no caller gets a stale answer.
//
// Its memory is bounded in bytes; the least recently used answer is evicted first. An answer is
// cached the second time it is requested, so reading through a long list costs nothing and evicts
// nothing.
type answerCache struct {
	maxSize int

	mu      sync.Mutex
	answers *simplelru.LRU[cacheKey, *cachedAnswer]
	size    int // of answers, in bytes
	seed    maphash.Seed
	asked   [askedSlots]uint64 // hashes of the keys of answers that were requested once
}

// cacheKey identifies a request: everything that its answer depends on, except the version.
type cacheKey struct {
	workspaceID string
	permissions access.Permissions
	path, query string
	preferred   answer.Encoding
}

// cachedAnswer is an answer in the cache. It never changes.
type cachedAnswer struct {
	version version
	body    answer.Encoded
	rows    int
	index   int64 // answer.Writer.EventIndex
}

// size estimates the memory of a cache entry, in bytes.
func (c *cachedAnswer) size(key *cacheKey) int {
	const overhead = 320
	return len(c.body.Body) + len(key.workspaceID) + len(key.path) + len(key.query) + overhead
}

const (
	// DefaultCacheBytes is the default memory for cached answers.
	DefaultCacheBytes = 32 << 20

	askedSlots = 4096
	// maxShare limits a cached answer to a 32nd of the cache.
	maxShare = 32
)

func newAnswerCache(maxSize int) *answerCache {
	c := &answerCache{maxSize: maxSize, seed: maphash.MakeSeed()}
	evicted := func(key cacheKey, a *cachedAnswer) { c.size -= a.size(&key) }
	c.answers, _ = simplelru.NewLRU(math.MaxInt, evicted) // fails only for sizes below 1
	return c
}

// get returns the cached answer to a request, whatever its version; nil: there is none.
func (c *answerCache) get(key cacheKey) *cachedAnswer {
	c.mu.Lock()
	defer c.mu.Unlock()
	cached, _ := c.answers.Get(key)
	return cached
}

// put caches an answer if it was asked for before. The body is copied.
func (c *answerCache) put(key cacheKey, a cachedAnswer) {
	if len(a.body.Body) > c.maxSize/maxShare {
		return
	}
	hash := maphash.Comparable(c.seed, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot := &c.asked[hash%askedSlots]; *slot != hash {
		*slot = hash
		return
	}
	a.body.Body = append(make([]byte, 0, len(a.body.Body)), a.body.Body...)
	// Path and query share memory with the whole request line and would keep it alive.
	key.path, key.query = strings.Clone(key.path), strings.Clone(key.query)
	c.answers.Remove(key)
	c.answers.Add(key, &a)
	for c.size += a.size(&key); c.size > c.maxSize; {
		c.answers.RemoveOldest()
	}
}
