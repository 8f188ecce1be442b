package readapi

import (
	"context"
	"time"
)

// How whole lists give way to pages. Each list keeps two processors busy, one in this process and
// one in the database, and a page that arrives meanwhile must get its turn.
const (
	// yieldTime is the longest that a list waits for the pages being read before it goes on: about
	// as long as a page takes. Alongside constant pages, a list still gets some 30 MB a second.
	yieldTime = 2 * time.Millisecond
	// busyTime is how long after a page more pages are expected.
	busyTime = 100 * time.Millisecond
	// workTime and restTime are how long a list alternately works and rests while pages are
	// expected. A timer below a millisecond would take a millisecond.
	workTime = 500 * time.Microsecond
	restTime = time.Millisecond
)

// pace limits how fast one whole list is sent alongside the pages of shares. Only the list's
// goroutine uses it. It does not use the injected clock, because it is about processors.
type pace struct {
	shares *shares
	rested time.Time // when the list last rested
}

func newPace(s *shares) *pace { return &pace{s, time.Now()} }

// yield lets pages go first. It is called after each chunk of a list.
func (p *pace) yield(ctx context.Context) {
	idle, last := p.shares.pages()
	wait := time.Duration(0)
	switch now := time.Now(); {
	case idle != nil:
		wait = yieldTime
	case now.Sub(last) > busyTime:
		p.rested = now
	case now.Sub(p.rested) > workTime:
		wait = restTime
	}
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-ctx.Done():
	}
	p.rested = time.Now()
}

// pages reports on the pages being read. idle is closed when the last of them ends; nil: no pages
// are being read. last is when a page last ended.
func (s *shares) pages() (idle <-chan struct{}, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used > 0 && s.idle == nil {
		s.idle = make(chan struct{})
	}
	return s.idle, s.last
}
