package readapi

import (
	"context"
	"time"
)

// How whole lists let pages go first. Each keeps two processors busy, this process's and the
// database's, and a page that comes meanwhile has to get in between.
const (
	// yieldTime is how long a list waits at once for the pages that are being read: about what
	// a page takes, which leaves a list beside endless pages some 30 MB a second.
	yieldTime = 2 * time.Millisecond
	// busyTime is how long after a page others are expected.
	busyTime = 100 * time.Millisecond
	// workTime and restTime are how long a list works and rests by turns while pages are
	// expected. A timer of less than a millisecond takes one.
	workTime = 500 * time.Microsecond
	restTime = time.Millisecond
)

// pace is how fast one whole list is sent beside the pages of shares. It belongs to the
// list's goroutine. It does not use the injected clock: it measures processors.
type pace struct {
	shares *shares
	rested time.Time // when the list last did nothing
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

// pages tells whether pages are being read: idle is closed when none is any more, and nil
// if none is. last is when one had been read.
func (s *shares) pages() (idle <-chan struct{}, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used > 0 && s.idle == nil {
		s.idle = make(chan struct{})
	}
	return s.idle, s.last
}
