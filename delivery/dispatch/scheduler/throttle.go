package scheduler

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// An attempt that is answered over an open connection costs next to nothing. A new connection costs
// a TLS handshake, one to two milliseconds of processor time. An attempt without a response
// occupies its slot for the whole timeout, and its record has three rows instead of one. Many
// receivers that hang would use up the processors. So webhooks whose attempts keep failing
// expensively share one token bucket. The few that a process usually has never empty it, and one
// attempt that is not costly takes a webhook out of it.
const (
	// costlyAfter is how many costly failures in a row put a webhook under the
	// token bucket.
	costlyAfter = 3

	// burstSeconds is how many seconds' worth of tokens may be used at once.
	burstSeconds = 10
)

// costlyState is a queue's state in the throttle.
type costlyState struct {
	failures int  // costly failures in a row
	hasToken bool // it may start one attempt
}

// throttle is the token bucket and the queues that wait for a token.
type throttle struct {
	bucket *rate.Limiter
	queues []*queue
}

func newThrottle(perSecond int) throttle {
	return throttle{bucket: rate.NewLimiter(rate.Limit(perSecond), burstSeconds*perSecond)}
}

// waitForToken reports whether a queue must wait for a token before its next
// attempt. If so, it is added to the waiting queues.
func (t *throttle) waitForToken(q *queue, now time.Time) bool {
	switch {
	case q.costly.failures < costlyAfter:
		return false
	case q.costly.hasToken:
		q.costly.hasToken = false
		return false
	case len(t.queues) == 0 && t.bucket.AllowN(now, 1):
		return false
	}
	t.queues = append(t.queues, q)
	return true
}

// release returns the queues that get a token now.
func (t *throttle) release(now time.Time) (list []*queue) {
	for len(t.queues) > 0 && t.bucket.AllowN(now, 1) {
		q := pop(&t.queues)
		q.costly.hasToken = true
		list = append(list, q)
	}
	return list
}

// next returns when the first waiting queue gets a token; zero: none waits.
func (t *throttle) next(now time.Time) time.Time {
	if len(t.queues) == 0 {
		return time.Time{}
	}
	missing := 1 - t.bucket.TokensAt(now)
	return now.Add(max(time.Duration(missing/float64(t.bucket.Limit())*float64(time.Second)), 0) + time.Microsecond)
}

// attempted counts costly failures. Any other result takes the queue out of the
// throttle; it returns true if the queue was waiting for a token.
func (t *throttle) attempted(q *queue, costly bool) (waited bool) {
	if costly {
		q.costly.failures++
		return false
	}
	q.costly = costlyState{}
	return t.remove(q)
}

func (t *throttle) remove(q *queue) bool {
	i := slices.Index(t.queues, q)
	if i >= 0 {
		t.queues = slices.Delete(t.queues, i, i+1)
	}
	return i >= 0
}
