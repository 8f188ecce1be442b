package readapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
	"github.com/ledgerfeed/ledgerfeed/readapi/waiting"
)

// waits is what requests that wait share.
type waits struct {
	watcher            *waiting.Watcher
	changes, positions *waiting.Bounds
	reads              *sharedReads
}

// keyWaits is how many requests of one key may wait for something on lists
// (docs/contract/decisions.md, "Waiting").
const keyWaits = 10

// newWaits makes what requests that wait share. Those that must reach a position are
// bounded apart: they are what a reader depends on, and wait for 5 seconds at most.
func newWaits(cfg *Config) *waits {
	http1 := max(1, cfg.MaxWaitsHTTP1/2) // of each kind
	changes := waiting.Limits{
		Process: cfg.MaxWaits, HTTP1: http1, PerWorkspace: max(keyWaits, cfg.MaxWaits/4),
		PerWorkspaceHTTP1: min(max(keyWaits, http1/4), max(1, http1/2)), // never all of them
		PerKey:            keyWaits,
	}
	positions := changes
	positions.PerKey = max(keyWaits, positions.PerWorkspace/2)
	return &waits{
		watcher: waiting.New(waiting.Config{
			Notifier: cfg.Notifier, Logger: cfg.Logger, ReadTimeout: cfg.Timeout, Sweep: cfg.waiting.sweep,
			Read: func(ctx context.Context, workspaceIDs []string) (map[string]int64, error) {
				return readPositions(ctx, cfg.Pool, workspaceIDs)
			},
		}),
		changes: waiting.NewBounds(changes), positions: waiting.NewBounds(positions), reads: newSharedReads(),
	}
}

// Run wakes requests that wait, until ctx ends. Without it they wait until their time is
// over.
func (a *API) Run(ctx context.Context) error { return a.waits.watcher.Run(ctx) }

// Waits is how many requests wait now for something on lists, and for positions.
func (a *API) Waits() (changes, positions int) {
	return a.waits.changes.Open(), a.waits.positions.Open()
}

// Drain has requests that wait answered now, for good, because the process is about to
// stop. The server of NewServer calls it when it is shut down.
func (a *API) Drain() { a.waits.watcher.Drain() }

// mayWait reports whether a request asks to wait.
func mayWait(r *http.Request) bool {
	return r.Header[answer.HeaderPrefer] != nil || r.Header[answer.HeaderAtLeast] != nil
}

// apart does a part of a request in a goroutine of its own, and waits for it. Reading needs
// a deep stack, which the request's own goroutine would keep while it waits.
func apart(q *request, do func()) {
	var aborted any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { aborted = recover() }() // what is no fault of ours
		defer func() { q.answerPanic(recover()) }()
		do()
	}()
	<-done
	if aborted != nil {
		panic(aborted)
	}
}

// waiter is what a request waits for, if it does. A request is first read as any other.
// If what was read is not enough, the handlers return without an answer, and await waits
// and has it read again: with a small stack, no connection to the database and no share.
type waiter struct {
	atLeast int64 // the position that the answer must have reached; 0: any
	seconds int   // how long the caller would wait for something on a list; 0: not at all

	behind bool       // what was read had not reached atLeast
	empty  *emptyPage // what was read had nothing on it; nil: it was not so
	newer  bool       // there is something after what was read, although it has no rows
	over   bool       // nothing is waited for any more
	waited time.Duration

	shared *sharedRead // others wait for what the request reads now; nil: none do
}

// emptyPage is a page without rows, as it is answered if nothing comes.
type emptyPage struct {
	body    []byte
	version version
}

// errBehind says that what was read had not reached the position that the request demands.
var errBehind = errors.New("the visible position is below that of Log-Position-At-Least")

// accept reads what the request would wait for; faults are those of its parameters.
func (w *waiter) accept(q *request, faults []answer.ParamError) []answer.ParamError {
	if !q.endpoint.HasPosition() {
		return faults
	}
	position, ok := requiredPosition(q.http.Header.Values(answer.HeaderAtLeast))
	if !ok {
		faults = addError(faults, answer.HeaderAtLeast, positionForm)
	}
	w.atLeast = position
	if q.endpoint.CanWait() && q.form == answer.JSON { // a whole list is there at once, empty or not
		w.seconds = preferredWait(q.http.Header.Values(answer.HeaderPrefer))
	}
	if w.seconds > 0 {
		q.out.Applied = "wait=" + strconv.Itoa(w.seconds)
	}
	return faults
}

// reached compares what was read with the position that the request demands. It is
// called with the version row of each statement, before anything is answered.
func (w *waiter) reached(v version) error {
	if w.atLeast > 0 && v.position < w.atLeast { // what has no position is below 0
		return errBehind
	}
	return nil
}

// reachedYet compares the visible position with the one that the request demands before
// anything is read that costs more than a look at it.
func (q *request) reachedYet() error {
	if q.wait.atLeast == 0 {
		return nil
	}
	v, err := rowsVersion(q)
	if err != nil {
		return err
	}
	if err := reached(q, v); err != nil {
		return err
	}
	q.out.Begin() // it no longer waits, however long the first row takes
	return nil
}

// holds keeps an answer that the request would rather wait for: a page without rows, or a
// checkpoint that the caller has.
func (w *waiter) holds(q *request, body []byte, v version) bool {
	if w.seconds == 0 || w.over || w.newer {
		return false
	}
	if old := q.rows == 0 || q.endpoint.Kind == route.Checkpoint && q.out.Match(q.tag(v)) != ""; !old {
		return false
	}
	w.empty = &emptyPage{append([]byte(nil), body...), v}
	return true
}

// resumes holds a request whose page was empty before and must be so still: a follower
// whose wait is over asks the same again, and costs no more than a look at the version.
func (w *waiter) resumes(q *request, cached *cachedAnswer) (held bool, err error) {
	if cached == nil || cached.body.Encoding != answer.Identity || q.endpoint.Kind == route.Credit {
		return false, nil // a credit may have something newer although its page is empty
	}
	rows, err := rowsVersion(q)
	if err != nil {
		return false, err
	}
	if err := reached(q, rows); err != nil {
		return false, err
	}
	// Events that pass their retention leave an empty page empty.
	if cached.version != rows && !strings.HasPrefix(cached.version.name, rows.name+".") {
		return false, nil
	}
	w.empty = &emptyPage{cached.body.Body, cached.version}
	return true, nil
}

// await waits for what the request needs and answers it. The context is that of the
// HTTP request, which has no timeout of ours.
func (a *API) await(ctx context.Context, q *request) error {
	q.out.Extend(time.Duration(q.wait.seconds)*a.cfg.waiting.second + a.cfg.waiting.position + a.cfg.Timeout + writeTimeout)
	if q.wait.behind {
		if err := a.awaitPosition(ctx, q); err != nil {
			return err
		}
	}
	if q.wait.empty != nil {
		return a.awaitChange(ctx, q)
	}
	return nil
}

// waitTimes are how long requests wait. Zero: what the contract says. Tests that must not
// depend on how fast a machine is have other times.
type waitTimes struct {
	second   time.Duration // that Prefer: wait counts
	position time.Duration // for Log-Position-At-Least
	sweep    time.Duration // waiting.Config.Sweep
}

// positionTimeout is how long a request waits for Log-Position-At-Least
// (docs/contract/decisions.md, "Positions").
const positionTimeout = 5 * time.Second

func (w waitTimes) withDefaults() waitTimes {
	w.second, w.position = cmp.Or(w.second, time.Second), cmp.Or(w.position, positionTimeout)
	return w
}

// awaitPosition waits until the position that the request demands is reached, and answers
// it, or leaves it with an empty page.
func (a *API) awaitPosition(ctx context.Context, q *request) error {
	leave, ok := a.waits.positions.Enter(q.key.WorkspaceID, q.key.ID, q.http.ProtoMajor == 1)
	if !ok {
		a.metrics.ended(forPosition, endedRefused)
		return answer.TooManyWaits(q.wait.atLeast)
	}
	defer leave()
	q.out.Begins = leave
	limited, cancel := context.WithTimeout(ctx, a.cfg.waiting.position)
	defer cancel()
	pause := time.Duration(0)
	for q.wait.behind {
		err := a.pausing(q, func() (err error) {
			if err = a.waits.watcher.Pause(limited, pause); err == nil {
				_, err = a.waits.watcher.Reached(limited, q.key.WorkspaceID, q.wait.atLeast)
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
			a.metrics.ended(forPosition, endedGone)
			return context.Cause(ctx)
		case err != nil:
			a.metrics.ended(forPosition, endedOf(err))
			return answer.Behind(q.wait.atLeast)
		}
		q.wait.behind = false
		began := time.Now() // not of the injected clock: it measures the database
		if err := a.again(ctx, q, func(q *request) error { return readFrom(q, answerForm) }); errors.Is(err, errBehind) {
			q.wait.behind = true // the log went back, or another server has answered
			pause = pauseAfter(q, began)
		} else if err != nil {
			a.metrics.ended(forPosition, endedFound)
			return err
		}
	}
	a.metrics.ended(forPosition, endedFound)
	return nil
}

// The time between two reads of a request for which what was read is still not enough,
// although something has happened: a multiple of what the last one took, so that reads of
// requests that wait get rarer while they are slow.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = 250 * time.Millisecond
	pauseFactor   = 4
)

// pauseAfter is that time after a read that began at a moment. A tree follows what is
// visible within a second, so that reading it more often finds nothing.
func pauseAfter(q *request, began time.Time) time.Duration {
	if q.endpoint.OfTree() {
		return longestPause
	}
	return max(shortestPause, min(longestPause, pauseFactor*time.Since(began)))
}

// awaitChange waits until the list has something for the request, or the time is over,
// and answers it.
func (a *API) awaitChange(ctx context.Context, q *request) error {
	leave, ok := a.waits.changes.Enter(q.key.WorkspaceID, q.key.ID, q.http.ProtoMajor == 1)
	if !ok || a.waits.watcher.Draining() {
		if ok {
			leave()
		}
		a.metrics.ended(forChange, endedRefused)
		q.out.Applied = ""
		return a.answerEmpty(q)
	}
	defer leave()
	q.out.Begins = leave
	left := time.Duration(q.wait.seconds)*a.cfg.waiting.second - a.cfg.Clock().Sub(q.began) // it counts from when the request came
	limited, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	pause := time.Duration(0)
	for q.wait.empty != nil {
		var position int64
		err := a.pausing(q, func() (err error) {
			if err = a.waits.watcher.Pause(limited, pause); err == nil {
				position, err = a.waits.watcher.Moved(limited, q.key.WorkspaceID, q.wait.empty.version.position)
			}
			return err
		})
		if ctx.Err() != nil {
			a.metrics.ended(forChange, endedGone)
			return context.Cause(ctx)
		}
		if err != nil {
			a.metrics.ended(forChange, endedOf(err))
			return a.again(ctx, q, a.answerEmpty)
		}
		began := time.Now() // not of the injected clock: it measures the database
		if err := a.again(ctx, q, func(q *request) error { return a.waits.reads.read(q, position) }); err != nil {
			a.metrics.ended(forChange, endedFound)
			return err
		}
		pause = pauseAfter(q, began)
	}
	a.metrics.ended(forChange, endedFound)
	return nil
}

// answerEmpty answers with the page without rows that was read last.
func (a *API) answerEmpty(q *request) error {
	empty := q.wait.empty
	q.wait.empty, q.wait.over, q.rows = nil, true, 0
	return q.answerWith(empty.body, empty.version)
}

// pausing waits and adds up the time.
func (a *API) pausing(q *request, wait func() error) error {
	began := a.cfg.Clock()
	defer func() { q.wait.waited += a.cfg.Clock().Sub(began) }()
	return wait()
}

// again does a part of a request that has waited: with a timeout of its own, after its
// key was checked again, and with the numbers of the present minute.
func (a *API) again(ctx context.Context, waited *request, do func(*request) error) error {
	limited, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	q, keep := within(limited, waited)
	defer keep()
	q.asOf = a.cfg.Clock()
	key, err := q.keyAgain(q)
	if err != nil {
		return err
	}
	q.out.Allowance = a.cfg.Limiter.Left(key)
	apart(q, func() { err = do(q) })
	return err
}

// endedOf says why a wait ended without what it waited for.
func endedOf(err error) string {
	if errors.Is(err, waiting.ErrDrained) {
		return endedDrained
	}
	return endedTimeout
}
