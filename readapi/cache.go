package readapi

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// answerCache holds answers as they were sent, each with the version of what it
// shows. It saves reading and rendering the rows and compressing them. A cached
// answer is used only if the workspace's version, read after the request came, is
// still the same, so no caller gets one that is out of date.
//
// Its memory is bounded in bytes: two generations of half the size each; when the
// new one is full, it becomes the old one, and the old one is dropped. An answer is
// cached the second time that it is asked for, so that reading through a long list
// costs nothing and evicts nothing.
type answerCache struct {
	half int // bytes of a generation

	mu      sync.Mutex
	newer   map[cacheKey]*cachedAnswer
	older   map[cacheKey]*cachedAnswer
	size    int // of newer, in bytes
	seed    maphash.Seed
	askedAt [askedSlots]uint64 // hashes of answers that were asked for once
}

// cacheKey is a request: everything that its answer depends on except the version.
type cacheKey struct {
	workspaceID string
	permissions access.Permissions
	path, query string
	preferred   answer.Encoding
}

// cachedAnswer is never changed.
type cachedAnswer struct {
	version string
	body    answer.Encoded
	rows    int
}

// size is about what an entry takes, in bytes.
func (c *cachedAnswer) size(key *cacheKey) int {
	const overhead = 320
	return len(c.body.Body) + len(key.workspaceID) + len(key.path) + len(key.query) + overhead
}

const (
	// DefaultCacheBytes is the memory that cached answers may take.
	DefaultCacheBytes = 32 << 20

	askedSlots = 4096
	// maxShare is the share of a generation that one answer may take: a 16th.
	maxShare = 16
)

func newAnswerCache(bytes int) *answerCache {
	return &answerCache{half: bytes / 2, newer: map[cacheKey]*cachedAnswer{}, seed: maphash.MakeSeed()}
}

// get returns the cached answer to a request, of whatever version, or nil.
func (c *answerCache) get(key cacheKey) *cachedAnswer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cached := c.newer[key]; cached != nil {
		return cached
	}
	cached := c.older[key]
	if cached != nil { // still in use
		delete(c.older, key)
		c.add(key, cached)
	}
	return cached
}

// put caches an answer if it was asked for before. The body is copied.
func (c *answerCache) put(key cacheKey, a cachedAnswer) {
	if len(a.body.Body) > c.half/maxShare {
		return
	}
	hash := maphash.Comparable(c.seed, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot := &c.askedAt[hash%askedSlots]; *slot != hash {
		*slot = hash
		return
	}
	a.body.Body = append(make([]byte, 0, len(a.body.Body)), a.body.Body...)
	c.add(key, &a)
}

// add puts an answer into the new generation. The caller holds mu.
func (c *answerCache) add(key cacheKey, a *cachedAnswer) {
	if before := c.newer[key]; before != nil {
		c.size -= before.size(&key)
	}
	// Path and query are parts of the request's first line and would keep all of
	// it in memory.
	key.path, key.query = strings.Clone(key.path), strings.Clone(key.query)
	if size := a.size(&key); c.size+size > c.half {
		c.older, c.newer, c.size = c.newer, map[cacheKey]*cachedAnswer{}, 0
	}
	c.newer[key] = a
	c.size += a.size(&key)
}
