package testkit

import (
	"sync/atomic"
	"time"
)

// Clock is a clock that tests move. It is safe for concurrent use.
type Clock struct {
	running bool         // follow the system's clock
	nanos   atomic.Int64 // since 1970, or ahead of the system's clock when running
}

// NewClock returns a clock that stands still at a time until it is moved.
func NewClock(at time.Time) *Clock {
	c := &Clock{}
	c.Set(at)
	return c
}

// RunningClock returns a clock that follows the system's clock, and is ahead of
// it by whatever Advance added.
func RunningClock() *Clock { return &Clock{running: true} }

// Now returns the clock's time, in UTC.
func (c *Clock) Now() time.Time {
	if c.running {
		return time.Now().Add(time.Duration(c.nanos.Load())).UTC()
	}
	return time.Unix(0, c.nanos.Load()).UTC()
}

// Advance moves the clock; a negative d sets it back.
func (c *Clock) Advance(d time.Duration) { c.nanos.Add(int64(d)) }

// Set moves a clock that stands still to a time.
func (c *Clock) Set(t time.Time) { c.nanos.Store(t.UnixNano()) }
