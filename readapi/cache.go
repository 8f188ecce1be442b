package readapi

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// pageCache keeps answers that are asked for again and again, as they were sent,
// under the version that they are of. An answer is used only when the workspace
// has been asked for its version after the request came, so that a caller never
// gets one that is out of date; it spares the rows, the rendering and the
// compression.
//
// Memory is bounded in bytes: two generations of half the size each, of which
// the older one goes when the younger one is full. An answer is kept from the
// second time on that it is asked for, so that reading through a long list costs
// nothing and pushes nothing out.
type pageCache struct {
	half int // bytes of a generation

	mu         sync.Mutex
	young, old map[pageKey]*keptPage
	size       int // of young

	seed maphash.Seed
	once [onceSize]uint64 // hashes of answers that were asked for once
}

// pageKey is a request: all that its answer depends on but the version.
type pageKey struct {
	workspaceID string
	permissions access.Permissions
	path, query string
	encoding    encoding // as accepted, not as used
}

func (k *pageKey) size() int { return len(k.workspaceID) + len(k.path) + len(k.query) }

// keptPage is an answer as it was sent. It is never changed.
type keptPage struct {
	version string
	used    encoding
	body    []byte
	rows    int
}

const (
	// DefaultCacheBytes is the memory that kept answers may take.
	DefaultCacheBytes = 32 << 20

	onceSize = 4096
	// largestPage is the share of a generation that one answer may take.
	largestPage = 16
	// pageOverhead is what an entry takes beside its body, about.
	pageOverhead = 320
)

func newPageCache(bytes int) *pageCache {
	return &pageCache{half: bytes / 2, young: map[pageKey]*keptPage{}, seed: maphash.MakeSeed()}
}

// get returns what is kept for a request, of whatever version, or nil.
func (c *pageCache) get(key pageKey) *keptPage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.young[key]; p != nil {
		return p
	}
	p := c.old[key]
	if p != nil { // still in use
		delete(c.old, key)
		c.add(key, p)
	}
	return p
}

// offer keeps an answer if it was asked for before. The body is copied.
func (c *pageCache) offer(key pageKey, p keptPage) {
	if len(p.body) > c.half/largestPage {
		return
	}
	hash := maphash.Comparable(c.seed, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := &c.once[hash%onceSize]; *at != hash {
		*at = hash
		return
	}
	p.body = append(make([]byte, 0, len(p.body)), p.body...)
	c.add(key, &p)
}

// add puts an answer into the young generation. The caller holds mu.
func (c *pageCache) add(key pageKey, p *keptPage) {
	weight := func(p *keptPage) int { return len(p.body) + key.size() + pageOverhead }
	if before := c.young[key]; before != nil {
		c.size -= weight(before)
	}
	// As they come they are parts of the request's whole first line.
	key.path, key.query = strings.Clone(key.path), strings.Clone(key.query)
	if c.size+weight(p) > c.half {
		c.old, c.young, c.size = c.young, map[pageKey]*keptPage{}, 0
	}
	c.young[key] = p
	c.size += weight(p)
}

// worthKeeping tells whether an answer can be kept and costs more than asking
// for the version does. A single row does not.
func (r *route) worthKeeping() bool { return r.version != nil && r.shape != shapeOne }

// pageKey names this request in the cache.
func (c *call) pageKey() pageKey {
	return pageKey{
		workspaceID: c.key.WorkspaceID, permissions: c.key.Permissions,
		path: c.r.URL.EscapedPath(), query: c.r.URL.RawQuery, encoding: c.accepted()[0],
	}
}
