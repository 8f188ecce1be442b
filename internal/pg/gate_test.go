//go:build full

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

func openAt(t *testing.T, address string, most int32) *pgxpool.Pool {
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
	w := pg.WaitsOf(pool)
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
func take(t *testing.T, pool *pgxpool.Pool, n int) (release func()) {
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
		if n := pg.WaitsOf(pool).Waiting; n != 1 {
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
