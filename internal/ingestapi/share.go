package ingestapi

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// leastWeight is what a small body counts, in bytes: every request holds more than its body.
const leastWeight = 64 << 10

// share bounds the bodies under way, over all keys and for each of them.
type share struct {
	most int64 // bytes

	mu   sync.Mutex
	used int64
	of   map[string]int64 // by the id of the key
}

func newShare(most int64) *share { return &share{most: most, of: map[string]int64{}} }

// take takes n bytes for a key; false: that is more than its part. The part of a key leaves room for
// another key beside all that have something under way, so that one that floods is refused alone.
func (s *share) take(id string, n int64) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, has := s.of[id]
	others := int64(len(s.of))
	if has {
		others--
	}
	part := s.most / (others + 2)
	if s.used+n > s.most || has && own+n > part {
		return nil, false
	}
	s.used, s.of[id] = s.used+n, own+n
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used -= n
		if s.of[id] -= n; s.of[id] == 0 {
			delete(s.of, id)
		}
	}, true
}

// inUse is how many bytes are taken.
func (s *share) inUse() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// places bounds how many appends with the same name run at a time. The others wait in order.
type places struct {
	most int64

	mu sync.Mutex
	of map[string]*place
}

type place struct {
	*semaphore.Weighted

	users int // that have it or wait for it
}

func newPlaces(most int) *places { return &places{most: int64(max(1, most)), of: map[string]*place{}} }

// take waits for a place. The error is ctx's.
func (p *places) take(ctx context.Context, name string) (release func(), err error) {
	p.mu.Lock()
	one := p.of[name]
	if one == nil {
		one = &place{Weighted: semaphore.NewWeighted(p.most)}
		p.of[name] = one
	}
	one.users++
	p.mu.Unlock()
	leave := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(p.of, name)
		}
	}
	if err := one.Acquire(ctx, 1); err != nil {
		leave()
		return nil, fmt.Errorf("wait for a place: %w", err)
	}
	return func() {
		one.Release(1)
		leave()
	}, nil
}
