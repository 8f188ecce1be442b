package access

import (
	"hash/maphash"
	"sync"
)

// keyCounts counts the requests of keys in the current minute. Only valid keys
// come here, so that there are never more counts than keys in use.
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

// at returns the count of a key in a minute, made if need be. A minute that is
// already over counts as the current one: the clock was set back. The caller
// holds mu.
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

// depart gathers what is to be brought to the table.
func (k *keyCounts) depart(into []parcel) []parcel {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		for id, c := range s.counts {
			if c.pending > 0 {
				into = append(into, parcel{workspaceID: c.workspaceID, subject: id, minute: s.minute, n: c.depart()})
			}
		}
		s.mu.Unlock()
	}
	return into
}

// with runs do on the count of a key, if it is of that minute. With make it is
// made when the key was not seen here.
func (k *keyCounts) with(minute int64, workspaceID, keyID string, create bool, do func(*count)) {
	s := k.shard(keyID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if create {
		c := s.at(minute, workspaceID, keyID)
		if s.minute == minute {
			do(&c.count)
		}
		return
	}
	if c := s.counts[keyID]; c != nil && s.minute == minute {
		do(&c.count)
	}
}
