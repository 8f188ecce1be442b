//go:build full && unix

package standby_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/standby"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/replication"
)

// followed is an Address that is followed, and a pool of it.
type followed struct {
	*standby.Address

	t    *testing.T
	pool testkit.DB
	log  testkit.Buffer
}

func openPool(t *testing.T, address string) testkit.DB {
	t.Helper()
	pool := testkit.Must(pg.Open(t.Context(), address, pg.Options{MaxConns: 4}))(t)
	t.Cleanup(pool.Close)
	return pool
}

func follow(t *testing.T, primary testkit.DB, address string) *followed {
	t.Helper()
	f := &followed{t: t}
	f.Address = testkit.Must(standby.New(standby.Config{URL: address, Primary: primary, Logger: f.log.Logger()}))(t)
	f.pool = testkit.Must(f.Open(t.Context(), pg.Options{MaxConns: 2}))(t)
	t.Cleanup(f.pool.Close)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return f
}

// used waits until the standbys are read from, or are not for a reason.
func (f *followed) used(reason string) {
	f.t.Helper()
	testkit.Eventually(f.t, func() error {
		is := f.State()
		if is.Used != (reason == "") || !strings.Contains(is.Problem, reason) {
			return fmt.Errorf("%+v, want %q", is, reason)
		}
		return nil
	})
	if logged := f.log.String(); reason != "" && !strings.Contains(logged, reason) {
		f.t.Errorf("the log says nothing of %q:\n%s", reason, logged)
	}
}

// newest reads the newest number, as a reader does.
func (f *followed) newest() (n int, err error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), 3*time.Second)
	defer cancel()
	err = f.pool.QueryRow(ctx, `SELECT coalesce(max(n), -1) FROM told`).Scan(&n)
	return n, err
}

// TestNothingIsOlderThanMaxLag: a standby that does not replay, is cut off, or is stopped is not
// read from, so that nobody sees less than the primary had MaxLag ago; and it is read from again
// when it is back.
func TestNothingIsOlderThanMaxLag(t *testing.T) {
	t.Parallel()
	server := replication.Start(t)
	primary, copied := openPool(t, server.URL()), server.Replica()
	testkit.Must(primary.Exec(t.Context(), `CREATE TABLE told (n int)`))(t)
	f := follow(t, primary, copied.URL())
	f.used("")
	n, notRead := 0, "is not read from"
	for name, c := range map[string]struct {
		away   func() (back func())
		reason string
		lost   bool
	}{
		"replay is paused": {func() func() { copied.Pause(); return copied.Resume }, "has not replayed", false},
		"stopped":          {func() func() { copied.Stop(); return copied.Begin }, "cannot be reached", true},
		"frozen":           {copied.Freeze, "does not answer", true},
	} {
		alive := f.Alive()
		back := c.away()
		n++
		testkit.Must(primary.Exec(t.Context(), `INSERT INTO told VALUES ($1)`, n))(t)
		written := time.Now()
		testkit.Eventually(t, func() error {
			asked := time.Now()
			if got, err := f.newest(); err == nil {
				if got < n && asked.Sub(written) > standby.MaxLag {
					t.Errorf("%s: shows %d %v after %d was written", name, got, asked.Sub(written), n)
					return nil
				}
				return fmt.Errorf("%s: still read from", name)
			}
			return nil
		})
		f.used(c.reason)
		if lost := alive.Err() != nil; lost != c.lost {
			t.Errorf("%s: what is being read is told that the standby is lost: %v", name, lost)
		}
		if _, err := f.newest(); err == nil {
			t.Errorf("%s: it %s, and answers", name, notRead)
		}
		back()
		f.used("")
		testkit.Eventually(t, func() error {
			if got, err := f.newest(); err != nil || got != n {
				return fmt.Errorf("%s: shows %d: %w", name, got, err)
			}
			return nil
		})
	}
}

// TestSeveralBehindOneAddress: whichever server a load balancer leads a connection to is the one
// that is asked, and one that is behind keeps nobody from another.
func TestSeveralBehindOneAddress(t *testing.T) {
	t.Parallel()
	server := replication.Start(t)
	primary, first, second := openPool(t, server.URL()), server.Replica(), server.Replica()
	testkit.Must(primary.Exec(t.Context(), `CREATE TABLE told (n int)`))(t)
	f := follow(t, primary, balanced(t, first, second))
	f.used("")
	first.Pause()
	testkit.Must(primary.Exec(t.Context(), `INSERT INTO told VALUES (1)`))(t)
	written := time.Now()
	shown := 0
	testkit.Eventually(t, func() error {
		asked := time.Now()
		got, err := f.newest()
		switch {
		case err == nil && got < 1 && asked.Sub(written) > standby.MaxLag:
			t.Errorf("shows %d %v after 1 was written", got, asked.Sub(written))
			return nil
		case err == nil && got == 1 && asked.Sub(written) > standby.MaxLag && f.State().Used:
			shown++
		}
		if shown < 20 {
			return fmt.Errorf("the server that is not behind was read from %d times: %w", shown, err)
		}
		return nil
	})
}

// balanced is one address that leads to the servers by turns.
func balanced(t *testing.T, servers ...*replication.Server) string {
	t.Helper()
	dir := testkit.Must(os.MkdirTemp("", "balancer-"))(t) // a socket's path must be short
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	const port = "6543"
	var config net.ListenConfig
	listener := testkit.Must(config.Listen(t.Context(), "unix", filepath.Join(dir, ".s.PGSQL."+port)))(t)
	var all sync.WaitGroup
	all.Go(func() {
		for turn := 0; ; turn++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			to := servers[turn%len(servers)]
			all.Go(func() { forward(client, filepath.Join(to.Dir, ".s.PGSQL."+to.Port)) })
		}
	})
	t.Cleanup(all.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	u := testkit.Must(url.Parse(servers[0].URL()))(t)
	q := u.Query()
	q.Set("host", dir)
	q.Set("port", port)
	u.Host, u.RawQuery = "", q.Encode()
	return u.String()
}

// forward passes on what the two ends of a connection say, until one of them closes it.
func forward(client net.Conn, socket string) {
	defer client.Close()
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		both.Go(func() {
			_, _ = io.Copy(to, from)
			_ = to.Close()
			_ = from.Close()
		})
	}
	both.Wait()
}

// TestWhatIsNoStandby: servers that answer and are no standbys of the primary.
func TestWhatIsNoStandby(t *testing.T) {
	t.Parallel()
	server, other := replication.Start(t), replication.Start(t)
	primary, promoted := openPool(t, server.URL()), server.Replica()
	testkit.Must(primary.Exec(t.Context(), `CREATE TABLE told (n int)`))(t)
	f := follow(t, primary, promoted.URL())
	f.used("")
	foreign := follow(t, primary, other.Replica().URL())
	foreign.used("another database cluster")
	itself := follow(t, primary, server.URL())
	itself.used("it is no standby")
	promoted.Promote()
	f.used("it is no standby")
	for _, no := range []*followed{f, foreign, itself} {
		if _, err := no.newest(); err == nil {
			t.Errorf("%s is read from", no.State().Name)
		}
		for _, line := range no.log.Lines() {
			if strings.Contains(line, "postgres:") {
				t.Errorf("an address is logged: %s", line)
			}
		}
	}
}

// TestAnotherTimeline: after another server has become the primary, a standby is read from
// when it follows that one, and not before.
func TestAnotherTimeline(t *testing.T) {
	t.Parallel()
	old := replication.Start(t)
	next, left := old.Replica(), old.Replica()
	next.Promote()
	// left replays what next will never have, so that its log is longer.
	old.Execute(`CREATE TABLE lost (n int); INSERT INTO lost SELECT generate_series(1, 10000)`)
	primary := openPool(t, next.URL())
	f := follow(t, primary, left.URL())
	f.used("it follows timeline 1, and the primary is on 2")
	follow(t, primary, next.Replica().URL()).used("")
}

// TestLook: what a command finds, of standbys that can be read from and of others.
func TestLook(t *testing.T) {
	t.Parallel()
	server := replication.Start(t)
	primary, copied := openPool(t, server.URL()), server.Replica()
	cfg := standby.Config{URL: copied.URL(), Primary: primary, Logger: testkit.Discard()}
	testkit.Eventually(t, func() error {
		if is := testkit.Must(standby.Look(t.Context(), cfg))(t); !is.Used {
			return fmt.Errorf("%+v", is)
		}
		return nil
	})
	if advice := testkit.Must(standby.Advise(t.Context(), copied.URL()))(t); !advice.Feedback || advice.Delay != 30*time.Second || advice.Stats {
		t.Errorf("%+v", advice)
	}
	copied.Stop()
	if is := testkit.Must(standby.Look(t.Context(), cfg))(t); is.Used || !strings.Contains(is.Problem, "cannot be reached") {
		t.Errorf("stopped: %+v", is)
	}
	cfg.URL = "postgres://somebody:secret@host:port/x"
	if _, err := standby.New(cfg); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong address: %v", err)
	}
}
