package readapi_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestInstancesAreOne: a caller may reach another instance with every request, because
// cursors, ETags and bytes are the same.
func TestInstancesAreOne(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 3, s.clock.Now(), 20*24*time.Hour, 300)...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	second := serve(t, testkit.Must(readapi.New(s.config))(t), s.config.Logger)
	first := s.server
	for path := range lists() {
		for _, accept := range []string{"identity", "gzip", "zstd"} {
			a, b := send(t, first, "GET", path, key, "Accept-Encoding", accept), send(t, second, "GET", path, key, "Accept-Encoding", accept)
			if !bytes.Equal(a.body, b.body) || a.header.Get("Etag") != b.header.Get("Etag") {
				t.Errorf("%s in %s differs between two instances", path, accept)
			}
			if c := send(t, second, "GET", path, key, "Accept-Encoding", accept, "If-None-Match", a.header.Get("Etag")); c.status != 304 {
				t.Errorf("%s in %s with the other instance's ETag: %d", path, accept, c.status)
			}
		}
		want := texts(s.expected("acme", path, nil, view{true, true}))
		turn := 0
		got, _ := s.walk(path, key, url.Values{"limit": {"11"}}, func() {
			turn++
			s.server = []*httptest.Server{first, second}[turn%2]
		})
		s.server = first
		if !slices.Equal(got, want) {
			t.Errorf("%s read from two instances by turns: %d rows, want %d", path, len(got), len(want))
		}
	}
	// With another secret no cursor of the first opens.
	s.config.CursorKey = bytes.Repeat([]byte{8}, 32)
	other := serve(t, testkit.Must(readapi.New(s.config))(t), s.config.Logger)
	page := s.page("/v1/invoices?limit=1", key)
	if r := send(t, other, "GET", "/v1/invoices?limit=1&cursor="+*page.NextCursor, key); r.status != 400 {
		t.Errorf("a cursor of another service: %d", r.status)
	}
}

// steps has something that runs by itself wait after each time until it is told to go on.
type steps struct {
	done chan error
	on   chan struct{}
	over <-chan struct{}
}

func newSteps(t *testing.T) *steps {
	t.Helper()
	return &steps{make(chan error), make(chan struct{}), t.Context().Done()}
}

// after is called after each time.
func (s *steps) after(err error) {
	select {
	case s.done <- err:
	case <-s.over:
		return
	}
	select {
	case <-s.on:
	case <-s.over:
	}
}

// next has it done once more, from beginning to end, without an error.
func (s *steps) next() {
	for err := errNotYet; err != nil; {
		select {
		case s.on <- struct{}{}:
		case <-s.over:
			return
		}
		select {
		case err = <-s.done:
		case <-s.over:
			return
		}
	}
}

var errNotYet = errors.New("not yet")

// stepped is an instance of the service whose exchanges of counts and polls for changed keys
// are made when the test says so.
type stepped struct {
	server           *httptest.Server
	exchanges, polls *steps
}

func (s *stand) stepped(t *testing.T) *stepped {
	t.Helper()
	i := &stepped{exchanges: newSteps(t), polls: newSteps(t)}
	pool := testkit.Must(pg.Open(t.Context(), s.url, pg.Options{MaxConns: 6}))(t)
	t.Cleanup(pool.Close)
	directory := testkit.Must(access.NewDirectory(access.DirectoryConfig{Pool: pool, Format: s.format, Clock: s.clock.Now, PollEvery: time.Millisecond, OnPoll: i.polls.after}))(t)
	limiter := testkit.Must(access.NewLimiter(access.LimiterConfig{Pool: pool, Clock: s.clock.Now, ExchangeEvery: time.Millisecond, OnExchange: i.exchanges.after}))(t)
	cfg := s.config
	cfg.Keys, cfg.Limiter = directory, limiter
	runs(t, directory.Run)
	runs(t, limiter.Run)
	for _, of := range []*steps{i.polls, i.exchanges} {
		if err := <-of.done; err != nil {
			of.next()
		}
	}
	i.server = serve(t, testkit.Must(readapi.New(cfg))(t), cfg.Logger)
	return i
}

// TestTwoInstances: two instances count together what a key has used once they have told
// each other, and neither lets through more than the limit before. Both refuse a revoked key
// after their next poll, and when they cannot poll.
func TestTwoInstances(t *testing.T) {
	t.Parallel()
	const perMinute = 60
	s := newStand(t)
	s.workspace("acme")
	instances := []*stepped{s.stepped(t), s.stepped(t)}
	// ask makes requests of a key to one instance, four at a time, and counts the answers.
	ask := func(to *stepped, key string, n int) map[int]int {
		t.Helper()
		var mu sync.Mutex
		statuses := map[int]int{}
		var group errgroup.Group
		group.SetLimit(4)
		for range n {
			group.Go(func() error {
				r, err := ask(t.Context(), to.server, http.MethodGet, "/v1/me", key)
				mu.Lock()
				defer mu.Unlock()
				statuses[r.status]++
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		return statuses
	}
	tell := func() {
		for range 2 { // the first does not know yet what the second tells
			for _, i := range instances {
				i.exchanges.next()
			}
		}
	}
	expect := func(what string, got map[int]int, passed, refused int) {
		t.Helper()
		if got[http.StatusOK] != passed || got[http.StatusTooManyRequests] != refused {
			t.Errorf("%s: %v, want %d and %d refused", what, got, passed, refused)
		}
	}
	limited := s.keyLimited("acme", perMinute, access.PayRead)
	for range 2 {
		for _, i := range instances {
			expect("by turns", ask(i, limited, 10), 10, 0)
			tell()
		}
	}
	expect("what is left to the first", ask(instances[0], limited, 25), 20, 5)
	expect("the other one, which does not know that yet", ask(instances[1], limited, 25), 20, 5)
	tell()
	s.clock.Advance(time.Minute)
	for _, i := range instances {
		expect("an instance alone", ask(i, limited, 70), perMinute, 10)
	}
	tell()
	for _, i := range instances {
		expect("afterwards", ask(i, limited, 5), 0, 5)
	}

	for what, revoked := range map[string]func(i *stepped){
		"after a poll":    func(i *stepped) { i.polls.next(); i.polls.next() }, // one may be left out
		"without polling": func(*stepped) { s.clock.Advance(900 * time.Millisecond) },
	} {
		record, mortal, err := s.store.Create(t.Context(), access.NewKey{
			WorkspaceID: "acme", Name: "Reporting", Permissions: access.PermissionsOf(access.PayRead), RateLimit: highLimit,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range instances {
			i.polls.next()
			expect("a key", ask(i, mortal.Reveal(), 20), 20, 0)
			i.polls.next()
		}
		testkit.Must(s.store.Revoke(t.Context(), "acme", record.ID))(t)
		for _, i := range instances {
			revoked(i)
			if got := ask(i, mortal.Reveal(), 5); got[http.StatusUnauthorized] != 5 { // few, because they slow the address down
				t.Errorf("a revoked key %s: %v", what, got)
			}
		}
	}
}
