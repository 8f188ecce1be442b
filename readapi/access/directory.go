package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// trustFor is how long after the start of the last good poll the cache is
	// believed: less than the second within which a revoked key must stop
	// (docs/contract/decisions.md, "Keys").
	trustFor = 900 * time.Millisecond
	// maxAge is for faults that the poll cannot see, such as a database that was
	// put back to an earlier state: they end after this time.
	maxAge = 5 * time.Minute
	// lookupTimeout is for one question to the database, waiting for a connection
	// included.
	lookupTimeout = 2 * time.Second
	// joinWithin is how old a question under way may be for another request to
	// wait for its answer, which is as old as the question.
	joinWithin = 500 * time.Millisecond
)

var (
	errLookupTimeout = errors.New("the look-up of an API key took too long")
	errLookupPanic   = errors.New("the look-up of an API key did not finish")
)

// DirectoryConfig is what a Directory needs.
type DirectoryConfig struct {
	Pool   *pgxpool.Pool    // required; Run keeps one of its connections
	Format Format           // required, from NewFormat
	Clock  func() time.Time // nil: time.Now
	Log    *slog.Logger     // told when polling begins to fail and when it works again; nil: nobody

	// PollEvery is how often Run asks what changed, at most 300 ms; 0: 250 ms.
	PollEvery time.Duration
	// MaxKeys bounds how many secrets are remembered, about 600 bytes each; 0:
	// 100,000.
	MaxKeys int
	// MaxLookups bounds how many look-ups are under way at once, and so how many
	// connections they can take from the pool; 0: 8.
	MaxLookups int
	// OnPoll is called after each poll with its error, for metrics and tests. It
	// must not block; nil: nothing is called.
	OnPoll func(error)
}

// Directory recognises keys. It remembers the keys that are used and has Run ask
// the database several times a second which keys changed, by a counter that
// becomes visible in order (table access_revision), so that no change is missed
// however late it commits. What it remembers counts for 0.9 seconds after the
// last question that was answered; after that, and while Run does not run, it
// asks the database for every request. Its methods may be called by any number of
// goroutines.
type Directory struct {
	cfg           DirectoryConfig
	pollTimeout   time.Duration
	lookupTimeout time.Duration
	cache         *cache
	running       atomic.Bool
	asked         atomic.Uint64
	slots         chan struct{} // one for each look-up under way

	mu      sync.Mutex
	flights map[hash]*flight
}

// flight is a look-up under way, shared by requests with the same key.
type flight struct {
	began time.Time
	done  chan struct{} // closed when entry and err are set
	entry *entry        // nil without an error: there is no such key
	err   error
}

// NewDirectory makes a Directory. The error says what is wrong with cfg.
func NewDirectory(cfg DirectoryConfig) (*Directory, error) {
	if cfg.Pool == nil || cfg.Format.brand == "" {
		return nil, errors.New("access directory: Pool and Format must be set")
	}
	if cfg.PollEvery < 0 || cfg.PollEvery > pollTimeout || cfg.MaxKeys < 0 || cfg.MaxLookups < 0 {
		return nil, fmt.Errorf("access directory: PollEvery must be 0 to %v, MaxKeys and MaxLookups not below 0", pollTimeout)
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.PollEvery == 0 {
		cfg.PollEvery = 250 * time.Millisecond
	}
	if cfg.MaxKeys == 0 {
		cfg.MaxKeys = 100_000
	}
	if cfg.MaxLookups == 0 {
		cfg.MaxLookups = 8
	}
	if cfg.OnPoll == nil {
		cfg.OnPoll = func(error) {}
	}
	return &Directory{
		cfg:           cfg,
		pollTimeout:   pollTimeout,
		lookupTimeout: lookupTimeout,
		cache:         newCache(trustFor, maxAge, cfg.MaxKeys),
		slots:         make(chan struct{}, cfg.MaxLookups),
		flights:       map[hash]*flight{},
	}, nil
}

// Authenticate gives the key whose full text it is handed, "" for none. The Key is
// shared and must not be changed. Errors: ErrRefused, as a *RefusedError, for a
// text that is no valid key, for whatever reason; ErrUnavailable if the database
// had to be asked and does not answer; ctx's own.
func (d *Directory) Authenticate(ctx context.Context, text string) (*Key, error) {
	if text == "" {
		return nil, &RefusedError{Reason: ReasonMissing}
	}
	secret, err := d.cfg.Format.Parse(text)
	if err != nil {
		return nil, &RefusedError{Reason: ReasonMalformed}
	}
	h := secret.Hash()
	e, epoch := d.cache.get(h, d.cfg.Clock())
	if e == nil {
		if e, err = d.lookUp(ctx, h, epoch); err != nil {
			return nil, err
		}
	}
	if e == nil {
		return nil, &RefusedError{Reason: ReasonUnknown, Prefix: secret.Prefix()}
	}
	return e.admit(d.cfg.Clock())
}

// lookUp asks the database, or waits for a request that is asking for the same.
func (d *Directory) lookUp(ctx context.Context, h hash, epoch uint64) (*entry, error) {
	now := d.cfg.Clock()
	d.mu.Lock()
	f, joined := d.flights[h]
	joined = joined && within(f.began, now, joinWithin)
	if !joined {
		f = &flight{began: now, done: make(chan struct{}), err: errLookupPanic}
		d.flights[h] = f
	}
	d.mu.Unlock()
	if !joined {
		d.fly(ctx, h, epoch, f)
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the look-up of an API key: %w", context.Cause(ctx))
	}
	if f.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, f.err)
	}
	return f.entry, nil
}

// fly runs in the goroutine of the request that asked first. It does not end with
// that request, because others wait for the answer.
func (d *Directory) fly(ctx context.Context, h hash, epoch uint64, f *flight) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), d.lookupTimeout, errLookupTimeout)
	defer cancel()
	defer func() {
		d.mu.Lock()
		if d.flights[h] == f {
			delete(d.flights, h)
		}
		d.mu.Unlock()
		close(f.done)
	}()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		f.err = context.Cause(ctx)
		return
	}
	d.asked.Add(1)
	f.entry, f.err = readEntry(ctx, d.cfg.Pool, h)
	switch {
	case f.err != nil && ctx.Err() != nil:
		f.err = fmt.Errorf("%w: %w", context.Cause(ctx), f.err)
	case f.entry != nil:
		// What does not exist is not remembered: it would work a moment later if
		// it were made now, and the checksum keeps nonsense from coming this far.
		f.entry.readAt = f.began
		d.cache.put(h, f.entry, epoch, d.cfg.Clock())
	}
}

// Stats is a Directory at a glance, for metrics.
type Stats struct {
	Remembered int    // secrets in memory
	Lookups    uint64 // questions to the database so far, polls not counted
	Fresh      bool   // false: every request asks the database
}

// Stats may be called at any time.
func (d *Directory) Stats() Stats {
	return Stats{Remembered: d.cache.len(), Lookups: d.asked.Load(), Fresh: d.cache.fresh(d.cfg.Clock())}
}
