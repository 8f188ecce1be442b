package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/batch"
)

const (
	// trustFor is how long after the start of the last successful poll the cache is
	// trusted: less than the second within which a revoked key must stop working
	// (docs/contract/decisions.md, "Keys").
	trustFor = 900 * time.Millisecond
	// maxAge of a cached key bounds faults that polls cannot see, such as a database
	// that was restored to an earlier state.
	maxAge = 5 * time.Minute
	// lookUpTimeout is for one query, waiting for a connection included.
	lookUpTimeout = 2 * time.Second
)

var errLookUpTimeout = errors.New("the look-up of an API key took too long")

// DirectoryConfig is what a Directory needs.
type DirectoryConfig struct {
	Pool   *pgxpool.Pool    // required; Run holds one of its connections
	Format Format           // required, from NewFormat
	Clock  func() time.Time // nil: time.Now
	Log    *slog.Logger     // gets a line when polls begin to fail and when they work again; nil: no lines

	// PollEvery is how often Run asks the database which keys changed, at most
	// 300 ms; 0: 250 ms.
	PollEvery time.Duration
	// MaxKeys bounds how many secrets are cached, about 600 bytes each; 0: 100,000.
	MaxKeys int
	// MaxLookUps bounds how many look-ups are under way at once, and so how many
	// connections of the pool they can take; 0: 8.
	MaxLookUps int
	// OnPoll is called after each poll with its error, for metrics and tests. It
	// must not block; nil: nothing is called.
	OnPoll func(error)
}

// Directory recognises keys. It caches the keys that are in use, and Run asks the
// database several times a second which keys changed, by a counter whose values become
// visible in order (table access_revision), so that no change is missed however late
// it commits. The cache is trusted for 0.9 seconds after the start of the last
// successful poll; after that, and while Run does not run, every request looks its
// key up in the database. While nobody asks for keys, every second poll is left out, and
// a request that comes then looks its key up, too. The methods may be called by any number of goroutines.
type Directory struct {
	cfg           DirectoryConfig
	pollTimeout   time.Duration
	lookUpTimeout time.Duration
	cache         *cache
	running       atomic.Bool
	queries       atomic.Uint64 // look-ups sent to the database
	asked         atomic.Bool   // for a key, since the last poll
	leftOut       atomic.Bool   // the last poll was, because nobody had asked: the cache is not asked meanwhile

	// lookUps sends the look-ups of several requests as one query.
	lookUps *batch.Coalescer[*lookUp]
	slow    *slowLookUps
}

// lookUp asks for one secret. The cache does not know it, or cannot be trusted.
type lookUp struct {
	hash  hash
	entry *entry // nil without an error: there is no such key
	err   error
}

// NewDirectory makes a Directory. The error says what is wrong with cfg.
func NewDirectory(cfg DirectoryConfig) (*Directory, error) {
	return newDirectory(cfg, pollTimeout, lookUpTimeout)
}

func newDirectory(cfg DirectoryConfig, maxPoll, maxLookUp time.Duration) (*Directory, error) {
	if cfg.Pool == nil || cfg.Format.brand == "" {
		return nil, errors.New("access directory: Pool and Format must be set")
	}
	if cfg.PollEvery < 0 || cfg.PollEvery > pollTimeout || cfg.MaxKeys < 0 || cfg.MaxLookUps < 0 {
		return nil, fmt.Errorf("access directory: PollEvery must be 0 to %v, MaxKeys and MaxLookUps must not be below 0", pollTimeout)
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
	if cfg.MaxLookUps == 0 {
		cfg.MaxLookUps = 8
	}
	if cfg.OnPoll == nil {
		cfg.OnPoll = func(error) {}
	}
	d := &Directory{
		cfg:           cfg,
		pollTimeout:   maxPoll,
		lookUpTimeout: maxLookUp,
		cache:         newCache(trustFor, maxAge, cfg.MaxKeys),
	}
	// Detached: a request whose caller goes does not wait for the others.
	d.lookUps = batch.New(batch.Config[*lookUp]{Run: d.readEntries, Timeout: maxLookUp, Concurrent: cfg.MaxLookUps, Detached: true})
	d.slow = &slowLookUps{read: d.readSlowly}
	return d, nil
}

// Authenticate returns the key of a full text, "" for none. The Key is shared and must
// not be changed. Errors: ErrRefused, as a *RefusedError, for a text that is no valid
// key, for whatever reason; ErrUnavailable if the database is needed and does not
// answer; ctx's own.
func (d *Directory) Authenticate(ctx context.Context, text string) (*Key, error) {
	return d.authenticate(ctx, text, d.lookUps.Do)
}

// AuthenticateSlowly is Authenticate for an address that has sent many refused keys. A
// look-up takes a tenth of a second longer and shares its query with all others of
// this kind.
func (d *Directory) AuthenticateSlowly(ctx context.Context, text string) (*Key, error) {
	return d.authenticate(ctx, text, d.slow.do)
}

func (d *Directory) authenticate(ctx context.Context, text string, do func(context.Context, *lookUp) error) (*Key, error) {
	if text == "" {
		return nil, &RefusedError{Reason: ReasonMissing}
	}
	secret, err := d.cfg.Format.parse(text)
	if err != nil {
		return nil, &RefusedError{Reason: ReasonMalformed}
	}
	if !d.asked.Load() { // which is cheaper where it is set already
		d.asked.Store(true)
	}
	h := secret.Hash()
	var e *entry
	if !d.leftOut.Load() {
		e = d.cache.get(h, d.cfg.Clock())
	}
	if e == nil {
		if e, err = d.lookUp(ctx, h, do); err != nil {
			return nil, err
		}
	}
	if e == nil {
		return nil, &RefusedError{Reason: ReasonUnknown, Prefix: secret.Prefix()}
	}
	return e.admit(d.cfg.Clock())
}

// lookUp reads a secret from the database, together with those that other requests
// look up at the same time. The result is no older than the call.
func (d *Directory) lookUp(ctx context.Context, h hash, do func(context.Context, *lookUp) error) (*entry, error) {
	l := &lookUp{hash: h}
	limited, cancel := context.WithTimeoutCause(ctx, d.lookUpTimeout, errLookUpTimeout)
	defer cancel()
	if err := do(limited, l); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("wait for the look-up of an API key: %w", context.Cause(ctx))
		}
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if l.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, l.err)
	}
	return l.entry, nil
}

// readSlowly is readEntries for slowLookUps.
func (d *Directory) readSlowly(lookUps []*lookUp) {
	ctx, cancel := context.WithTimeout(context.Background(), d.lookUpTimeout)
	defer cancel()
	d.readEntries(ctx, lookUps)
}

// readEntries reads the secrets of a batch and caches what it finds.
func (d *Directory) readEntries(ctx context.Context, lookUps []*lookUp) {
	d.queries.Add(1)
	epoch, began := d.cache.currentEpoch(), d.cfg.Clock()
	hashes := make([]hash, len(lookUps))
	for i, l := range lookUps {
		hashes[i] = l.hash
	}
	found, err := readEntries(ctx, d.cfg.Pool, hashes)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", errLookUpTimeout, err)
	}
	for _, l := range lookUps {
		l.entry, l.err = found[l.hash], err
	}
	// A secret that does not exist is not cached: it has to work as soon as it is
	// made, and the checksum keeps invented ones from getting this far.
	for h, e := range found {
		e.readAt = began
		d.cache.put(h, e, epoch, d.cfg.Clock())
	}
}

// Stats is a Directory at a glance, for metrics.
type Stats struct {
	Cached  int    // secrets in memory
	LookUps uint64 // queries so far, polls not counted
	Fresh   bool   // false: every request looks its key up in the database
}

// Stats may be called at any time.
func (d *Directory) Stats() Stats {
	return Stats{Cached: d.cache.len(), LookUps: d.queries.Load(), Fresh: d.cache.fresh(d.cfg.Clock())}
}
