package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
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
	keys      *keyCounts
	addresses *addressCounts
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
	total, ok := l.keys.take(minuteOf(now), key)
	return allowance(key.RateLimit, total, ok, now)
}

// Left returns a key's allowance without counting a request.
func (l *Limiter) Left(key *Key) Allowance {
	now := l.cfg.Clock()
	total := l.keys.total(minuteOf(now), key)
	return allowance(key.RateLimit, total, total <= int64(key.RateLimit), now)
}

// Refuse counts one refused key from an address. The allowance is not OK if the address had already
// sent more than RefusedKeysPerMinute of them in this minute; the 22nd is the first that is not OK
// (docs/contract/decisions.md, "Requests", 3: the slow-down is checked before the key).
func (l *Limiter) Refuse(address netip.Addr) Allowance {
	now := l.cfg.Clock()
	total, ok, first := l.addresses.take(minuteOf(now), address, RefusedKeysPerMinute+1)
	a := allowance(RefusedKeysPerMinute, total, ok, now)
	a.FirstRefused = first
	return a
}

// Refusals returns an address's allowance without counting a refused key.
func (l *Limiter) Refusals(address netip.Addr) Allowance {
	now := l.cfg.Clock()
	total := l.addresses.total(minuteOf(now), address)
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
}

func (c *count) total() int64 { return c.shared + c.inFlight + c.pending }

// take counts one more unless limit is reached.
func (c *count) take(limit int64) bool {
	if c.total() >= limit {
		return false
	}
	c.pending++
	return true
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
	deltas := l.addresses.appendPending(minute, l.keys.appendPending(nil))
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
		l.keys.update(minute, workspaceID, subject, create, change)
		return
	}
	if network, ok := parseNetwork(subject); ok {
		l.addresses.update(minute, network, create, change)
	}
}

// addressCounts counts refused keys by address in a table of a fixed size, so that a flood of
// addresses does not make the process grow. An address takes one of the eight slots of a bucket;
// when all are taken, it replaces the address with the fewest refused keys. This errs in the
// callers' favour: callers who keep changing their address cannot be told apart anyway, and an
// address that keeps sending refused keys keeps its slot.
type addressCounts struct {
	seed    maphash.Seed
	buckets []addressBucket
}

const (
	// addressSlots is how many addresses are told apart; they take 4 MiB.
	addressSlots = 1 << 16
	bucketSlots  = 8
)

type addressBucket struct {
	mu    sync.Mutex
	slots [bucketSlots]addressSlot
}

type addressSlot struct {
	network [16]byte
	minute  int64 // the slot is free in all other minutes
	refused bool  // a take has failed
	count
}

func newAddressCounts() *addressCounts {
	return &addressCounts{seed: maphash.MakeSeed(), buckets: make([]addressBucket, addressSlots/bucketSlots)}
}

// networkOf returns what counts as one address: an IPv4 address, or an IPv6 /64 network, which
// usually belongs to one caller.
func networkOf(address netip.Addr) [16]byte {
	address = address.Unmap()
	if !address.Is6() {
		if !address.IsValid() {
			return [16]byte{}
		}
		return address.As16()
	}
	network := address.As16()
	clear(network[8:])
	return network
}

// formatNetwork formats a network as the table rate_count stores it.
func formatNetwork(network [16]byte) string { return netip.AddrFrom16(network).Unmap().String() }

// parseNetwork is the reverse of formatNetwork.
func parseNetwork(text string) ([16]byte, bool) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return [16]byte{}, false
	}
	return address.As16(), true
}

func (a *addressCounts) bucket(network [16]byte) *addressBucket {
	return &a.buckets[maphash.Bytes(a.seed, network[:])%uint64(len(a.buckets))]
}

// find returns the slot of a network in a minute, or nil. The caller holds mu.
func (b *addressBucket) find(minute int64, network [16]byte) *addressSlot {
	for i := range b.slots {
		if s := &b.slots[i]; s.minute == minute && s.network == network {
			return s
		}
	}
	return nil
}

// findOrReplace returns the slot of a network in a minute. A network without a slot gets a free
// one, or replaces the network with the fewest refused keys. The caller holds mu.
func (b *addressBucket) findOrReplace(minute int64, network [16]byte) *addressSlot {
	if s := b.find(minute, network); s != nil {
		return s
	}
	victim := &b.slots[0]
	for i := range b.slots {
		s := &b.slots[i]
		if s.minute != minute {
			victim = s
			break
		}
		if s.total() < victim.total() {
			victim = s
		}
	}
	*victim = addressSlot{network: network, minute: minute}
	return victim
}

// take counts one refused key unless limit is reached. first is true the first time that the limit
// refuses this network in the minute.
func (a *addressCounts) take(minute int64, address netip.Addr, limit int64) (total int64, ok, first bool) {
	network := networkOf(address)
	b := a.bucket(network)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.findOrReplace(minute, network)
	ok = s.take(limit)
	first = !ok && !s.refused
	s.refused = s.refused || !ok
	return s.total(), ok, first
}

func (a *addressCounts) total(minute int64, address netip.Addr) int64 {
	network := networkOf(address)
	b := a.bucket(network)
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.find(minute, network); s != nil {
		return s.total()
	}
	return 0
}

// maxSharedAddresses is the most addresses that one exchange adds to the table. Those with the most
// refused keys go first.
const maxSharedAddresses = 2000

// appendPending moves the pending counts of the addresses with the most refused keys to deltas.
func (a *addressCounts) appendPending(minute int64, deltas []delta) []delta {
	type busy struct {
		network [16]byte
		total   int64
	}
	var list []busy
	for i := range a.buckets {
		b := &a.buckets[i]
		b.mu.Lock()
		for j := range b.slots {
			if s := &b.slots[j]; s.minute == minute && s.pending > 0 {
				list = append(list, busy{s.network, s.total()})
			}
		}
		b.mu.Unlock()
	}
	if len(list) > maxSharedAddresses {
		slices.SortFunc(list, func(x, y busy) int { return cmp.Compare(y.total, x.total) })
		list = list[:maxSharedAddresses]
	}
	for _, l := range list {
		a.update(minute, l.network, false, func(c *count) {
			if c.pending > 0 {
				deltas = append(deltas, delta{workspaceID: noWorkspace, subject: formatNetwork(l.network), minute: minute, n: c.takePending()})
			}
		})
	}
	return deltas
}

// update changes the count of a network in a minute. A network without a slot gets
// one if create is true.
func (a *addressCounts) update(minute int64, network [16]byte, create bool, change func(*count)) {
	b := a.bucket(network)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.find(minute, network)
	if s == nil && create {
		s = b.findOrReplace(minute, network)
	}
	if s != nil {
		change(&s.count)
	}
}

// keyCounts counts the requests of keys in the current minute. Only valid keys are
// counted, so there are never more counts than keys in use.
type keyCounts struct {
	seed   maphash.Seed
	shards [32]keyShard
}

type keyShard struct {
	mu     sync.Mutex
	minute int64
	counts map[string]*keyCount // by key id
}

type keyCount struct {
	workspaceID string
	count
}

func newKeyCounts() *keyCounts { return &keyCounts{seed: maphash.MakeSeed()} }

func (k *keyCounts) shard(keyID string) *keyShard {
	return &k.shards[maphash.String(k.seed, keyID)%uint64(len(k.shards))]
}

// at returns the count of a key in a minute and creates it if it does not exist. If minute is
// before the shard's, because the clock was set back, the shard's minute applies. The caller holds
// mu.
func (s *keyShard) at(minute int64, workspaceID, keyID string) *keyCount {
	if minute > s.minute || s.counts == nil {
		s.minute, s.counts = minute, map[string]*keyCount{}
	}
	c := s.counts[keyID]
	if c == nil {
		c = &keyCount{workspaceID: workspaceID}
		s.counts[keyID] = c
	}
	return c
}

func (k *keyCounts) take(minute int64, key *Key) (total int64, ok bool) {
	s := k.shard(key.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.at(minute, key.WorkspaceID, key.ID)
	ok = c.take(int64(key.RateLimit))
	return c.total(), ok
}

// total returns the count of a key in a minute without adding to it.
func (k *keyCounts) total(minute int64, key *Key) int64 {
	s := k.shard(key.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts[key.ID]
	if minute > s.minute || c == nil {
		return 0
	}
	return c.total()
}

// appendPending moves the pending counts of all keys to deltas.
func (k *keyCounts) appendPending(deltas []delta) []delta {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		for id, c := range s.counts {
			if c.pending > 0 {
				deltas = append(deltas, delta{workspaceID: c.workspaceID, subject: id, minute: s.minute, n: c.takePending()})
			}
		}
		s.mu.Unlock()
	}
	return deltas
}

// update changes the count of a key in a minute. A key without a count gets one if create is true.
// Counts of another minute stay unchanged.
func (k *keyCounts) update(minute int64, workspaceID, keyID string, create bool, change func(*count)) {
	s := k.shard(keyID)
	s.mu.Lock()
	defer s.mu.Unlock()
	var c *keyCount
	if create {
		c = s.at(minute, workspaceID, keyID)
	} else {
		c = s.counts[keyID]
	}
	if c != nil && s.minute == minute {
		change(&c.count)
	}
}
