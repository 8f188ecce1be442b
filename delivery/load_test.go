package delivery_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// statementCount counts statements.
type statementCount struct{ n atomic.Int64 }

func (t *statementCount) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	t.n.Add(1)
	return ctx
}

func (t *statementCount) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (t *statementCount) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {
	t.n.Add(1)
}
func (t *statementCount) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
func (t *statementCount) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counting is a pool for a dispatcher whose statements are counted.
func (b *bench) counting() (*pgxpool.Pool, *statementCount) {
	b.t.Helper()
	counted := &statementCount{}
	pool := testkit.Must(pg.Open(b.t.Context(), b.pool.Config().ConnString(), pg.Options{
		MaxConns: b.pool.Config().MaxConns, Settings: dispatch.PoolSettings(), Tracer: counted,
	}))(b.t)
	b.t.Cleanup(pool.Close)
	return pool, counted
}

// sink is a receiver that only counts.
func sink(t testing.TB) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n.Add(1)
	}))
	s.Config.ErrorLog = discardLog()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, &n
}

// rowWrites is how many rows were written into the tables of deliveries.
func (b *bench) rowWrites() (n int64) {
	b.t.Helper()
	err := b.pool.QueryRow(b.t.Context(), `
		SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables WHERE relname LIKE 'webhook%'`).Scan(&n)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// TestCostsLittleAtFullLoad: a delivery costs at most 0.1 statements and 1.2 row
// writes. There are as many webhooks as in the benchmark. With fewer, batches of
// results are smaller, because a webhook waits for its places. So they are under the race
// detector, which slows attempts down and PostgreSQL not.
func TestCostsLittleAtFullLoad(t *testing.T) {
	const webhooks, events = 20, 300
	b := setup(t, policy.Settings{})
	s, n := sink(t)
	for i := range webhooks {
		ws := fmt.Sprintf("w%d", i)
		b.webhookIn(ws, s.URL)
		b.appendTo(ws, "invoice.reversed", events)
	}
	pool, counted := b.counting()
	before := b.rowWrites()
	began := time.Now()
	_, stop := b.dispatcher(func(c *dispatch.Config) { c.Pool = pool })
	testkit.Eventually(t, func() error {
		if got := n.Load(); got < webhooks*events {
			return fmt.Errorf("%d delivered, want %d", got, webhooks*events)
		}
		return nil
	})
	took := time.Since(began)
	stop()
	pool.Close() // its sessions report their statistics when they end
	testkit.Eventually(t, func() error {
		var rows int64
		err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_delivery WHERE state = 'succeeded'`).Scan(&rows)
		if err == nil && rows != webhooks*events {
			err = fmt.Errorf("%d rows, want %d", rows, webhooks*events)
		}
		return err
	})
	var writes int64
	testkit.Eventually(t, func() error {
		if writes = b.rowWrites() - before; writes < webhooks*events {
			return fmt.Errorf("%d rows written are less than there must be", writes)
		}
		return nil
	})
	each := func(n int64) float64 { return float64(n) / (webhooks * events) }
	t.Logf("%.0f deliveries/s; for each %.3f statements, %.3f row writes", webhooks*events/took.Seconds(), each(counted.n.Load()), each(writes))
	statements := 0.1
	if raceDetector {
		statements = 0.15
	}
	if each(counted.n.Load()) > statements || each(writes) > 1.2 {
		t.Errorf("for each delivery %.3f statements (at most %v) and %.3f row writes (at most 1.2)", each(counted.n.Load()), statements, each(writes))
	}
	if got := n.Load(); got != webhooks*events {
		t.Errorf("%d messages, want %d", got, webhooks*events)
	}
}
