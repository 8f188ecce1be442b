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

// answerCache holds answers as they were sent, each with the version of what it
// shows. It saves reading and rendering the rows and compressing them. A cached
// answer is used only if the workspace's version, read after the request came, is
// still the same, so no caller gets one that is out of date.
//
// Its memory is bounded in bytes; what was not used for longest is evicted. An answer
// is cached the second time that it is asked for, so that reading through a long list
// costs nothing and evicts nothing.
type answerCache struct {
	maxSize int

	mu      sync.Mutex
	answers *simplelru.LRU[cacheKey, *cachedAnswer]
	size    int // of answers, in bytes
	seed    maphash.Seed
	asked   [askedSlots]uint64 // hashes of answers that were asked for once
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
	version version
	body    answer.Encoded
	rows    int
	index   int64 // answer.Writer.EventIndex
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
	// maxShare is the share of the cache that one answer may take: a 32nd.
	maxShare = 32
)

func newAnswerCache(maxSize int) *answerCache {
	c := &answerCache{maxSize: maxSize, seed: maphash.MakeSeed()}
	evicted := func(key cacheKey, a *cachedAnswer) { c.size -= a.size(&key) }
	c.answers, _ = simplelru.NewLRU(math.MaxInt, evicted) // fails only for sizes below 1
	return c
}

// get returns the cached answer to a request, of whatever version, or nil.
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
	// Path and query are parts of the request's first line and would keep all of
	// it in memory.
	key.path, key.query = strings.Clone(key.path), strings.Clone(key.query)
	c.answers.Remove(key)
	c.answers.Add(key, &a)
	for c.size += a.size(&key); c.size > c.maxSize; {
		c.answers.RemoveOldest()
	}
}
