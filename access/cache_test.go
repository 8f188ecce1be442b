package access

import (
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
	_, epoch := c.get(hash{1}, start)
	c.put(hash{1}, e, epoch, start)
	for after, want := range map[time.Duration]*entry{-1: nil, 0: e, trustFor - 1: e, trustFor: nil, time.Hour: nil} {
		if got, _ := c.get(hash{1}, start.Add(after)); got != want {
			t.Errorf("after %v: %v", after, got)
		}
	}
	c.confirm(start.Add(trustFor-1), nil, false)
	if got, _ := c.get(hash{1}, start.Add(trustFor)); got != e {
		t.Error("a confirmation in time did not keep the entry")
	}
	c.confirm(start.Add(time.Hour), nil, false)
	if got, _ := c.get(hash{1}, start.Add(time.Hour)); got != nil || c.len() != 0 {
		t.Error("a confirmation after an outage kept the entry")
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newCache(trustFor, maxAge, 10)
	c.confirm(start, nil, true)
	_, epoch := c.get(hash{}, start)
	for i := range 100 {
		h := hash{byte(i)}
		c.put(h, &entry{readAt: start}, epoch, start)
		if got, _ := c.get(h, start); got == nil {
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
	_, epoch := c.get(hash{}, start)
	c.put(hash{1}, &entry{readAt: start}, epoch, start)
	for now := start; now.Before(start.Add(2*maxAge + 2*trustFor)); now = now.Add(trustFor / 2) {
		c.confirm(now, nil, false)
		if got, _ := c.get(hash{1}, now); (got != nil) != now.Before(start.Add(maxAge)) {
			t.Fatalf("after %v: %v", now.Sub(start), got)
		}
	}
	if c.len() != 0 {
		t.Errorf("%d entries are held", c.len())
	}
}

// In whatever order look-ups, polls and changes of keys begin and end, nothing is
// found that is out of date by trustFor or more. Each change of a key is a new
// version of it, with a revision, as in the database.
func TestCacheIsNeverStale(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			revision int
			since    time.Time
		}
		type reading struct {
			h     hash
			e     *entry
			epoch uint64
		}
		type polling struct {
			at       time.Time
			revision int
			changed  []hash
			all      bool
		}
		now := start
		c := newCache(trustFor, maxAge, rapid.IntRange(1, 8).Draw(t, "size"))
		versions := map[hash][]version{} // committed, oldest first
		for i := range 4 {
			versions[hash{byte(i)}] = []version{{0, start}}
		}
		newest := func(h hash) version { return versions[h][len(versions[h])-1] }
		revision, seen := 0, -1
		var readings []reading
		var poll *polling
		key := rapid.Custom(func(t *rapid.T) hash { return hash{byte(rapid.IntRange(0, 3).Draw(t, "key"))} })
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "ms")) * time.Millisecond)
			},
			"change": func(t *rapid.T) {
				revision++
				h := key.Draw(t, "h")
				versions[h] = append(versions[h], version{revision, now})
			},
			"begin look-up": func(t *rapid.T) {
				h := key.Draw(t, "h")
				_, epoch := c.get(h, now)
				readings = append(readings, reading{h, &entry{key: &Key{RateLimit: newest(h).revision}, readAt: now}, epoch})
			},
			"end look-up": func(t *rapid.T) {
				if len(readings) == 0 {
					t.Skip("none under way")
				}
				i := rapid.IntRange(0, len(readings)-1).Draw(t, "i")
				c.put(readings[i].h, readings[i].e, readings[i].epoch, now)
				readings = append(readings[:i], readings[i+1:]...)
			},
			"begin poll": func(*rapid.T) { // one still under way has failed
				poll = &polling{at: now, revision: revision, all: seen < 0}
				for h := range versions {
					if newest(h).revision > seen {
						poll.changed = append(poll.changed, h)
					}
				}
			},
			"end poll": func(t *rapid.T) {
				if poll == nil {
					t.Skip("none under way")
				}
				c.confirm(poll.at, poll.changed, poll.all)
				poll, seen = nil, poll.revision
			},
			"": func(t *rapid.T) {
				for h, vs := range versions {
					e, _ := c.get(h, now)
					if e == nil {
						continue
					}
					for _, v := range vs {
						if v.revision > e.key.RateLimit && !now.Before(v.since.Add(trustFor)) {
							t.Fatalf("at %v the key %d is found as of revision %d; revision %d came at %v",
								now.Sub(start), h[0], e.key.RateLimit, v.revision, v.since.Sub(start))
						}
					}
				}
			},
		})
	})
}
