package access

import (
	"sync"
	"time"
)

// cache holds entries for as long as it is known to be up to date. Its methods may be
// called by any number of goroutines.
//
// It has two generations. Entries are put into the new one; when that is full or too
// old, it becomes the old one, and the old one is dropped. This bounds the memory and
// drops keys that are not used any more, without bookkeeping when an entry is read.
//
// No library is used, because putting, forgetting and confirming must each be one step
// together with the epoch, which takes a lock of our own around any library, and
// because get, which every request calls, needs only a read lock here: it does not
// record that an entry was used.
type cache struct {
	trustFor time.Duration // after the last confirmation
	maxAge   time.Duration // of an entry
	maxNewer int           // entries in a generation

	mu           sync.RWMutex
	newer, older map[hash]*entry
	newerSince   time.Time
	confirmedAt  time.Time // when the last successful poll began; zero: there was none
	epoch        uint64    // changes whenever something is forgotten
}

func newCache(trustFor, maxAge time.Duration, maxEntries int) *cache {
	return &cache{trustFor: trustFor, maxAge: maxAge, maxNewer: max(1, maxEntries/2), newer: map[hash]*entry{}}
}

// get returns what is known for certain about h, or nil.
func (c *cache) get(h hash, now time.Time) *entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.trusted(now) {
		return nil
	}
	e := c.newer[h]
	if e == nil {
		e = c.older[h]
	}
	if e == nil || !within(e.readAt, now, c.maxAge) {
		return nil
	}
	return e
}

// currentEpoch is for put: it must be read before the entry is read from the
// database.
func (c *cache) currentEpoch() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.epoch
}

// put caches e, unless something was forgotten since epoch was read: e could then be
// what had to be forgotten, read just before it changed.
func (c *cache) put(h hash, e *entry, epoch uint64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch || !c.trusted(now) {
		return
	}
	if len(c.newer) >= c.maxNewer {
		c.startGeneration(now)
	}
	c.newer[h] = e
}

// confirm says that everything in the cache was true at the time at, except what is
// to be forgotten. If the confirmation before was too long ago, everything is
// forgotten: after an outage another server may answer, one that lacks the latest
// changes.
func (c *cache) confirm(at time.Time, forget []hash, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if all || !c.trusted(at) {
		c.newer, c.older = map[hash]*entry{}, nil
		c.newerSince = at
		c.epoch++
	}
	if len(forget) > 0 {
		c.epoch++
	}
	for _, h := range forget {
		delete(c.newer, h)
		delete(c.older, h)
	}
	if !within(c.newerSince, at, c.maxAge) {
		c.startGeneration(at)
	}
	c.confirmedAt = at
}

// len is how many entries are cached.
func (c *cache) len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.newer) + len(c.older)
}

// fresh reports whether get can find anything.
func (c *cache) fresh(now time.Time) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.trusted(now)
}

// startGeneration drops the old generation. The caller holds mu.
func (c *cache) startGeneration(now time.Time) {
	c.newer, c.older, c.newerSince = map[hash]*entry{}, c.newer, now
}

// trusted reports whether the cache is up to date. The caller holds mu.
func (c *cache) trusted(now time.Time) bool {
	return !c.confirmedAt.IsZero() && within(c.confirmedAt, now, c.trustFor)
}

// within reports whether now is less than d after start, and not before it: after a
// clock was set back, nothing is known about the time that passed.
func within(start, now time.Time, d time.Duration) bool {
	since := now.Sub(start)
	return 0 <= since && since < d
}
