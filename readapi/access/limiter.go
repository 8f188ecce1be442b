package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// LimiterConfig is what a Limiter needs.
type LimiterConfig struct {
	Pool  pg.DB            // required; must keep a connection reserved for exchanges
	Clock func() time.Time // nil: time.Now
	Log   *slog.Logger     // gets a line when exchanges start to fail and when they recover; nil: no lines

	// ExchangeEvery is how often Run exchanges counts with the other instances,
	// at most a second; 0: half a second. Two instances are at most twice this
	// behind each other.
	ExchangeEvery time.Duration
	// OnExchange is called after each exchange with its error, for metrics and tests. It must not
	// block; nil: no callback.
	OnExchange func(error)
}

// Limiter counts the requests of each key and the refused keys from each address. Any number of
// goroutines may call its methods.
type Limiter struct {
	cfg       LimiterConfig
	keys      *counts[keySubject]
	addresses *counts[networkSubject]
	running   atomic.Bool
}

// NewLimiter makes a Limiter. The error says what is wrong with cfg.
func NewLimiter(cfg LimiterConfig) (*Limiter, error) {
	if cfg.Pool == nil {
		return nil, errors.New("rate limiter: Pool must be set")
	}
	if cfg.ExchangeEvery < 0 || cfg.ExchangeEvery > time.Second {
		return nil, errors.New("rate limiter: ExchangeEvery must be 0 to a second")
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.ExchangeEvery = cmp.Or(cfg.ExchangeEvery, time.Second/2)
	if cfg.OnExchange == nil {
		cfg.OnExchange = func(error) {}
	}
	return &Limiter{cfg: cfg, keys: newKeyCounts(), addresses: newAddressCounts()}, nil
}

// Take counts one request of a key, unless the key's limit is reached.
func (l *Limiter) Take(key *Key) Allowance {
	now := l.cfg.Clock()
	total, ok, _ := l.keys.take(minuteOf(now), subjectOf(key), int64(key.RateLimit))
	return allowance(key.RateLimit, total, ok, now)
}

// Left returns a key's allowance without counting a request.
func (l *Limiter) Left(key *Key) Allowance {
	now := l.cfg.Clock()
	total := l.keys.total(minuteOf(now), subjectOf(key))
	return allowance(key.RateLimit, total, total <= int64(key.RateLimit), now)
}

// Refuse counts one refused key from an address. The allowance is not OK if the address had already
// sent more than RefusedKeysPerMinute of them in this minute; the 22nd is the first that is not OK
// (docs/contract/decisions.md, "Requests", 3: the slow-down is checked before the key).
func (l *Limiter) Refuse(address netip.Addr) Allowance {
	now := l.cfg.Clock()
	total, ok, first := l.addresses.take(minuteOf(now), networkOf(address), RefusedKeysPerMinute+1)
	a := allowance(RefusedKeysPerMinute, total, ok, now)
	a.FirstRefused = first
	return a
}

// Refusals returns an address's allowance without counting a refused key.
func (l *Limiter) Refusals(address netip.Addr) Allowance {
	now := l.cfg.Clock()
	total := l.addresses.total(minuteOf(now), networkOf(address))
	return allowance(RefusedKeysPerMinute, total, total <= RefusedKeysPerMinute, now)
}

// RefusedKeysPerMinute is how many refused keys an address may send in a clock
// minute before it is slowed down (docs/contract/service.md, "Limits").
const RefusedKeysPerMinute = 20

// Allowance is what a key or an address has left in the current clock minute.
type Allowance struct {
	Limit     int // allowed in a clock minute
	Remaining int // left in this minute, never negative
	Reset     int // whole seconds until the minute ends, 1 to 60
	OK        bool

	// FirstRefused says that this is the first allowance in this minute, on this instance, that is
	// not OK. It is set for addresses only.
	FirstRefused bool
}

// minuteOf returns the number of the clock minute, counted since 1970.
func minuteOf(now time.Time) int64 { return now.Unix() / 60 }

// allowance returns what remains of limit after count requests. ok is whether the request was
// within the limit.
func allowance(limit int, count int64, ok bool, now time.Time) Allowance {
	return Allowance{Limit: limit, Remaining: int(max(0, int64(limit)-count)), Reset: secondsLeft(now), OK: ok}
}

// secondsLeft returns the seconds until the clock minute ends. It rounds up, so that a caller who
// waits that long is in the next minute.
func secondsLeft(now time.Time) int {
	end := time.Unix((minuteOf(now)+1)*60, 0)
	return max(1, int((end.Sub(now)+time.Second-1)/time.Second))
}

// count holds the requests of one key or address in one clock minute. A request counted here is
// first pending, then in flight while an exchange adds it to the table, and then part of shared.
type count struct {
	shared   int64 // of all instances, as last read from the table
	inFlight int64 // ours, being added to the table
	pending  int64 // ours, to be added by the next exchange
	refused  bool  // a take has failed
}

func (c *count) total() int64 { return c.shared + c.inFlight + c.pending }

// take counts one more unless limit is reached. first is true the first time that it is.
func (c *count) take(limit int64) (ok, first bool) {
	if c.total() >= limit {
		first = !c.refused
		c.refused = true
		return false, first
	}
	c.pending++
	return true, false
}

// takePending moves the pending count to in flight and returns it.
func (c *count) takePending() int64 {
	n := c.pending
	c.inFlight += n
	c.pending = 0
	return n
}

// added records that the table includes n, or may include it. If the write was lost, this instance
// still counts n.
func (c *count) added(n int64) {
	c.inFlight -= n
	c.shared += n
}

// notAdded records that the table certainly lacks n, so that the next exchange adds it.
func (c *count) notAdded(n int64) {
	c.inFlight -= n
	c.pending += n
}

// setShared takes the table's count, which never falls within a minute.
func (c *count) setShared(total int64) { c.shared = max(c.shared, total) }

// delta is what an exchange adds to the count of one key or address in the table.
type delta struct {
	workspaceID string // noWorkspace for addresses
	subject     string // a key's id, or an address
	minute, n   int64
}

// noWorkspace is the workspace id in counts of addresses, which belong to no workspace. No real
// workspace can have this id.
const noWorkspace = "*"

const (
	exchangeTimeout = time.Second
	// exchangeOverlap is how far each read reaches back before the previous one. It finds rows that
	// were changed before that read and committed after it.
	exchangeOverlap = 3 * time.Second
	// sweepMinutes is how long a count stays in the table after its minute.
	sweepMinutes = 2
)

var errExchangeTimeout = errors.New("the exchange of request counts took too long")

// exchangeState is what Run's goroutine remembers between exchanges.
type exchangeState struct {
	read  time.Time // database time up to which changes were read
	swept int64     // minute of the last sweep
}

// Run exchanges counts with the other instances until ctx is done, and then returns nil. It returns
// an error if Run is already running.
func (l *Limiter) Run(ctx context.Context) error {
	if !l.running.CompareAndSwap(false, true) {
		return errors.New("rate limiter: Run is running already")
	}
	defer l.running.Store(false)
	s := &exchangeState{}
	flow.Repeat(ctx, l.cfg.ExchangeEvery, &flow.Outage{
		Logger:  l.cfg.Log,
		Failing: "request counts are not exchanged; each instance counts alone until they are",
		Working: "request counts are exchanged again",
	}, func(ctx context.Context) error { return l.exchange(ctx, s) }, l.cfg.OnExchange)
	return nil
}

// exchange adds this instance's counts to the table and reads those of the others.
func (l *Limiter) exchange(ctx context.Context, s *exchangeState) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, exchangeTimeout, errExchangeTimeout)
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}()
	conn, err := l.cfg.Pool.Acquire(ctx) // first, because counts that are taken must be sent
	if err != nil {
		return fmt.Errorf("get a connection to exchange request counts: %w", err)
	}
	defer conn.Release()
	minute := minuteOf(l.cfg.Clock())
	deltas := l.addresses.appendPending(l.keys.appendPending(nil))
	// Every instance locks the rows in this order, so that no two deadlock.
	slices.SortFunc(deltas, func(a, b delta) int {
		return cmp.Or(cmp.Compare(a.workspaceID, b.workspaceID), cmp.Compare(a.subject, b.subject))
	})
	err = addToTable(ctx, conn, deltas)
	notAdded := err != nil && pgconn.SafeToRetry(err)
	for _, d := range deltas {
		l.update(d.workspaceID, d.subject, d.minute, false, func(c *count) {
			if notAdded {
				c.notAdded(d.n)
			} else {
				c.added(d.n)
			}
		})
	}
	if err != nil {
		return err
	}
	if err := l.readTable(ctx, conn, s, minute); err != nil {
		return err
	}
	if s.swept != minute {
		const sweep = `DELETE FROM rate_count WHERE minute < $1`
		if _, err := conn.Exec(ctx, sweep, minute-sweepMinutes); err != nil {
			return fmt.Errorf("sweep old request counts: %w", err)
		}
		s.swept = minute
	}
	return nil
}

func addToTable(ctx context.Context, conn *pgxpool.Conn, deltas []delta) error {
	if len(deltas) == 0 {
		return nil
	}
	var (
		workspaces = make([]string, len(deltas))
		subjects   = make([]string, len(deltas))
		minutes    = make([]int64, len(deltas))
		counts     = make([]int64, len(deltas))
	)
	for i, d := range deltas {
		workspaces[i], subjects[i], minutes[i], counts[i] = d.workspaceID, d.subject, d.minute, d.n
	}
	// Skip counts of an earlier minute, which come from an instance whose clock is behind.
	const add = `
		INSERT INTO rate_count AS r (workspace_id, subject, minute, taken, changed_at)
		SELECT t.w, t.s, t.m, t.n, clock_timestamp()
		  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS t (w, s, m, n)
		ON CONFLICT (workspace_id, subject) DO UPDATE
		   SET taken = CASE WHEN r.minute = excluded.minute THEN r.taken + excluded.taken ELSE excluded.taken END,
		       minute = excluded.minute, changed_at = excluded.changed_at
		 WHERE r.minute <= excluded.minute`
	if _, err := conn.Exec(ctx, add, workspaces, subjects, minutes, counts); err != nil {
		return fmt.Errorf("add request counts to the table: %w", err)
	}
	return nil
}

// readTable reads the counts that changed since the last exchange.
func (l *Limiter) readTable(ctx context.Context, conn *pgxpool.Conn, s *exchangeState, minute int64) error {
	const changed = `
		SELECT workspace_id, subject, taken, clock_timestamp() FROM rate_count WHERE minute = $1 AND changed_at > $2
		UNION ALL
		SELECT '', '', 0, clock_timestamp()`
	var (
		workspaceID, subject string
		taken                int64
		at                   time.Time
	)
	err := pg.ForEach(ctx, conn, changed, []any{minute, s.read.Add(-exchangeOverlap)}, []any{&workspaceID, &subject, &taken, &at}, func() error {
		if workspaceID != "" {
			l.update(workspaceID, subject, minute, true, func(c *count) { c.setShared(taken) })
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read request counts: %w", err)
	}
	s.read = at
	return nil
}

// update applies change to the local count for a row of the table.
func (l *Limiter) update(workspaceID, subject string, minute int64, create bool, change func(*count)) {
	if workspaceID != noWorkspace {
		l.keys.update(minute, keySubject{workspaceID, subject}, create, change)
		return
	}
	if address, err := netip.ParseAddr(subject); err == nil {
		l.addresses.update(minute, address.As16(), create, change)
	}
}

// subject is what is counted: a key, or a network.
type subject interface {
	comparable
	// row returns what its row in the table rate_count is found by.
	row() (workspaceID, subject string)
}

type keySubject struct{ workspaceID, keyID string }

func subjectOf(key *Key) keySubject { return keySubject{key.WorkspaceID, key.ID} }

func (k keySubject) row() (workspaceID, subject string) { return k.workspaceID, k.keyID }

// networkSubject is what counts as one address: an IPv4 address, or an IPv6 /64 network, which usually
// belongs to one caller.
type networkSubject [16]byte

func networkOf(address netip.Addr) (n networkSubject) {
	address = address.Unmap()
	if !address.IsValid() {
		return n
	}
	n = address.As16()
	if address.Is6() {
		clear(n[8:])
	}
	return n
}

func (n networkSubject) row() (workspaceID, subject string) {
	return noWorkspace, netip.AddrFrom16(n).Unmap().String()
}

// counts holds the counts of subjects in the current minute.
type counts[S subject] struct {
	seed   maphash.Seed
	shards []shard[S]
	room   int // subjects in a shard
	most   int // subjects that one exchange adds to the table; those with the highest counts go first
}

type shard[S subject] struct {
	mu     sync.Mutex
	minute int64
	counts map[S]*count
}

// newKeyCounts counts the requests of keys. Only valid keys are counted, so there are never more
// counts than keys in use.
func newKeyCounts() *counts[keySubject] {
	return &counts[keySubject]{maphash.MakeSeed(), make([]shard[keySubject], 32), math.MaxInt, math.MaxInt}
}

const (
	// addressShards and addressRoom bound the addresses that are told apart, which take some 6 MiB.
	addressShards = 1 << 13
	addressRoom   = 8
	// maxSharedAddresses is the most addresses that one exchange adds to the table.
	maxSharedAddresses = 2000
)

// newAddressCounts counts refused keys by address. The counts have a bounded size, so that a flood of
// addresses does not make the process grow. If a shard is full, an address replaces the one with the
// fewest refused keys. This errs in the callers' favour: callers who keep changing their address
// cannot be told apart anyway, and an address that keeps sending refused keys keeps its count.
func newAddressCounts() *counts[networkSubject] {
	return &counts[networkSubject]{maphash.MakeSeed(), make([]shard[networkSubject], addressShards), addressRoom, maxSharedAddresses}
}

// locked returns the shard of a subject. The caller must unlock it.
func (c *counts[S]) locked(of S) *shard[S] {
	s := &c.shards[maphash.Comparable(c.seed, of)%uint64(len(c.shards))]
	s.mu.Lock()
	return s
}

// at returns the count of a subject in a minute and creates it if it does not exist. If minute is
// before the shard's, because the clock was set back, the shard's minute applies. The caller holds
// mu.
func (s *shard[S]) at(minute int64, of S, room int) *count {
	if minute > s.minute || s.counts == nil {
		s.minute, s.counts = minute, map[S]*count{}
	}
	c := s.counts[of]
	if c != nil {
		return c
	}
	if len(s.counts) >= room {
		var fewest S
		least := int64(math.MaxInt64)
		for other, c := range s.counts {
			if total := c.total(); total < least {
				fewest, least = other, total
			}
		}
		delete(s.counts, fewest)
	}
	c = &count{}
	s.counts[of] = c
	return c
}

// take counts one more of a subject unless limit is reached. first is true the first time that the
// limit refuses it in the minute.
func (c *counts[S]) take(minute int64, of S, limit int64) (total int64, ok, first bool) {
	s := c.locked(of)
	defer s.mu.Unlock()
	n := s.at(minute, of, c.room)
	ok, first = n.take(limit)
	return n.total(), ok, first
}

// total returns the count of a subject in a minute without adding to it.
func (c *counts[S]) total(minute int64, of S) int64 {
	s := c.locked(of)
	defer s.mu.Unlock()
	n := s.counts[of]
	if minute > s.minute || n == nil {
		return 0
	}
	return n.total()
}

// appendPending moves the pending counts to deltas.
func (c *counts[S]) appendPending(deltas []delta) []delta {
	type busy struct {
		subject       S
		minute, total int64
	}
	var list []busy
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for of, n := range s.counts {
			if n.pending > 0 {
				list = append(list, busy{of, s.minute, n.total()})
			}
		}
		s.mu.Unlock()
	}
	if len(list) > c.most {
		slices.SortFunc(list, func(x, y busy) int { return cmp.Compare(y.total, x.total) })
		list = list[:c.most]
	}
	for _, l := range list {
		c.update(l.minute, l.subject, false, func(n *count) {
			if n.pending > 0 {
				workspaceID, subject := l.subject.row()
				deltas = append(deltas, delta{workspaceID, subject, l.minute, n.takePending()})
			}
		})
	}
	return deltas
}

// update changes the count of a subject in a minute. A subject without a count gets one if create is
// true. Counts of another minute stay unchanged.
func (c *counts[S]) update(minute int64, of S, create bool, change func(*count)) {
	s := c.locked(of)
	defer s.mu.Unlock()
	if create {
		s.at(minute, of, c.room)
	}
	if n := s.counts[of]; n != nil && s.minute == minute {
		change(n)
	}
}
