package access

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// limitBundle is a database and the clock of the limiters that share it.
type limitBundle struct {
	pool  testkit.DB
	clock *testkit.Clock
}

func limitSetup(t *testing.T) *limitBundle {
	t.Helper()
	return &limitBundle{pool: testkit.Pool(t), clock: testkit.NewClock(start)}
}

// counting is a Limiter whose exchanges a test can wait for.
type counting struct {
	*Limiter

	exchanged chan error
}

func (b *limitBundle) limiter(t *testing.T) *counting {
	t.Helper()
	c := &counting{exchanged: make(chan error)}
	c.Limiter = testkit.Must(NewLimiter(LimiterConfig{
		Pool: b.pool, Clock: b.clock.Now, ExchangeEvery: 5 * time.Millisecond,
		OnExchange: func(err error) { c.exchanged <- err },
	}))(t)
	return c
}

func (c *counting) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for {
			select {
			case err := <-c.exchanged:
				if err != nil {
					t.Logf("the last exchange: %v", err)
				}
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
				return
			}
		}
	})
}

// exchange waits for a whole exchange that begins after the call.
func (c *counting) exchange(t *testing.T) error {
	t.Helper()
	patience, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var err error
	for range 2 {
		select {
		case err = <-c.exchanged:
		case <-patience.Done():
			t.Fatal("no exchange")
		}
	}
	return err
}

func TestLimiterCountsKeys(t *testing.T) {
	t.Parallel()
	b := limitSetup(t)
	l := b.limiter(t) // does not run: an instance alone counts all the same
	key := &Key{ID: "key_1", WorkspaceID: "acme", RateLimit: 3}
	for i, want := range []Allowance{{Limit: 3, Remaining: 2, Reset: 30, OK: true}, {Limit: 3, Remaining: 1, Reset: 30, OK: true}, {Limit: 3, Remaining: 0, Reset: 30, OK: true}, {Limit: 3, Remaining: 0, Reset: 30, OK: false}, {Limit: 3, Remaining: 0, Reset: 30, OK: false}} {
		if got := l.Take(key); got != want {
			t.Errorf("request %d: %+v, want %+v", i+1, got, want)
		}
	}
	raised := &Key{ID: "key_1", WorkspaceID: "acme", RateLimit: 5}
	if got := l.Take(raised); !got.OK || got.Remaining != 1 {
		t.Errorf("with a raised limit: %+v", got)
	}
	b.clock.Advance(30 * time.Second) // the next minute
	if got := l.Take(key); !got.OK || got.Remaining != 2 || got.Reset != 60 {
		t.Errorf("in the next minute: %+v", got)
	}
	b.clock.Advance(-time.Second) // a clock that is set back does not start the minute again
	if got := l.Take(key); got.Remaining != 1 || got.Reset != 1 {
		t.Errorf("after the clock was set back: %+v", got)
	}
}

func TestLimiterCountsAddresses(t *testing.T) {
	t.Parallel()
	b := limitSetup(t)
	l := b.limiter(t)
	a, same, next := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::ffff:1"), netip.MustParseAddr("2001:db8:0:1::1")
	for i := range RefusedKeysPerMinute + 1 {
		if got := l.Refuse(a); !got.OK || got.Remaining != max(0, RefusedKeysPerMinute-1-i) {
			t.Errorf("refused key %d: %+v", i+1, got)
		}
	}
	if got := l.Refuse(same); got.OK || got.Remaining != 0 {
		t.Errorf("the network of 64 bits: %+v", got)
	}
	if got := l.Refuse(next); !got.OK || got.Remaining != 19 {
		t.Errorf("the next network: %+v", got)
	}
	if got := l.Refusals(netip.MustParseAddr("192.0.2.1")); !got.OK || got.Remaining != 20 {
		t.Errorf("an address without refused keys: %+v", got)
	}
	v4, mapped := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("::ffff:192.0.2.2")
	l.Refuse(v4)
	if got := l.Refuse(mapped); got.Remaining != 18 {
		t.Errorf("an IPv4 address in IPv6: %+v", got)
	}
	l.Refuse(netip.Addr{})
	b.clock.Advance(time.Minute)
	if got := l.Refusals(a); !got.OK || got.Remaining != 20 {
		t.Errorf("in the next minute: %+v", got)
	}
}

// TestInstancesCountTogether: after one exchange of each, both know everything.
func TestInstancesCountTogether(t *testing.T) {
	t.Parallel()
	b := limitSetup(t)
	one, two := b.limiter(t), b.limiter(t)
	one.start(t)
	two.start(t)
	key, other := &Key{ID: "key_1", WorkspaceID: "acme", RateLimit: 120}, &Key{ID: "key_2", WorkspaceID: "globex", RateLimit: 2}
	address := netip.MustParseAddr("2001:db8::1")
	for range 70 {
		one.Take(key)
	}
	for range 49 {
		two.Take(key)
	}
	one.Take(other)
	for range 15 {
		one.Refuse(address)
	}
	for _, l := range []*counting{one, two, one, two} {
		if err := l.exchange(t); err != nil {
			t.Fatal(err)
		}
	}
	if got := two.Take(key); !got.OK || got.Remaining != 0 {
		t.Errorf("the 120th request: %+v", got)
	}
	if got := two.Take(key); got.OK {
		t.Errorf("the 121st request: %+v", got)
	}
	if got := two.Take(other); !got.OK || got.Remaining != 0 {
		t.Errorf("a key that only the other instance has seen: %+v", got)
	}
	if got := two.Refuse(address); got.Remaining != 4 {
		t.Errorf("refused keys: %+v", got)
	}
	if err := two.exchange(t); err != nil {
		t.Fatal(err)
	}
	if err := one.exchange(t); err != nil {
		t.Fatal(err)
	}
	if got := one.Take(key); got.OK {
		t.Errorf("the other instance after the limit: %+v", got)
	}
	b.clock.Advance(time.Minute)
	if got := one.Take(key); got.Remaining != 119 {
		t.Errorf("in the next minute: %+v", got)
	}
	for _, l := range []*counting{one, two} {
		if err := l.exchange(t); err != nil {
			t.Fatal(err)
		}
	}
	if got := two.Take(key); got.Remaining != 118 {
		t.Errorf("the other instance in the next minute: %+v", got)
	}
	b.clock.Advance(5 * time.Minute)
	testkit.Eventually(t, func() error { // the other instance may still be adding what it counted
		b.clock.Advance(time.Minute) // an instance deletes once a minute
		if err := one.exchange(t); err != nil {
			return err
		}
		var left int
		if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM rate_count`).Scan(&left); err != nil {
			return err
		}
		if left != 0 {
			return fmt.Errorf("%d old counts are left", left)
		}
		return nil
	})
}

// TestManyInstancesNeverLoseACount sends many requests with one key through four
// instances: none is lost, none counted twice.
func TestManyInstancesNeverLoseACount(t *testing.T) {
	t.Parallel()
	b := limitSetup(t)
	key := &Key{ID: "key_1", WorkspaceID: "acme", RateLimit: 1_000_000}
	instances := make([]*counting, 4)
	var group sync.WaitGroup
	for i := range instances {
		instances[i] = b.limiter(t)
		instances[i].start(t)
		group.Go(func() {
			for n := range 2000 {
				instances[i].Take(key)
				instances[i].Take(&Key{ID: fmt.Sprintf("key_%d", n%50+2), WorkspaceID: "acme", RateLimit: 1000})
			}
		})
	}
	finished := make(chan struct{})
	go func() { group.Wait(); close(finished) }()
	for counting := true; counting; {
		for _, l := range instances {
			select {
			case err := <-l.exchanged:
				if err != nil {
					t.Error(err)
				}
			case <-finished:
				counting = false
			}
		}
	}
	for range 2 {
		for _, l := range instances {
			if err := l.exchange(t); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, l := range instances {
		if got := l.Take(key); got.Limit-got.Remaining != 8001 {
			t.Errorf("instance %d counts %d", i, got.Limit-got.Remaining)
		}
	}
}

// TestLimiterWithoutTheDatabase: an instance without the database counts alone, loses
// nothing, and catches up.
func TestLimiterWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	b := limitSetup(t)
	l := b.limiter(t)
	l.start(t)
	key := &Key{ID: "key_1", WorkspaceID: "acme", RateLimit: 10}
	l.Take(key)
	if err := l.exchange(t); err != nil {
		t.Fatal(err)
	}
	testkit.AsOwner(t, b.pool, `ALTER TABLE rate_count RENAME TO away`)
	l.Take(key)
	if err := l.exchange(t); err == nil {
		t.Fatal("the exchange succeeds without its table")
	}
	if got := l.Take(key); got.Remaining != 7 {
		t.Errorf("alone: %+v", got)
	}
	testkit.AsOwner(t, b.pool, `ALTER TABLE away RENAME TO rate_count`)
	for l.exchange(t) != nil {
		continue // until the table is found again
	}
	if got := l.Take(key); got.Remaining != 6 {
		t.Errorf("together again: %+v", got)
	}
	if err := l.Run(t.Context()); err == nil {
		t.Error("a second Run beside the first")
	}
}

// TestCountingAsksNoDatabase: this pool has no database, and would panic.
func TestCountingAsksNoDatabase(t *testing.T) {
	t.Parallel()
	l := testkit.Must(NewLimiter(LimiterConfig{Pool: new(pgxpool.Pool), Clock: testkit.NewClock(start).Now}))(t)
	for range 1000 {
		l.Take(&Key{ID: "key_1", WorkspaceID: "acme", RateLimit: 120})
		l.Refuse(netip.MustParseAddr("2001:db8::1"))
		l.Refusals(netip.MustParseAddr("192.0.2.1"))
	}
}

// TestFloodOfAddresses: an address that goes on sending refused keys is slowed down among a
// million others, and no more of them than there is room for are told to other instances.
func TestFloodOfAddresses(t *testing.T) {
	t.Parallel()
	l := testkit.Must(NewLimiter(LimiterConfig{Pool: new(pgxpool.Pool), Clock: testkit.NewClock(start).Now}))(t)
	persistent := netip.MustParseAddr("203.0.113.7")
	for range RefusedKeysPerMinute + 1 {
		l.Refuse(persistent)
	}
	flood(l, 1_000_000)
	if got := l.Refuse(persistent); got.OK {
		t.Errorf("the persistent one has got through the flood: %+v", got)
	}
	if deltas := l.addresses.appendPending(nil); len(deltas) > maxSharedAddresses {
		t.Errorf("%d addresses would be added to the table at once", len(deltas))
	}
}

// flood counts a refused key of each of many networks.
func flood(l *Limiter, networks int) {
	var bytes [16]byte
	bytes[0], bytes[1] = 0x20, 0x01
	for i := range networks {
		bytes[4], bytes[5], bytes[6], bytes[7] = byte(i>>24), byte(i>>16), byte(i>>8), byte(i)
		l.Refuse(netip.AddrFrom16(bytes))
	}
}

func TestLimiterConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []LimiterConfig{{}, {Pool: new(pgxpool.Pool), ExchangeEvery: -1}, {Pool: new(pgxpool.Pool), ExchangeEvery: 2 * time.Second}} {
		if _, err := NewLimiter(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	l := testkit.Must(NewLimiter(LimiterConfig{Pool: new(pgxpool.Pool)}))(b)
	key := &Key{ID: "key_1", WorkspaceID: "acme", RateLimit: 1 << 40}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Take(key)
		}
	})
}
