package pg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// fullServer passes connections on to a database, and refuses those above a number as
// PostgreSQL does.
type fullServer struct {
	url      string
	most     atomic.Int64
	open     atomic.Int64
	refused  atomic.Int64
	upstream string // its socket
	away     atomic.Bool
}

func newFullServer(t *testing.T, database string, most int64) *fullServer {
	t.Helper()
	at := testkit.Must(url.Parse(database))(t)
	query := at.Query()
	s := &fullServer{upstream: filepath.Join(query.Get("host"), ".s.PGSQL.5432")}
	s.most.Store(most)
	dir := testkit.Must(os.MkdirTemp("", "pg-full-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	query.Set("host", dir)
	at.RawQuery = query.Encode()
	s.url = at.String()
	listener := testkit.Must(net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432")))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			if s.open.Add(1) > s.most.Load() {
				s.open.Add(-1)
				s.refused.Add(1)
				go refuse(client)
				continue
			}
			go s.pass(client)
		}
	}()
	return s
}

func refuse(client net.Conn) {
	defer func() { _ = client.Close() }()
	b := pgproto3.NewBackend(client, client)
	if _, err := b.ReceiveStartupMessage(); err == nil {
		b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "53300", Message: "sorry, too many clients already"})
		_ = b.Flush()
	}
}

func (s *fullServer) pass(client net.Conn) {
	defer s.open.Add(-1)
	server, err := net.Dial("unix", s.upstream)
	if s.away.Load() || err != nil {
		_ = client.Close()
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{server, client}, {client, server}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = way[0].Close(), way[1].Close()
		})
	}
	both.Wait()
}

func openAt(t *testing.T, address string, most int32) *pg.Pool {
	t.Helper()
	pool := testkit.Must(pg.Open(t.Context(), address, pg.Options{MaxConns: most}))(t)
	t.Cleanup(pool.Close)
	return pool
}

// TestARefusedConnectionWaitsForOneOfThePool: however many ask at once, each gets one of
// the connections that the server allows; nobody gets the refusal.
func TestARefusedConnectionWaitsForOneOfThePool(t *testing.T) {
	t.Parallel()
	s := newFullServer(t, testkit.NewDatabase(t), 2)
	pool := openAt(t, s.url, 8)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			for range 20 {
				if _, err := pool.Exec(t.Context(), "SELECT pg_sleep(0.0005)"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	w := pool.Use().Waits
	if s.refused.Load() == 0 || w.Refused == 0 || w.Count == 0 || w.Time == 0 || w.Waiting != 0 {
		t.Errorf("the server refused %d, the pool says %+v", s.refused.Load(), w)
	}
	// The server has room again, and somebody needs it.
	s.most.Store(8)
	testkit.Eventually(t, func() error {
		release := take(t, pool, 3)
		release()
		if n := pool.Stat().TotalConns(); n < 3 {
			return fmt.Errorf("the pool has %d connections", n)
		}
		return nil
	})
}

// take takes connections, and returns what gives them back.
func take(t *testing.T, pool pg.DB, n int) (release func()) {
	t.Helper()
	var list []*pgxpool.Conn
	for range n {
		list = append(list, testkit.Must(pool.Acquire(t.Context()))(t))
	}
	return func() {
		for _, c := range list {
			c.Release()
		}
	}
}

// TestWaitingEndsWithTheCaller: a caller that waits for a connection is bounded by its own
// time, and what it would have got goes to the next.
func TestWaitingEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	s := newFullServer(t, testkit.NewDatabase(t), 1)
	pool := openAt(t, s.url, 4)
	release := take(t, pool, 1)
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := pool.Exec(short, "SELECT"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a free connection: %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := pool.Exec(t.Context(), "SELECT")
		done <- err
	}()
	testkit.Eventually(t, func() error {
		if n := pool.Use().Waiting; n != 1 {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestNobodyWaitsForNothing: where the pool has no connection that could be given back,
// or the server cannot be reached, the caller gets the error.
func TestNobodyWaitsForNothing(t *testing.T) {
	t.Parallel()
	s := newFullServer(t, testkit.NewDatabase(t), 0)
	if _, err := pg.Open(t.Context(), s.url, pg.Options{MaxConns: 4}); !pg.TooMany(err) {
		t.Errorf("a server without a place: %v", err)
	}
	s.most.Store(4)
	pool := openAt(t, s.url, 4)
	release := take(t, pool, 1)
	s.away.Store(true)
	if _, err := pool.Exec(t.Context(), "SELECT"); err == nil || pg.TooMany(err) {
		t.Errorf("a server that is away: %v", err)
	}
	release()
}

// TestBrokenConnectionsAreReplaced: connections that break while they are used or idle
// leave no place taken.
func TestBrokenConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	pool, other := openAt(t, newFullServer(t, database, 8).url, 3), openAt(t, database, 1)
	for range 4 {
		testkit.Must(other.Exec(t.Context(), "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"))(t)
		// Those that were used just before are not asked whether they work.
		for {
			if _, err := pool.Exec(t.Context(), "SELECT"); err == nil {
				break
			}
		}
		release := take(t, pool, 3)
		c := make(chan error)
		go func() {
			_, err := pool.Exec(t.Context(), "SELECT")
			c <- err
		}()
		release()
		if err := <-c; err != nil {
			t.Error(err)
		}
	}
}

// TestSharesHaveTheirSettings: whichever connection a statement gets, it has the settings of
// its share and of no other, and those of the pool where its share has none.
func TestTheURLSaysHowStatementsArePlanned(t *testing.T) {
	t.Parallel()
	address := testkit.Must(url.Parse(testkit.NewDatabase(t)))(t)
	query := address.Query()
	query.Set("plan_cache_mode", "auto")
	address.RawQuery = query.Encode()
	pool := testkit.Must(pg.Open(t.Context(), address.String(), pg.Options{MaxConns: 2, Settings: map[string]string{"plan_cache_mode": "force_generic_plan", "jit": "off"}}))(t)
	t.Cleanup(pool.Close)
	const shown = `SELECT concat_ws(' ', current_setting('plan_cache_mode'), current_setting('jit'), current_setting('enable_sort'))`
	for _, db := range []struct {
		of   pg.DB
		want string
	}{
		{pool, "auto off on"},
		{pool.NewShare(pg.ShareOptions{Most: 1, Settings: map[string]string{"plan_cache_mode": "force_custom_plan", "enable_sort": "off"}}), "auto off off"},
	} {
		var got string
		if err := db.of.QueryRow(t.Context(), shown).Scan(&got); err != nil || got != db.want {
			t.Errorf("%q, %v; want %q", got, err, db.want)
		}
	}
}

func TestSharesHaveTheirSettings(t *testing.T) {
	t.Parallel()
	pool := testkit.Must(pg.Open(t.Context(), testkit.NewDatabase(t), pg.Options{MaxConns: 2, Settings: map[string]string{"lock_timeout": "701ms"}}))(t)
	t.Cleanup(pool.Close)
	const shown = `SELECT concat_ws(' ', current_setting('enable_sort'), current_setting('lock_timeout'), current_setting('statement_timeout'))`
	var group sync.WaitGroup
	for _, of := range []struct {
		settings map[string]string
		want     string
	}{
		{nil, "on 701ms 0"},
		{map[string]string{"enable_sort": "off"}, "off 701ms 0"},
		{map[string]string{"enable_sort": "off", "lock_timeout": "702ms", "statement_timeout": "60001ms"}, "off 702ms 60001ms"},
	} {
		share := pool.NewShare(pg.ShareOptions{Most: 2, Settings: of.settings})
		check := func(how, got string, err error) {
			if err != nil || got != of.want {
				t.Errorf("%v, %s: %q, %v; want %q", of.settings, how, got, err, of.want)
			}
		}
		for range 2 {
			group.Go(func() {
				for range 50 {
					var got string
					err := share.QueryRow(t.Context(), shown).Scan(&got)
					check("a query", got, err)
					err = pg.InTx(t.Context(), share, func(tx pgx.Tx) error { return tx.QueryRow(t.Context(), shown).Scan(&got) })
					check("a transaction", got, err)
					var b pgx.Batch
					b.Queue(shown).QueryRow(func(row pgx.Row) error { return row.Scan(&got) })
					err = share.SendBatch(t.Context(), &b).Close()
					check("a batch", got, err)
				}
			})
		}
	}
	group.Wait()
}

// TestAFloodLeavesOthersTheirConnections: a share whose users hold all that it may have
// keeps nobody else waiting, and what is kept for a share is there whatever the others take.
func TestAFloodLeavesOthersTheirConnections(t *testing.T) {
	t.Parallel()
	pool := openAt(t, testkit.NewDatabase(t), 4)
	quiet := pool.NewShare(pg.ShareOptions{Name: "quiet", Least: 1, Most: 2})
	flood := pool.NewShare(pg.ShareOptions{Name: "flood", Most: 4})
	release := take(t, flood, 3)
	waits := make(chan error)
	go func() {
		_, err := flood.Exec(t.Context(), "SELECT")
		waits <- err
	}()
	testkit.Eventually(t, func() error {
		if n := flood.Use().Waiting; n != 1 {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	for range 20 {
		testkit.Must(quiet.Exec(t.Context(), "SELECT"))(t)
	}
	release()
	if err := <-waits; err != nil {
		t.Error(err)
	}
}

// TestConnectionsComeBack: whichever way a statement ends, its connection and its place are
// there for the next one.
func TestConnectionsComeBack(t *testing.T) {
	t.Parallel()
	pool := openAt(t, testkit.NewDatabase(t), 1)
	share := pool.NewShare(pg.ShareOptions{Most: 1})
	ended, end := context.WithCancel(t.Context())
	end()
	for name, use := range map[string]func() error{
		"a wrong query":          func() error { rows, err := share.Query(t.Context(), "SELEKT"); rows.Close(); return err },
		"a query that fails":     func() error { return share.QueryRow(t.Context(), "SELECT 1 / $1::int", 0).Scan(new(int)) },
		"no row":                 func() error { return share.QueryRow(t.Context(), "SELECT 1 WHERE $1", false).Scan(new(int)) },
		"a row that cannot be":   func() error { return share.QueryRow(t.Context(), "SELECT 'x'").Scan(new(int)) },
		"a wrong statement":      func() error { _, err := share.Exec(t.Context(), "SELEKT"); return err },
		"a caller that has gone": func() error { _, err := share.Exec(ended, "SELECT"); return err },
		"a transaction":          func() error { return pg.InTx(t.Context(), share, func(pgx.Tx) error { return errors.New("no") }) },
		"a transaction that fails": func() error {
			return pg.InTx(t.Context(), share, func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "SELEKT"); return err })
		},
		"a batch": func() error {
			var b pgx.Batch
			b.Queue("SELECT 1")
			b.Queue("SELEKT")
			return share.SendBatch(t.Context(), &b).Close()
		},
		"rows that are not read": func() error {
			rows, err := share.Query(t.Context(), "SELECT generate_series(1, 100000)")
			if err == nil {
				rows.Next()
				rows.Close()
			}
			return errors.Join(err, errors.New("no error is wanted"))
		},
		"a copy": func() error {
			_, err := share.CopyFrom(t.Context(), pgx.Identifier{"nothing"}, []string{"n"}, pgx.CopyFromRows(nil))
			return err
		},
	} {
		if err := use(); err == nil {
			t.Errorf("%s: no error", name)
		}
		if use := share.Use(); use.Used != 0 {
			t.Fatalf("%s: %d places are taken", name, use.Used)
		}
		var n int
		if err := share.QueryRow(t.Context(), "SELECT 1").Scan(&n); err != nil || n != 1 {
			t.Errorf("after %s: %d, %v", name, n, err)
		}
	}
}

// TestNoMoreConnectionsThanPlaces: whoever waits for a connection gets the one that is given
// back, and opens no other.
func TestNoMoreConnectionsThanPlaces(t *testing.T) {
	t.Parallel()
	pool := openAt(t, testkit.NewDatabase(t), 3)
	shares := []*pg.Share{pool.Share, pool.NewShare(pg.ShareOptions{Least: 1, Most: 2}), pool.NewShare(pg.ShareOptions{Most: 3, Settings: map[string]string{"jit": "off"}})}
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			for range 100 {
				var n int
				if err := shares[i%len(shares)].QueryRow(t.Context(), "SELECT 1").Scan(&n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if n := pool.Stat().NewConnsCount(); n > 3 {
		t.Errorf("%d connections were opened for 3 places", n)
	}
}
