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
	Pool  *pgxpool.Pool    // required; Run holds one of its connections
	Clock func() time.Time // nil: time.Now
	Log   *slog.Logger     // gets a line when exchanges begin to fail and when they work again; nil: no lines

	// ExchangeEvery is how often Run exchanges counts with the other instances,
	// at most a second; 0: half a second. Two instances are at most twice this
	// behind each other.
	ExchangeEvery time.Duration
	// OnExchange is called after each exchange with its error, for metrics and
	// tests. It must not block; nil: nothing is called.
	OnExchange func(error)
}

// Limiter counts the requests of keys and the refused keys of addresses. Its
// methods may be called by any number of goroutines.
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

// Take counts one request of a key, unless the key's limit is reached.
func (l *Limiter) Take(key *Key) Allowance {
	now := l.cfg.Clock()
	total, ok := l.keys.take(minuteOf(now), key)
	return allowance(key.RateLimit, total, ok, now)
}

// Left returns what a key has left, without counting.
func (l *Limiter) Left(key *Key) Allowance {
	now := l.cfg.Clock()
	total := l.keys.total(minuteOf(now), key)
	return allowance(key.RateLimit, total, total <= int64(key.RateLimit), now)
}

// Refuse counts one refused key of an address. It is not OK if the address had sent
// more than RefusedKeysPerMinute of them before; the 22nd is the first to be not OK
// (docs/contract/decisions.md, "Requests", 3: the slow-down is checked before the key).
func (l *Limiter) Refuse(address netip.Addr) Allowance {
	now := l.cfg.Clock()
	total, ok, first := l.addresses.take(minuteOf(now), address, RefusedKeysPerMinute+1)
	a := allowance(RefusedKeysPerMinute, total, ok, now)
	a.FirstRefused = first
	return a
}

// Refusals returns what an address has left, without counting.
func (l *Limiter) Refusals(address netip.Addr) Allowance {
	now := l.cfg.Clock()
	total := l.addresses.total(minuteOf(now), address)
	return allowance(RefusedKeysPerMinute, total, total <= RefusedKeysPerMinute, now)
}
