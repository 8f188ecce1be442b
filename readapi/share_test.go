package readapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// hold lets every page of time entries wait until the returned function is called.
func (s *stand) hold() (letGo func()) {
	s.t.Helper()
	conn := testkit.Must(s.pool.Acquire(s.t.Context()))(s.t).Hijack()
	if _, err := conn.Exec(s.t.Context(), `BEGIN; LOCK TABLE time_entry`); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if err := conn.Close(context.WithoutCancel(s.t.Context())); err != nil {
			s.t.Error(err)
		}
	}
}

// TestAWorkspaceHasItsShareOfTheConnections: while pages of two workspaces take as long as
// they like, forty at a time, a third one is answered, and each of them has no more than
// its share.
func TestAWorkspaceHasItsShareOfTheConnections(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) {
		settings := readapi.PoolSettings()
		settings["statement_timeout"] = "0"
		pool := testkit.Must(pg.Open(t.Context(), testkit.AsPool(c.Pool).Config().ConnString(), pg.Options{MaxConns: 8, Settings: settings}))(t)
		t.Cleanup(pool.Close)
		by(c, pool)
		c.Timeout = time.Hour
	})
	keys := map[string]string{}
	for _, w := range []string{"flood", "deluge", "quiet"} {
		s.append(strings.ReplaceAll(event("e", "invoice.paid", s.clock.Now()), "acme", w))
		s.project(w, 0)
		keys[w] = s.key(w, allPermissions()...)
	}
	s.keepKeys(t)
	letGo := s.hold()
	group, ctx := errgroup.WithContext(t.Context())
	for i := range 80 {
		key := keys[[]string{"flood", "deluge"}[i%2]]
		group.Go(func() error {
			r, err := ask(ctx, s.server, http.MethodGet, "/v1/time-entries", key)
			if err == nil && r.status != http.StatusOK {
				err = fmt.Errorf("%d %s", r.status, r.body)
			}
			return err
		})
	}
	s.locksWaitedFor(4)
	for range 5 {
		for _, path := range []string{"/v1/clients", "/v1/events", "/v1/me", "/v1/invoices/none"} {
			if r := s.get(path, keys["quiet"]); r.status >= 500 {
				t.Fatalf("%s of another workspace: %d %s", path, r.status, r.body)
			}
		}
	}
	if n := s.locksWaited(); n != 4 { // two of each, of six for pages
		t.Errorf("%d connections are used by two workspaces", n)
	}
	letGo()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// TestAWorkspaceWithSlowPagesHasOneConnection: while it asks for more, until its pages are
// fast again on the average.
func TestAWorkspaceWithSlowPagesHasOneConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := readapi.NewShares(2)
		granted := make(chan func())
		for range 40 {
			go func() {
				release, err := s.Take(t.Context())
				if err != nil {
					t.Error(err)
					release = func() {}
				}
				granted <- release
			}()
		}
		var read []func() // what ends the pages that are being read
		begin := func() {
			for {
				synctest.Wait()
				select {
				case release := <-granted:
					read = append(read, release)
				default:
					return
				}
			}
		}
		end := func(after time.Duration) { // the page that was begun first
			<-time.After(after)
			read[0]()
			read = read[1:]
			begin()
		}
		begin()
		if len(read) != 2 {
			t.Errorf("%d pages are read at once before any was slow", len(read))
		}
		for range 5 {
			if end(time.Second); len(read) != 1 {
				t.Fatalf("%d pages are read at once while they are slow", len(read))
			}
		}
		fast := 0
		for len(read) == 1 && fast < 40 {
			end(time.Millisecond)
			fast++
		}
		if len(read) != 2 || fast < 5 {
			t.Errorf("%d pages are read at once after %d that were fast", len(read), fast)
		}
		for len(read) > 0 {
			end(time.Millisecond)
		}
	})
}

// TestPagesThatCannotBeRead: a page that waits too long for its share, or takes the
// database too long, is a 503 that says so.
func TestPagesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.Share, c.Timeout = 1, 20*time.Second })
	s.workspace("acme")
	key := s.key("acme", access.TimeEntriesRead)
	slow := s.config
	slow.Pool = s.poolWith(t, map[string]string{"statement_timeout": "200"})
	letGo := s.hold()
	server := serve(t, testkit.Must(readapi.New(slow))(t), s.config.Logger)
	expect := func(r reply, words string) {
		t.Helper()
		if r.status != 503 || !strings.Contains(string(r.body), words) || r.header.Get("Retry-After") == "" {
			t.Errorf("%d %s, want 503 with %q", r.status, r.body, words)
		}
	}
	expect(send(t, server, http.MethodGet, "/v1/time-entries", key), "filters that each select many rows")

	letGo()
	busy := testkit.Must(readapi.New(s.config))(t)
	if err := busy.HoldShare(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	expect(send(t, serve(t, busy, s.config.Logger), http.MethodGet, "/v1/time-entries", key), "share of the service")
}

// TestCallersThatHangUp: the statement of a caller that has gone ends in the database, so
// that callers who disconnect and repeat the request do not use more than their share.
func TestCallersThatHangUp(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", access.TimeEntriesRead)
	letGo := s.hold()
	defer letGo()
	for range 20 {
		ctx, hangUp := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := ask(ctx, s.server, http.MethodGet, "/v1/time-entries", key)
			ended <- err
		}()
		s.locksWaitedFor(1)
		hangUp()
		<-ended
		s.until(func() bool { return s.locksWaited() == 0 })
	}
}

// TestListsLetPagesGoFirst: a list waits for pages that are being read, as long as a page
// takes at most, and rests now and then while others are expected.
func TestListsLetPagesGoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := readapi.NewShares(2)
		pace := s.Pace()
		yields := func(what string, want time.Duration) {
			t.Helper()
			began := time.Now()
			pace.Yield(t.Context())
			if took := time.Since(began); took != want {
				t.Errorf("a list waits %v %s, want %v", took, what, want)
			}
		}
		work := func(d time.Duration) { <-time.After(d) }
		work(time.Hour)
		yields("for no page", 0)
		first, second := testkit.Must(s.Take(t.Context()))(t), testkit.Must(s.Take(t.Context()))(t)
		time.AfterFunc(500*time.Microsecond, first)
		time.AfterFunc(1500*time.Microsecond, second)
		for range 2 {
			other := s.Pace()
			go other.Yield(t.Context())
		}
		yields("for two pages", 1500*time.Microsecond)
		yields("soon after them", 0)
		work(400 * time.Microsecond)
		yields("when it has worked for a little while", 0)
		work(200 * time.Microsecond)
		yields("when it has worked for a while", time.Millisecond)
		yields("when it has rested", 0)
		work(100 * time.Millisecond)
		yields("long after the last page", 0)
		last := testkit.Must(s.Take(t.Context()))(t)
		yields("for a page that takes long", 2*time.Millisecond)
		last()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		work(time.Millisecond)
		began := time.Now()
		pace.Yield(gone)
		if took := time.Since(began); took != 0 {
			t.Errorf("a list whose caller has gone waits %v", took)
		}
	})
}
