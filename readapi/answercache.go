package readapi

import (
	"hash/maphash"
	"math"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

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
	index   int64  // answer.Writer.EventIndex
	next    string // nextCursor of the page
}

// size estimates the memory of a cache entry, in bytes.
func (c *cachedAnswer) size(key *cacheKey) int {
	const overhead = 320
	return len(c.body.Body) + len(c.next) + len(key.workspaceID) + len(key.path) + len(key.query) + overhead
}

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

const (
	// DefaultCacheBytes is the default memory for cached answers.
	DefaultCacheBytes = 32 << 20

	askedSlots = 4096
	// maxShare limits a cached answer to a 32nd of the cache.
	maxShare = 32
)
