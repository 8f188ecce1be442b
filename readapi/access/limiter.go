package access

import (
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// LimiterConfig is what a Limiter needs.
type LimiterConfig struct {
	Pool  *pgxpool.Pool    // required; Run keeps one of its connections
	Clock func() time.Time // nil: time.Now
	Log   *slog.Logger     // told when exchanging begins to fail and when it works again; nil: nobody

	// ExchangeEvery is how often Run exchanges counts with the other instances,
	// at most a second; 0: half a second. Two instances are at most twice this
	// behind each other.
	ExchangeEvery time.Duration
	// OnExchange is called after each exchange with its error, for metrics and
	// tests. It must not block; nil: nothing is called.
	OnExchange func(error)
}

// Limiter counts the requests of keys and the refused keys of addresses in clock
// minutes (docs/contract/service.md, "Limits"). It counts in memory and costs no SQL for a
// request; while Run runs, all instances of a service count together. Its methods
// may be called by any number of goroutines.
type Limiter struct {
	cfg       LimiterConfig
	keys      *keyCounts
	addresses *addressCounts
	running   atomic.Bool
}

// NewLimiter makes a Limiter. The error says what is wrong with cfg.
func NewLimiter(cfg LimiterConfig) (*Limiter, error) {
	if cfg.Pool == nil {
		return nil, errors.New("access limiter: Pool must be set")
	}
	if cfg.ExchangeEvery < 0 || cfg.ExchangeEvery > time.Second {
		return nil, errors.New("access limiter: ExchangeEvery must be 0 to a second")
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.ExchangeEvery == 0 {
		cfg.ExchangeEvery = time.Second / 2
	}
	if cfg.OnExchange == nil {
		cfg.OnExchange = func(error) {}
	}
	return &Limiter{cfg: cfg, keys: newKeyCounts(), addresses: newAddressCounts()}, nil
}

// Take counts one request of a key, unless its limit is reached.
func (l *Limiter) Take(key *Key) Allowance {
	now := l.cfg.Clock()
	total, ok := l.keys.take(minuteOf(now), key)
	return allowance(key.RateLimit, total, ok, now)
}

// Refuse counts one refused key of an address. It is not OK where the address
// has sent more than RefusedKeysPerMinute already, which the 22nd is the first to
// find (docs/contract/decisions.md, "Requests", 3: the slow-down is looked at before the key).
func (l *Limiter) Refuse(address netip.Addr) Allowance {
	now := l.cfg.Clock()
	total, ok := l.addresses.take(minuteOf(now), address, RefusedKeysPerMinute+1)
	return allowance(RefusedKeysPerMinute, total, ok, now)
}

// Refusals tells where an address stands, without counting.
func (l *Limiter) Refusals(address netip.Addr) Allowance {
	now := l.cfg.Clock()
	total := l.addresses.look(minuteOf(now), address)
	return allowance(RefusedKeysPerMinute, total, total <= RefusedKeysPerMinute, now)
}
