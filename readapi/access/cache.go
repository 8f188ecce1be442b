package access

import (
	"sync"
	"time"
)

// cache remembers entries for as long as it is known to be up to date. All its
// methods may be called by any number of goroutines.
//
// It holds two generations. New entries go into the young one; when that is full
// or old, it becomes the old one and the old one is dropped. This bounds the
// memory and lets keys that nobody uses go, without any bookkeeping when an entry
// is read.
type cache struct {
	trustFor time.Duration // after the last confirmation
	maxAge   time.Duration // of an entry
	maxYoung int           // entries in a generation

	mu          sync.RWMutex
	young, old  map[hash]*entry
	youngSince  time.Time
	confirmedAt time.Time // when the last poll that succeeded began; zero: none did
	epoch       uint64    // changes whenever something was forgotten
}

func newCache(trustFor, maxAge time.Duration, maxEntries int) *cache {
	return &cache{trustFor: trustFor, maxAge: maxAge, maxYoung: max(1, maxEntries/2), young: map[hash]*entry{}}
}

// get gives what is known for certain about h, or nil. The epoch is for put.
func (c *cache) get(h hash, now time.Time) (e *entry, epoch uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.trusted(now) {
		return nil, c.epoch
	}
	e = c.young[h]
	if e == nil {
		e = c.old[h]
	}
	if e == nil || !within(e.readAt, now, c.maxAge) {
		return nil, c.epoch
	}
	return e, c.epoch
}

// put remembers e unless something was forgotten since epoch was read: e could
// then be what had to be forgotten, read just before it changed.
func (c *cache) put(h hash, e *entry, epoch uint64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch || !c.trusted(now) {
		return
	}
	if len(c.young) >= c.maxYoung {
		c.age(now)
	}
	c.young[h] = e
}

// confirm says that all that is remembered was true at the time at, but for what
// is forgotten here. If nothing was confirmed for too long before, everything is
// forgotten: the outage may have ended on another server that lacks the latest
// changes.
func (c *cache) confirm(at time.Time, forget []hash, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if all || !c.trusted(at) {
		c.young, c.old = map[hash]*entry{}, nil
		c.youngSince = at
		c.epoch++
	}
	if len(forget) > 0 {
		c.epoch++
	}
	for _, h := range forget {
		delete(c.young, h)
		delete(c.old, h)
	}
	if !within(c.youngSince, at, c.maxAge) {
		c.age(at)
	}
	c.confirmedAt = at
}

// len gives how many entries are held.
func (c *cache) len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.young) + len(c.old)
}

// fresh reports whether get can find anything.
func (c *cache) fresh(now time.Time) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.trusted(now)
}

// age starts a new generation. The caller holds mu.
func (c *cache) age(now time.Time) {
	c.young, c.old, c.youngSince = map[hash]*entry{}, c.young, now
}

// trusted reports whether what is remembered may be relied on. The caller holds mu.
func (c *cache) trusted(now time.Time) bool {
	return !c.confirmedAt.IsZero() && within(c.confirmedAt, now, c.trustFor)
}

// within reports whether now is less than d after start, and not before it: after
// a clock was set back nothing is known about the time that passed.
func within(start, now time.Time, d time.Duration) bool {
	since := now.Sub(start)
	return 0 <= since && since < d
}
