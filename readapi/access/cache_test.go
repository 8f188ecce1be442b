package access

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCacheTrustsForAWhile(t *testing.T) {
	t.Parallel()
	c := newCache(trustFor, maxAge, 10)
	e := &entry{key: &Key{}, readAt: start}
	c.put(hash{1}, e, 0, start)
	if c.len() != 0 {
		t.Error("an entry is kept before the first confirmation")
	}
	c.confirm(start, nil, false)
	c.put(hash{1}, e, c.currentEpoch(), start)
	for after, want := range map[time.Duration]*entry{-1: nil, 0: e, trustFor - 1: e, trustFor: nil, time.Hour: nil} {
		if got := c.get(hash{1}, start.Add(after)); got != want {
			t.Errorf("after %v: %v", after, got)
		}
	}
	c.confirm(start.Add(trustFor-1), nil, false)
	if got := c.get(hash{1}, start.Add(trustFor)); got != e {
		t.Error("a confirmation in time did not keep the entry")
	}
	c.confirm(start.Add(time.Hour), nil, false)
	if got := c.get(hash{1}, start.Add(time.Hour)); got != nil || c.len() != 0 {
		t.Error("a confirmation after an outage kept the entry")
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newCache(trustFor, maxAge, 10)
	c.confirm(start, nil, true)
	epoch := c.currentEpoch()
	for i := range 100 {
		h := hash{byte(i)}
		c.put(h, &entry{readAt: start}, epoch, start)
		if got := c.get(h, start); got == nil {
			t.Fatal("the newest entry is gone")
		}
		if c.len() > 10 {
			t.Fatalf("%d entries are held", c.len())
		}
	}
}

func TestCacheLetsIdleEntriesGo(t *testing.T) {
	t.Parallel()
	c := newCache(trustFor, maxAge, 10)
	c.confirm(start, nil, true)
	epoch := c.currentEpoch()
	c.put(hash{1}, &entry{readAt: start}, epoch, start)
	for now := start; now.Before(start.Add(2*maxAge + 2*trustFor)); now = now.Add(trustFor / 2) {
		c.confirm(now, nil, false)
		if got := c.get(hash{1}, now); (got != nil) != now.Before(start.Add(maxAge)) {
			t.Fatalf("after %v: %v", now.Sub(start), got)
		}
	}
	if c.len() != 0 {
		t.Errorf("%d entries are held", c.len())
	}
}

// In whatever order look-ups, polls and changes of keys begin and end, nothing is found
// that is out of date by trustFor or more, or that a poll has found to be out of date.
// Each change of a key is a new version of it, with a revision, as in the database.
func TestCacheIsNeverStale(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newCacheModel(rapid.IntRange(1, 8).Draw(t, "size"))
		t.Repeat(map[string]func(*rapid.T){
			"wait":    m.wait,
			"change":  m.change,
			"look up": m.lookUp,
			"poll":    m.poll,
			"":        m.check,
		})
	})
}

// cacheModel is a cache and the database whose keys it holds.
type cacheModel struct {
	cache    *cache
	now      time.Time
	versions [4][]keyVersion // of each key, as committed, oldest first
	revision int             // of the newest version
	seen     int             // revision as of the last poll that ended; -1: none did

	readings []keyReading // look-ups under way
	polling  *keyPolling  // the poll under way; nil: none is
}

type keyVersion struct {
	revision int
	since    time.Time
}

// keyReading is a look-up that has read a key and has yet to cache it.
type keyReading struct {
	key   int
	entry *entry
	epoch uint64
}

// keyPolling is a poll that has read what changed and has yet to confirm the cache.
type keyPolling struct {
	at       time.Time
	revision int
	changed  []hash
	all      bool
}

func newCacheModel(size int) *cacheModel {
	m := &cacheModel{cache: newCache(trustFor, maxAge, size), now: start, seen: -1}
	for key := range m.versions {
		m.versions[key] = []keyVersion{{0, start}}
	}
	return m
}

func hashOf(key int) hash { return hash{byte(key)} }

func (m *cacheModel) newest(key int) keyVersion { return m.versions[key][len(m.versions[key])-1] }

func (m *cacheModel) drawKey(t *rapid.T) int {
	return rapid.IntRange(0, len(m.versions)-1).Draw(t, "key")
}

func (m *cacheModel) wait(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "ms")) * time.Millisecond)
}

func (m *cacheModel) change(t *rapid.T) {
	m.revision++
	key := m.drawKey(t)
	m.versions[key] = append(m.versions[key], keyVersion{m.revision, m.now})
}

// lookUp begins a look-up, or ends one of those under way.
func (m *cacheModel) lookUp(t *rapid.T) {
	if len(m.readings) == 0 || rapid.Bool().Draw(t, "begin") {
		m.beginLookUp(t)
		return
	}
	i := rapid.IntRange(0, len(m.readings)-1).Draw(t, "i")
	r := m.readings[i]
	m.readings = slices.Delete(m.readings, i, i+1)
	m.cache.put(hashOf(r.key), r.entry, r.epoch, m.now)
}

func (m *cacheModel) beginLookUp(t *rapid.T) {
	key := m.drawKey(t)
	epoch := m.cache.currentEpoch()
	read := &entry{key: &Key{RateLimit: m.newest(key).revision}, readAt: m.now}
	m.readings = append(m.readings, keyReading{key, read, epoch})
}

// poll begins a poll, or ends the one under way. One that is still under way when
// the next begins has failed.
func (m *cacheModel) poll(t *rapid.T) {
	if m.polling == nil || rapid.Bool().Draw(t, "begin") {
		m.beginPoll()
		return
	}
	p := m.polling
	m.cache.confirm(p.at, p.changed, p.all)
	m.polling, m.seen = nil, p.revision
}

func (m *cacheModel) beginPoll() {
	m.polling = &keyPolling{at: m.now, revision: m.revision, all: m.seen < 0}
	for key := range m.versions {
		if m.newest(key).revision > m.seen {
			m.polling.changed = append(m.polling.changed, hashOf(key))
		}
	}
}

func (m *cacheModel) check(t *rapid.T) {
	for key, versions := range m.versions {
		e := m.cache.get(hashOf(key), m.now)
		if e == nil {
			continue
		}
		for _, v := range versions {
			outOfDate := v.revision > e.key.RateLimit
			if outOfDate && (v.revision <= m.seen || !m.now.Before(v.since.Add(trustFor))) {
				t.Fatalf("at %v the key %d is found as of revision %d; revision %d came at %v, and polls have seen %d",
					m.now.Sub(start), key, e.key.RateLimit, v.revision, v.since.Sub(start), m.seen)
			}
		}
	}
}
