package pg_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// silentProxy passes connections on to a database until it is told to let those that
// exist go silent: they stay open, and nothing gets through any more.
type silentProxy struct {
	url   string
	epoch atomic.Int64 // connections of an older epoch are silent

	mu    sync.Mutex
	conns []net.Conn
}

// end closes all connections, so that nobody waits for those that are silent.
func (p *silentProxy) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
}

func newSilentProxy(t *testing.T, database string) *silentProxy {
	t.Helper()
	at, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := at.Query()
	upstream := filepath.Join(query.Get("host"), ".s.PGSQL.5432")
	dir, err := os.MkdirTemp("", "pg-silent-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	query.Set("host", dir)
	query.Del("requirepeer")
	at.RawQuery = query.Encode()
	p := &silentProxy{url: at.String()}
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", upstream)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, client, server)
			p.mu.Unlock()
			epoch := p.epoch.Load()
			go p.pass(server, client, epoch)
			go p.pass(client, server, epoch)
		}
	}()
	return p
}

func (p *silentProxy) pass(to, from net.Conn, epoch int64) {
	buffer := make([]byte, 1<<15)
	for {
		n, err := from.Read(buffer)
		if p.epoch.Load() != epoch {
			if err != nil {
				return // the other side never hears of it
			}
			continue
		}
		if n > 0 {
			_, _ = to.Write(buffer[:n])
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = to.Close()
			}
			return
		}
	}
}

// A connection that has gone silent while nobody used it is asked before it is used,
// and replaced; without that the query would wait as long as its caller.
func TestSilentConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	p := newSilentProxy(t, testkit.NewDatabase(t))
	opened := testkit.Must(pg.Open(t.Context(), p.url, pg.Options{MaxConns: 4}))(t)
	cfg := opened.Config()
	opened.Close()
	// As all are that were idle for a second.
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	pool := testkit.Must(pgxpool.NewWithConfig(t.Context(), cfg))(t)
	defer pool.Close()
	defer p.end()
	testkit.Must(pool.Exec(t.Context(), "SELECT"))(t)
	p.epoch.Add(1)
	asking, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := pool.Exec(asking, "SELECT"); err != nil {
		t.Error(err)
	}
}

// A transaction whose client went silent is ended by the server, and its locks with
// it; every connection of a pool asks for that.
func TestServerEndsSilentTransactions(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	pool, err := pg.Open(t.Context(), database, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var shown string
	if err := pool.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&shown); err != nil || shown != "30s" {
		t.Errorf("idle_in_transaction_session_timeout is %q, %v", shown, err)
	}
	p := newSilentProxy(t, database)
	short, err := pg.Open(t.Context(), p.url, pg.Options{Settings: map[string]string{"idle_in_transaction_session_timeout": "200ms"}})
	if err != nil {
		t.Fatal(err)
	}
	defer short.Close()
	defer p.end()
	if _, err := pool.Exec(t.Context(), "CREATE TABLE held (id int); INSERT INTO held VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	tx, err := short.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM held FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	p.epoch.Add(1)
	locking, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := pool.Exec(locking, "SELECT FROM held FOR UPDATE"); err != nil {
		t.Errorf("the row of a silent client stays locked: %v", err)
	}
	pg.Rollback(t.Context(), tx)
}
