package access

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// slowEvery is how long a look-up for a slowed-down address waits for others of its kind.
const slowEvery = 100 * time.Millisecond

// slowLookUps are the look-ups for addresses that send refused keys. They are collected
// for a while and then read in one query, one query at a time: however many invented keys
// come from however many addresses, they cost the database ten queries a second, and
// a valid key that comes from such an address is found all the same.
type slowLookUps struct {
	read func([]*lookUp)

	reading sync.Mutex // held during a query
	mu      sync.Mutex
	next    *slowBatch
}

type slowBatch struct {
	lookUps []*lookUp
	done    chan struct{} // closed when they have their results
}

// do waits until the look-up has its result. After an error, which is that of ctx, the
// look-up may still be in use.
func (s *slowLookUps) do(ctx context.Context, l *lookUp) error {
	s.mu.Lock()
	if s.next == nil {
		s.next = &slowBatch{done: make(chan struct{})}
		time.AfterFunc(slowEvery, s.readNext)
	}
	batch := s.next
	batch.lookUps = append(batch.lookUps, l)
	s.mu.Unlock()
	select {
	case <-batch.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the look-up of an API key: %w", context.Cause(ctx))
	}
}

// readNext reads what has been collected by now.
func (s *slowLookUps) readNext() {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	batch := s.next
	s.next = nil
	s.mu.Unlock()
	defer close(batch.done)
	s.read(batch.lookUps)
}
