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

// waits is what waiting requests share.
type waits struct {
	watcher            *waiting.Watcher
	changes, positions *waiting.Bounds
	reads              *sharedReads
}

// keyWaits is how many requests of one key may wait for something on lists
// (docs/contract/decisions.md, "Waiting").
const keyWaits = 10

// newWaits makes what waiting requests share. Requests that must reach a position have their own
// limits: readers depend on them, and they wait for at most 5 seconds.
func newWaits(cfg *Config) *waits {
	http1 := max(1, cfg.MaxWaitsHTTP1/2) // for each kind
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

// Run wakes waiting requests until ctx ends. Without it they wait until they time out.
func (a *API) Run(ctx context.Context) error { return a.waits.watcher.Run(ctx) }

// Waits returns how many requests wait now for something on lists, and how many for positions.
func (a *API) Waits() (changes, positions int) {
	return a.waits.changes.Open(), a.waits.positions.Open()
}

// Drain ends all waits now, and makes later requests not wait, because the process is about to
// stop. The server of NewServer calls it on shutdown.
func (a *API) Drain() { a.waits.watcher.Drain() }

// mayWait reports whether a request asks to wait.
func mayWait(r *http.Request) bool {
	return r.Header[answer.HeaderPrefer] != nil || r.Header[answer.HeaderAtLeast] != nil
}

// inGoroutine runs a part of a request in its own goroutine and waits for it. Reading needs a deep stack,
// which the request's goroutine would otherwise keep while the request waits.
func inGoroutine(q *request, do func()) {
	var aborted any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { aborted = recover() }() // http.ErrAbortHandler, which answerPanic passes on
		defer func() { q.answerPanic(recover()) }()
		do()
	}()
	<-done
	if aborted != nil {
		panic(aborted)
	}
}

// waiter is what a request waits for, if it does. The request is first read like any other. If the
// result is not enough, the handlers return without an answer, and await waits and reads again. A
// waiting request has a small stack and holds no database connection and no share.
type waiter struct {
	atLeast int64 // the position that the answer must have reached; 0: any
	seconds int   // how long the request may wait for something on a list; 0: not at all

	behind bool       // what was read had not reached atLeast
	empty  *emptyPage // the page that was read had no rows; nil: it had some
	newer  bool       // there is something newer, although the page has no rows
	over   bool       // the wait is over
	waited time.Duration

	shared *sharedRead // the read that this request leads for others; nil: none
}

// emptyPage is a page without rows. It is the answer if nothing comes.
type emptyPage struct {
	body    []byte
	version version
}

// errBehind says that what was read had not reached the position that the request demands.
var errBehind = errors.New("the visible position is below that of Log-Position-At-Least")

// accept reads the headers that ask to wait. It adds their faults to those of the parameters.
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

// reached returns an error if v has not reached the position that the request demands. It is called
// with the version row of each statement, before anything is answered.
func (w *waiter) reached(v version) error {
	if w.atLeast > 0 && v.position < w.atLeast { // a version without a position is below 0
		return errBehind
	}
	return nil
}

// reachedYet checks that the visible position has reached the one that the request demands, before
// a more expensive read.
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
	q.out.Begin() // the wait is over, however long the first row takes
	return nil
}

// holds reports whether the request must wait instead of getting this answer. If so, it keeps the
// answer: a page without rows, or a checkpoint that the caller already has.
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

// resumes holds a request if its cached page is empty and must still be so. A follower that asks
// again after its wait costs no more than a read of the version.
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
	// An empty page of events stays empty when events pass their retention.
	if cached.version != rows && !strings.HasPrefix(cached.version.name, rows.name+".") {
		return false, nil
	}
	w.empty = &emptyPage{cached.body.Body, cached.version}
	return true, nil
}

// await waits for what the request needs and answers it. ctx is the context of the HTTP request,
// which does not have Config.Timeout.
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

// waitTimes are how long requests wait. Zero: the times of the contract. Tests that must not depend
// on the speed of a machine set other times.
type waitTimes struct {
	second   time.Duration // the length of one second of Prefer: wait
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

// awaitPosition waits until the position that the request demands is reached. It answers the
// request or leaves it with an empty page.
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
		began := time.Now() // not the injected clock: it measures the database
		if err := a.again(ctx, q, func(q *request) error { return readFrom(q, answerForm) }); errors.Is(err, errBehind) {
			q.wait.behind = true // the log went back, or another server answered
			pause = pauseAfter(q, began)
		} else if err != nil {
			a.metrics.ended(forPosition, endedFound)
			return err
		}
	}
	a.metrics.ended(forPosition, endedFound)
	return nil
}

// How long a request pauses before it reads again, if something happened but the last read was not
// enough. The pause is a multiple of the time of the last read, so that slow reads get rarer.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = 250 * time.Millisecond
	pauseFactor   = 4
)

// pauseAfter returns the pause after a read that started at began. A tree follows the visible
// position within a second, so reading it more often finds nothing.
func pauseAfter(q *request, began time.Time) time.Duration {
	if q.endpoint.OfTree() {
		return longestPause
	}
	return max(shortestPause, min(longestPause, pauseFactor*time.Since(began)))
}

// awaitChange waits until the list has something for the request or the time is over. Then it
// answers the request.
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
	left := time.Duration(q.wait.seconds)*a.cfg.waiting.second - a.cfg.Clock().Sub(q.began) // counted from when the request came
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
		began := time.Now() // not the injected clock: it measures the database
		if err := a.again(ctx, q, func(q *request) error { return a.waits.reads.read(q, position) }); err != nil {
			a.metrics.ended(forChange, endedFound)
			return err
		}
		pause = pauseAfter(q, began)
	}
	a.metrics.ended(forChange, endedFound)
	return nil
}

// answerEmpty answers with the last page that was read, which has no rows.
func (a *API) answerEmpty(q *request) error {
	empty := q.wait.empty
	q.wait.empty, q.wait.over, q.rows = nil, true, 0
	return q.answerWith(empty.body, empty.version)
}

// pausing calls wait and adds the time it took to the request's waited time.
func (a *API) pausing(q *request, wait func() error) error {
	began := a.cfg.Clock()
	defer func() { q.wait.waited += a.cfg.Clock().Sub(began) }()
	return wait()
}

// again runs a part of a request that has waited: with a new timeout, after another check of its
// key, and with the rate limit of the current minute.
func (a *API) again(ctx context.Context, waited *request, do func(*request) error) error {
	limited, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	q, keep := withContext(limited, waited)
	defer keep()
	q.asOf = a.cfg.Clock()
	key, err := q.keyAgain(q)
	if err != nil {
		return err
	}
	q.out.Allowance = a.cfg.Limiter.Left(key)
	inGoroutine(q, func() { err = do(q) })
	return err
}

// endedOf returns the label of a wait that ended with an error.
func endedOf(err error) string {
	if errors.Is(err, waiting.ErrDrained) {
		return endedDrained
	}
	return endedTimeout
}
