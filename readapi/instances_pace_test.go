//go:build pace

package readapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// limitSlack is how far behind each other instances may be (docs/contract/decisions.md,
// "Requests"), and revokedWithin how long a revoked key may go on ("Keys").
const (
	limitSlack    = 2 * time.Second
	revokedWithin = time.Second
)

// instances are two instances of the service on the stand's database, each with pools,
// caches and counters of its own. Their clock runs like the real one, but from the
// beginning of a minute, so that what is done within a minute is in one clock minute.
func (s *stand) instances(t *testing.T) []*httptest.Server {
	t.Helper()
	began := time.Now()
	minute := began.UTC().Truncate(time.Minute)
	clock := func() time.Time { return minute.Add(time.Since(began)) }
	return []*httptest.Server{s.instance(t, clock), s.instance(t, clock)}
}

func (s *stand) instance(t *testing.T, clock func() time.Time) *httptest.Server {
	t.Helper()
	open := func(o pg.Options) testkit.DB {
		pool := testkit.Must(pg.Open(t.Context(), s.url, o))(t)
		t.Cleanup(pool.Close)
		return pool
	}
	own := open(pg.Options{MaxConns: 6})
	directory := testkit.Must(access.NewDirectory(access.DirectoryConfig{Pool: own, Format: s.format, Clock: clock}))(t)
	limiter := testkit.Must(access.NewLimiter(access.LimiterConfig{Pool: own, Clock: clock}))(t)
	cfg := s.config
	cfg.Pool = open(pg.Options{MaxConns: 4, ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings()})
	cfg.Keys, cfg.Limiter, cfg.Clock = directory, limiter, clock
	ctx, cancel := context.WithCancel(t.Context())
	var group errgroup.Group
	group.Go(func() error { return directory.Run(ctx) })
	group.Go(func() error { return limiter.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return serve(t, testkit.Must(readapi.New(cfg))(t), cfg.Logger)
}

// TestTwoInstancesUnderLoad: with callers on both, a key's limit holds within the stated
// slack, both refuse a revoked key within a second, and readers switch instances with
// every page.
func TestTwoInstancesUnderLoad(t *testing.T) { // alone, because it measures time
	const perMinute = 6000
	s := newStand(t)
	s.append(history(t, "acme", 3, s.clock.Now(), 20*24*time.Hour, 300)...)
	s.project("acme", 0)
	instances := s.instances(t)
	record, mortal, err := s.store.Create(t.Context(), access.NewKey{
		WorkspaceID: "acme", Name: "Reporting", Permissions: access.PermissionsOf(access.PayRead), RateLimit: highLimit,
	})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	reading := make(chan error, 1)
	everything := s.key("acme", allPermissions()...)
	want := map[string][]string{}
	for path := range lists() {
		want[path] = texts(s.expected("acme", path, nil, view{true, true}))
	}
	go func() { reading <- readByTurns(t.Context(), instances, everything, want, over) }()
	limited := startLoad(t.Context(), instances, s.keyLimited("acme", perMinute, access.PayRead), 4*time.Millisecond)
	doomed := startLoad(t.Context(), instances, mortal.Reveal(), 20*time.Millisecond)

	doomed.until(t, "that both admit the key", func(list []response) bool {
		return count(list, 0, http.StatusOK, time.Now()) > 50 && count(list, 1, http.StatusOK, time.Now()) > 50
	})
	testkit.Must(s.store.Revoke(t.Context(), "acme", record.ID))(t)
	revoked := time.Now()
	doomed.until(t, "that the key's last second passes", func([]response) bool { return time.Since(revoked) > 2*revokedWithin })
	checkRevocation(t, doomed.stop(t), revoked)

	limited.until(t, "that both refuse the key for longer than the slack", func(list []response) bool {
		before := time.Now().Add(-2 * limitSlack)
		return count(list, 0, http.StatusTooManyRequests, before) > 0 && count(list, 1, http.StatusTooManyRequests, before) > 0
	})
	checkLimit(t, limited.stop(t), perMinute)
	close(over)
	if err := <-reading; err != nil {
		t.Error(err)
	}
}

// checkRevocation: no request that is made a second after the revocation passes.
func checkRevocation(t *testing.T, list []response, revoked time.Time) {
	t.Helper()
	last := time.Duration(0)
	for _, h := range list {
		if h.status == http.StatusOK {
			last = max(last, h.asked.Sub(revoked))
		}
	}
	if last >= revokedWithin {
		t.Errorf("a revoked key is admitted %v later", last)
	}
	for instance := range 2 {
		if count(list, instance, http.StatusUnauthorized, time.Now()) == 0 {
			t.Errorf("instance %d has never refused the key", instance)
		}
	}
}

// checkLimit: an instance lets no request pass once it must know of as many as the
// limit: its own until then, and those of the other instance until the slack before.
func checkLimit(t *testing.T, list []response, perMinute int) {
	t.Helper()
	passed := [2][]time.Time{}
	for _, h := range list {
		switch h.status {
		case http.StatusOK:
			passed[h.instance] = append(passed[h.instance], h.came)
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("an answer is a %d", h.status)
		}
	}
	before := func(instance int, at time.Time) int {
		n, _ := slices.BinarySearchFunc(passed[instance], at, time.Time.Compare)
		return n
	}
	for i := range passed {
		slices.SortFunc(passed[i], time.Time.Compare)
	}
	for _, h := range list {
		if h.status != http.StatusOK {
			continue
		}
		if known := before(h.instance, h.asked) + before(1-h.instance, h.asked.Add(-limitSlack)); known >= perMinute {
			t.Fatalf("instance %d lets a request through after %d of %d", h.instance, known, perMinute)
		}
	}
	if all := len(passed[0]) + len(passed[1]); all < perMinute || len(passed[0]) == 0 || len(passed[1]) == 0 {
		t.Errorf("of %d requests %d and %d have passed", perMinute, len(passed[0]), len(passed[1]))
	}
	if took := list[len(list)-1].came.Sub(list[0].asked); took > time.Minute {
		t.Fatalf("the test took %v, longer than the minute that it looks at", took)
	}
}

// readByTurns reads every list again and again, each page from the other instance, until
// over is closed.
func readByTurns(ctx context.Context, instances []*httptest.Server, key string, want map[string][]string, over <-chan struct{}) error {
	for turn := 0; ; {
		for path, rows := range want {
			f := newFollower(path, "limit=11")
			for more := true; more; turn++ {
				var err error
				if more, err = f.poll(ctx, instances[turn%2], key); err != nil {
					return err
				}
			}
			if !slices.Equal(f.inOrder, rows) {
				return errors.New(path + " read from two instances by turns is not what the fold says")
			}
		}
		select {
		case <-over:
			return nil
		default:
		}
	}
}
