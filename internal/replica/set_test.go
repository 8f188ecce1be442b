//go:build full && unix

package replica_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/replica"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/replication"
)

// followed is a Set that runs.
type followed struct {
	*replica.Set

	t       *testing.T
	primary *pgxpool.Pool
	log     testkit.Buffer
}

func follow(t *testing.T, primary *replication.Server, urls ...string) *followed {
	t.Helper()
	f := &followed{t: t, primary: testkit.Must(pg.Open(t.Context(), primary.URL(), pg.Options{MaxConns: 4}))(t)}
	t.Cleanup(f.primary.Close)
	addresses := testkit.Must(replica.ParseAddresses(strings.Join(urls, "\n")))(t)
	f.Set = testkit.Must(replica.New(replica.Config{Primary: f.primary, Addresses: addresses, Logger: f.log.Logger(), MaxLag: time.Second}))(t)
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

// used waits until a replica is used, or is not for a reason.
func (f *followed) used(i int, reason string) {
	f.t.Helper()
	testkit.Eventually(f.t, func() error {
		is := f.States()[i]
		if is.Used != (reason == "") || !strings.Contains(is.Problem, reason) {
			return fmt.Errorf("%+v, want %q", is, reason)
		}
		return nil
	})
	if logged := f.log.String(); reason != "" && !strings.Contains(logged, reason) {
		f.t.Errorf("the log says nothing of %q:\n%s", reason, logged)
	}
}

// await is what Await takes.
func (f *followed) await() time.Duration {
	f.t.Helper()
	began := time.Now()
	if err := f.Await(f.t.Context(), began); err != nil {
		f.t.Fatal(err)
	}
	return time.Since(began)
}

// TestReplicasAreFollowed: what Await returns after is there on each replica; one that
// does not replay, that is cut off, or that is stopped delays it by MaxLag, is not read from,
// and is used again when it is back.
func TestReplicasAreFollowed(t *testing.T) {
	t.Parallel()
	primary := replication.Start(t)
	first, second := primary.Replica(), primary.Replica()
	f := follow(t, primary, first.URL(), second.URL())
	f.used(0, "")
	f.used(1, "")
	pools := make([]*pgxpool.Pool, 2)
	for i, one := range f.Servers() {
		pools[i] = testkit.Must(one.Open(t.Context(), pg.Options{MaxConns: 2}))(t)
		t.Cleanup(pools[i].Close)
	}
	testkit.Must(f.primary.Exec(t.Context(), `CREATE TABLE told (n int); SET synchronous_commit = off`))(t)
	for n := range 50 {
		testkit.Must(f.primary.Exec(t.Context(), `INSERT INTO told VALUES ($1)`, n))(t)
		f.await()
		for i, pool := range pools {
			var newest int
			if err := pool.QueryRow(t.Context(), `SELECT max(n) FROM told`).Scan(&newest); err != nil || newest != n {
				t.Fatalf("replica %d shows %d of %d: %v", i, newest, n, err)
			}
		}
	}
	for name, c := range map[string]struct {
		away   func() (back func())
		reason string
	}{
		"replay is paused": {func() func() { second.Pause(); return second.Resume }, "has not replayed"},
		"stopped":          {func() func() { second.Stop(); return second.Begin }, "cannot be reached"},
		"frozen":           {second.Freeze, "does not answer"},
	} {
		back := c.away()
		testkit.Must(f.primary.Exec(t.Context(), `INSERT INTO told VALUES (0)`))(t)
		if took := f.await(); took < 900*time.Millisecond {
			t.Errorf("%s: not waited for: %v", name, took)
		}
		if f.Servers()[1].Usable() {
			t.Errorf("%s: read from after what it does not show was told", name)
		}
		f.used(1, c.reason)
		f.used(0, "")
		back()
		f.used(1, "")
		f.await()
	}
	short, cancel := context.WithCancel(t.Context())
	cancel()
	second.Pause()
	testkit.Must(f.primary.Exec(t.Context(), `INSERT INTO told VALUES (0)`))(t)
	if err := f.Await(short, time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// TestWhatIsNoReplica: servers that answer and are none of the primary's replicas.
func TestWhatIsNoReplica(t *testing.T) {
	t.Parallel()
	primary, other := replication.Start(t), replication.Start(t)
	promoted, foreign := primary.Replica(), other.Replica()
	f := follow(t, primary, promoted.URL(), foreign.URL(), primary.URL())
	f.used(0, "")
	f.used(1, "another database cluster")
	f.used(2, "it is not a replica")
	alive := f.Servers()[0].Alive()
	promoted.Promote()
	f.used(0, "it is not a replica")
	if alive.Err() == nil {
		t.Error("what is being read from it goes on")
	}
	for _, line := range f.log.Lines() {
		if strings.Contains(line, "postgres:") {
			t.Errorf("an address is logged: %s", line)
		}
	}
}

// TestAnotherTimeline: after another server has become the primary, a replica is used
// when it follows that one, and not before.
func TestAnotherTimeline(t *testing.T) {
	t.Parallel()
	old := replication.Start(t)
	next, left := old.Replica(), old.Replica()
	next.Promote()
	// left replays what next will never have, so that its log is longer.
	old.Execute(`CREATE TABLE lost (n int); INSERT INTO lost SELECT generate_series(1, 10000)`)
	f := follow(t, next, left.URL())
	f.used(0, "it follows timeline 1, and the primary is on 2")
	right := next.Replica()
	g := follow(t, next, right.URL())
	g.used(0, "")
}

// TestAddresses: what is read, and what is refused, without a word of a password.
func TestAddresses(t *testing.T) {
	t.Parallel()
	list, err := replica.ParseAddresses(" postgres://a:secret@r1/x\n\tpostgresql://a:secret@r2:5433/x?sslmode=disable ")
	if err != nil || len(list) != 2 || list[0].Name != "r1:5432" || list[1].Name != "r2:5433" {
		t.Errorf("%v, %v", list, err)
	}
	for text, want := range map[string]string{
		"host=r1 user=a":                                "must begin with postgres://",
		"postgres://a:secret@r1:port/x":                 "cannot be read",
		"postgres://a:secret@r1,r2/x":                   "several servers",
		"postgres://a:secret@r1/x postgres://b@r1/y":    "twice",
		strings.Repeat("postgres://a:secret@r%d/x ", 1): "cannot be read",
	} {
		if _, err := replica.ParseAddresses(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if list, err := replica.ParseAddresses(""); err != nil || len(list) != 0 {
		t.Errorf("none: %v, %v", list, err)
	}
}

// TestNoReplicas: the methods of nil.
func TestNoReplicas(t *testing.T) {
	t.Parallel()
	var none *replica.Set
	if err := none.Await(t.Context(), time.Now()); err != nil || none.Servers() != nil || none.States() != nil || none.MaxLag() != 0 {
		t.Errorf("%v", err)
	}
}
