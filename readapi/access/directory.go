package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

const (
	// trustFor is how long the cache is trusted after the last successful poll began. It is below a
	// second because a revoked key must stop working within one (docs/contract/decisions.md,
	// "Keys").
	trustFor = 900 * time.Millisecond
	// maxAge limits how long a key is cached. It bounds errors that polls cannot see, such as a
	// database that was restored to an earlier state.
	maxAge = 5 * time.Minute
	// lookUpTimeout bounds one query, including the wait for a connection.
	lookUpTimeout = 2 * time.Second
)

var errLookUpTimeout = errors.New("the look-up of an API key took too long")

// DirectoryConfig is what a Directory needs.
type DirectoryConfig struct {
	Pool   pg.DB            // required; must keep a connection reserved for polls
	Format Format           // required, from NewFormat
	Clock  func() time.Time // nil: time.Now
	Log    *slog.Logger     // gets a line when polls start to fail and when they recover; nil: no lines

	// PollEvery is how often Run asks the database which keys changed, at most
	// 300 ms; 0: 250 ms.
	PollEvery time.Duration
	// MaxKeys bounds how many secrets are cached, about 600 bytes each; 0: 100,000.
	MaxKeys int
	// MaxLookUps bounds how many look-ups are in flight at once, and so how many connections of the
	// pool they can take; 0: 8.
	MaxLookUps int
	// OnPoll is called after each poll with its error, for metrics and tests. It must not block;
	// nil: no callback.
	OnPoll func(error)
}

// Directory authenticates keys. It caches the keys in use, and Run asks the database several times
// a second which keys have changed. Run reads a counter whose values become visible in order (table
// access_revision), so it misses no change, however late the change commits.
//
// The cache is trusted for 0.9 seconds after the last successful poll began. After that, and while
// Run is not running, every request looks its key up in the database. While no requests arrive, Run
// skips every second poll; a request that arrives after a skipped poll also looks its key up. Any
// number of goroutines may call the methods.
type Directory struct {
	cfg           DirectoryConfig
	pollTimeout   time.Duration
	lookUpTimeout time.Duration
	cache         *cache
	running       atomic.Bool
	queries       atomic.Uint64 // look-ups sent to the database
	asked         atomic.Bool   // whether a key was asked for since the last poll
	leftOut       atomic.Bool   // the last poll was skipped because no key was asked for; until the next one, the cache is not used

	// lookUps sends the look-ups of several requests as one query.
	lookUps *flow.Coalescer[*lookUp]
	slow    *slowLookUps
}

// lookUp asks the database for one secret, which the cache does not hold or cannot be trusted for.
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
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.PollEvery = cmp.Or(cfg.PollEvery, 250*time.Millisecond)
	cfg.MaxKeys = cmp.Or(cfg.MaxKeys, 100_000)
	cfg.MaxLookUps = cmp.Or(cfg.MaxLookUps, 8)
	if cfg.OnPoll == nil {
		cfg.OnPoll = func(error) {}
	}
	d := &Directory{
		cfg:           cfg,
		pollTimeout:   maxPoll,
		lookUpTimeout: maxLookUp,
		cache:         newCache(trustFor, maxAge, cfg.MaxKeys),
	}
	// Detached: a request whose caller gives up does not wait for the rest of the batch.
	d.lookUps = flow.NewCoalescer(flow.CoalescerConfig[*lookUp]{Run: d.readEntries, Timeout: maxLookUp, Concurrent: cfg.MaxLookUps, Detached: true})
	d.slow = &slowLookUps{read: d.readSlowly}
	return d, nil
}

// Authenticate returns the key with the given full text, "" for none. The Key is shared and must
// not be changed. Errors: ErrRefused, as a *RefusedError, if text is not a valid key, for whatever
// reason; ErrUnavailable if the database is needed and does not answer; ctx's own.
func (d *Directory) Authenticate(ctx context.Context, text string) (*Key, error) {
	return d.authenticate(ctx, text, d.lookUps.Do)
}

// AuthenticateSlowly is Authenticate for an address that has sent many refused keys. Its look-ups
// take a tenth of a second longer and share one query.
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
	if !d.asked.Load() { // cheaper than a store if it is already set
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

// lookUp reads a secret from the database, in one query with the look-ups of other concurrent
// requests. The result is no older than the call.
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
	// Unknown secrets are not cached: a new key must work as soon as it is made, and the checksum
	// keeps random texts from getting this far.
	for h, e := range found {
		e.readAt = began
		d.cache.put(h, e, epoch, d.cfg.Clock())
	}
}

// Stats describes a Directory, for metrics.
type Stats struct {
	Cached  int    // secrets in memory
	LookUps uint64 // queries so far, polls not counted
	Fresh   bool   // false: every request looks its key up in the database
}

// Stats returns the current statistics. It may be called at any time.
func (d *Directory) Stats() Stats {
	return Stats{Cached: d.cache.len(), LookUps: d.queries.Load(), Fresh: d.cache.fresh(d.cfg.Clock())}
}

// cache holds entries while they are known to be up to date. Any number of goroutines may call its
// methods.
//
// It has two generations. New entries go into the newer one. When that is full or too old, it
// becomes the older one, and the previous older one is dropped. This bounds the memory and drops
// keys that are no longer used, without bookkeeping on reads.
//
// It uses no library, for two reasons. Putting, forgetting and confirming must each be atomic with
// the epoch, so any library would need our own lock around it. And get, which every request calls,
// needs only a read lock here, because it does not record that an entry was used.
type cache struct {
	trustFor time.Duration // after the last confirmation
	maxAge   time.Duration // of an entry
	maxNewer int           // entries in a generation

	mu           sync.RWMutex
	newer, older map[hash]*entry
	newerSince   time.Time
	confirmedAt  time.Time // when the last successful poll began; zero: there was none
	epoch        uint64    // changes whenever something is forgotten
}

func newCache(trustFor, maxAge time.Duration, maxEntries int) *cache {
	return &cache{trustFor: trustFor, maxAge: maxAge, maxNewer: max(1, maxEntries/2), newer: map[hash]*entry{}}
}

// get returns the entry of h if it is known to be up to date; otherwise nil.
func (c *cache) get(h hash, now time.Time) *entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.trusted(now) {
		return nil
	}
	e := c.newer[h]
	if e == nil {
		e = c.older[h]
	}
	if e == nil || !within(e.readAt, now, c.maxAge) {
		return nil
	}
	return e
}

// currentEpoch returns the epoch to pass to put. Call it before reading the entry from the
// database.
func (c *cache) currentEpoch() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.epoch
}

// put caches e, unless something was forgotten since epoch was read: e could be the forgotten
// entry, read just before it changed.
func (c *cache) put(h hash, e *entry, epoch uint64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch || !c.trusted(now) {
		return
	}
	if len(c.newer) >= c.maxNewer {
		c.startGeneration(now)
	}
	c.newer[h] = e
}

// confirm records that the cache is correct as of at. It first removes forget, or everything if all
// is true. It also removes everything if the last confirmation is too old: after an outage, another
// server may answer that lacks the latest changes.
func (c *cache) confirm(at time.Time, forget []hash, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if all || !c.trusted(at) {
		c.newer, c.older = map[hash]*entry{}, nil
		c.newerSince = at
		c.epoch++
	}
	if len(forget) > 0 {
		c.epoch++
	}
	for _, h := range forget {
		delete(c.newer, h)
		delete(c.older, h)
	}
	if !within(c.newerSince, at, c.maxAge) {
		c.startGeneration(at)
	}
	c.confirmedAt = at
}

// len is how many entries are cached.
func (c *cache) len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.newer) + len(c.older)
}

// fresh reports whether get can find anything.
func (c *cache) fresh(now time.Time) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.trusted(now)
}

// startGeneration drops the old generation. The caller holds mu.
func (c *cache) startGeneration(now time.Time) {
	c.newer, c.older, c.newerSince = map[hash]*entry{}, c.newer, now
}

// trusted reports whether the cache is up to date. The caller holds mu.
func (c *cache) trusted(now time.Time) bool {
	return !c.confirmedAt.IsZero() && within(c.confirmedAt, now, c.trustFor)
}

// within reports whether now is less than d after start, and not before it: after the clock was set
// back, the elapsed time is unknown.
func within(start, now time.Time, d time.Duration) bool {
	since := now.Sub(start)
	return 0 <= since && since < d
}

const (
	// pollTimeout leaves time for another poll before trustFor ends.
	pollTimeout = 300 * time.Millisecond
	// maxForgotten is how many secrets one poll removes from the cache one by one. After more
	// changes, for example by a script that revokes a million keys, the poll drops the whole cache.
	maxForgotten = 10_000
)

var errPollTimeout = errors.New("the poll for changed API keys took too long")

// poller is what Run's goroutine remembers between polls.
type poller struct {
	seen   int64 // revision up to which changes are known; -1: none yet
	failed bool  // the last poll did
}

// Run keeps the cache up to date until ctx is done, and then returns nil. It returns an error if
// Run is already running.
func (d *Directory) Run(ctx context.Context) error {
	if !d.running.CompareAndSwap(false, true) {
		return errors.New("access directory: Run is running already")
	}
	defer d.running.Store(false)
	p := &poller{seen: -1}
	flow.Repeat(ctx, d.cfg.PollEvery, &flow.Outage{
		Logger:  d.cfg.Log,
		Failing: "this process cannot see changes of API keys; until it can, it asks the database at every request",
		Working: "this process sees changes of API keys again",
	}, func(ctx context.Context) error { return d.poll(ctx, p) }, d.cfg.OnPoll)
	return nil
}

// poll reads which keys changed and removes them from the cache. It skips every second poll while
// no key is asked for, so that an idle process costs little. After a failed poll it skips none: a
// skipped poll would count as the end of the outage.
func (d *Directory) poll(ctx context.Context, p *poller) (err error) {
	if !d.asked.Swap(false) && p.seen >= 0 && !p.failed && !d.leftOut.Load() {
		d.leftOut.Store(true)
		return nil
	}
	defer func() { p.failed = err != nil }()
	ctx, cancel := context.WithTimeoutCause(ctx, d.pollTimeout, errPollTimeout)
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}()
	began := d.cfg.Clock()
	const current = `SELECT revision FROM access_revision WHERE workspace_id = '*'`
	var revision int64
	if err := d.cfg.Pool.QueryRow(ctx, current).Scan(&revision); err != nil {
		return fmt.Errorf("read the access revision: %w", err)
	}
	// A lower revision than before means that a failover or a restore brought the
	// database back to an earlier state.
	all := p.seen < 0 || revision < p.seen
	var changed []hash
	if !all && revision > p.seen {
		if changed, err = readChanged(ctx, d.cfg.Pool, p.seen); err != nil {
			return err
		}
		all = len(changed) > maxForgotten
	}
	d.cache.confirm(began, changed, all)
	d.leftOut.Store(false)
	// Not the highest revision that readChanged saw: changes above revision are read
	// again by the next poll, which does no harm.
	p.seen = revision
	return nil
}

// readChanged returns the secrets of the keys that changed after a revision, at most
// one more than maxForgotten.
func readChanged(ctx context.Context, pool pg.DB, after int64) ([]hash, error) {
	const changed = `SELECT s.hash FROM api_key k
		JOIN api_key_secret s ON s.workspace_id = k.workspace_id AND s.key_id = k.key_id
		WHERE k.revision > $1 LIMIT $2`
	hashes, err := pg.Collect(ctx, pool, func(row pgx.CollectableRow) (hash, error) {
		var stored []byte
		if err := row.Scan(&stored); err != nil {
			return hash{}, fmt.Errorf("scan a hash: %w", err)
		}
		return hash(stored), nil // 32 bytes by a constraint of the table
	}, changed, after, maxForgotten+1)
	if err != nil {
		return nil, fmt.Errorf("read changed keys: %w", err)
	}
	return hashes, nil
}

// BumpRevision makes every instance read the keys of a workspace again within a second of tx's
// commit. A transaction that changes what a Key contains of its workspace (the name or the move)
// must call it last: all workspaces share the revision row, which stays locked until the
// transaction ends.
func BumpRevision(ctx context.Context, tx pgx.Tx, workspaceID string) error {
	// Lock the keys first and in order, because Store also locks the keys before the revision.
	const lock = `SELECT 1 FROM api_key
		WHERE workspace_id = $1 AND revoked_at IS NULL ORDER BY key_id FOR NO KEY UPDATE`
	if _, err := tx.Exec(ctx, lock, workspaceID); err != nil {
		return fmt.Errorf("lock the keys of the workspace %s: %w", workspaceID, err)
	}
	revision, err := nextRevision(ctx, tx)
	if err != nil {
		return err
	}
	const stamp = `UPDATE api_key SET revision = $2 WHERE workspace_id = $1 AND revoked_at IS NULL`
	if _, err := tx.Exec(ctx, stamp, workspaceID, revision); err != nil {
		return fmt.Errorf("stamp the keys of the workspace %s: %w", workspaceID, err)
	}
	return nil
}

// nextRevision takes the next revision and locks its row until tx ends, so that revisions become
// visible in order.
func nextRevision(ctx context.Context, tx pgx.Tx) (int64, error) {
	// A process that dies without closing its connection must not block all key changes: the
	// timeout makes the server end the transaction if it idles after these statements. Both take
	// one round trip.
	const (
		limit = `SELECT set_config('idle_in_transaction_session_timeout', '5s', true)`
		next  = `UPDATE access_revision SET revision = revision + 1 WHERE workspace_id = '*' RETURNING revision`
	)
	var (
		revision int64
		both     pgx.Batch
	)
	both.Queue(limit)
	both.Queue(next).QueryRow(func(row pgx.Row) error { return row.Scan(&revision) })
	if err := tx.SendBatch(ctx, &both).Close(); err != nil {
		return 0, fmt.Errorf("take the next access revision: %w", err)
	}
	return revision, nil
}

// slowEvery is how long a look-up for a slowed-down address waits for more such look-ups.
const slowEvery = 100 * time.Millisecond

// slowLookUps batches the look-ups for addresses that send refused keys. It collects them for
// slowEvery and runs one query at a time. So invented keys cost the database at most ten queries a
// second, however many arrive from however many addresses, and a valid key from such an address is
// still found.
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

// do waits until l has its result. The only error is ctx's; after it, l may still be in use.
func (s *slowLookUps) do(ctx context.Context, l *lookUp) error {
	s.mu.Lock()
	if s.next == nil {
		s.next = &slowBatch{done: make(chan struct{})}
		time.AfterFunc(slowEvery, s.readNext)
	}
	asked := s.next
	asked.lookUps = append(asked.lookUps, l)
	s.mu.Unlock()
	select {
	case <-asked.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the look-up of an API key: %w", context.Cause(ctx))
	}
}

// readNext reads the look-ups collected so far.
func (s *slowLookUps) readNext() {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	asked := s.next
	s.next = nil
	s.mu.Unlock()
	defer close(asked.done)
	s.read(asked.lookUps)
}
