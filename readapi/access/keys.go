package access

import (
	"hash/maphash"
	"sync"
)

// keyCounts counts the requests of keys in the current minute. Only valid keys are
// counted, so there are never more counts than keys in use.
type keyCounts struct {
	seed   maphash.Seed
	shards [32]keyShard
}

type keyShard struct {
	mu     sync.Mutex
	minute int64
	counts map[string]*keyCount // by key id
}

type keyCount struct {
	workspaceID string
	count
}

func newKeyCounts() *keyCounts { return &keyCounts{seed: maphash.MakeSeed()} }

func (k *keyCounts) shard(keyID string) *keyShard {
	return &k.shards[maphash.String(k.seed, keyID)%uint64(len(k.shards))]
}

// at returns the count of a key in a minute and creates it if it does not exist. A
// minute before the shard's counts as the shard's: the clock was set back. The
// caller holds mu.
func (s *keyShard) at(minute int64, workspaceID, keyID string) *keyCount {
	if minute > s.minute || s.counts == nil {
		s.minute, s.counts = minute, map[string]*keyCount{}
	}
	c := s.counts[keyID]
	if c == nil {
		c = &keyCount{workspaceID: workspaceID}
		s.counts[keyID] = c
	}
	return c
}

func (k *keyCounts) take(minute int64, key *Key) (total int64, ok bool) {
	s := k.shard(key.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.at(minute, key.WorkspaceID, key.ID)
	ok = c.take(int64(key.RateLimit))
	return c.total(), ok
}

// total is the count of a key in a minute, without counting.
func (k *keyCounts) total(minute int64, key *Key) int64 {
	s := k.shard(key.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts[key.ID]
	if minute > s.minute || c == nil {
		return 0
	}
	return c.total()
}

// appendPending takes what is pending of every key.
func (k *keyCounts) appendPending(deltas []delta) []delta {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		for id, c := range s.counts {
			if c.pending > 0 {
				deltas = append(deltas, delta{workspaceID: c.workspaceID, subject: id, minute: s.minute, n: c.takePending()})
			}
		}
		s.mu.Unlock()
	}
	return deltas
}

// update changes the count of a key in a minute. A key that was not seen here gets
// a count if create is true; a count of another minute is left alone.
func (k *keyCounts) update(minute int64, workspaceID, keyID string, create bool, change func(*count)) {
	s := k.shard(keyID)
	s.mu.Lock()
	defer s.mu.Unlock()
	var c *keyCount
	if create {
		c = s.at(minute, workspaceID, keyID)
	} else {
		c = s.counts[keyID]
	}
	if c != nil && s.minute == minute {
		change(&c.count)
	}
}
