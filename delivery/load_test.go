package delivery_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
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
func (b *bench) counting() (testkit.DB, *statementCount) {
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

// rounds is a receiver that holds requests until as many are there as may be under way, and
// then answers them all. So the results of an attempt never wait for those of the next.
type rounds struct {
	size, rest int // of a round, and of the requests that are still to come
	mu         sync.Mutex
	held, came int
	answer     chan struct{}
}

// newRounds answers requests in rounds of a size, the last one in a smaller round.
func newRounds(size, all int) *rounds {
	return &rounds{size: size, rest: all, answer: make(chan struct{})}
}

// ServeHTTP implements http.Handler.
func (r *rounds) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body)
	r.mu.Lock()
	answer := r.answer
	r.held++
	r.came++
	r.rest--
	if r.held == r.size || r.rest == 0 {
		r.held, r.answer = 0, make(chan struct{})
		close(answer)
	}
	r.mu.Unlock()
	select {
	case <-answer:
	case <-req.Context().Done():
	}
}

// counts returns how many requests came, and how many of them are held.
func (r *rounds) counts() (came, held int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.came, r.held
}

// holdRecords is a tracer that lets a record of attempts begin only when all answers of a round
// are there: the record, and the one after it, have as many of them as there can be.
type holdRecords struct {
	statementCount
	settled func() bool
}

func (h *holdRecords) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if strings.Contains(data.Batch.QueuedQueries[0].SQL, "webhook_lease") {
		for again := true; again; {
			again = !h.settled() && flow.Sleep(ctx, 10*time.Millisecond)
		}
	}
	return ctx
}

// TestCostsLittleAtFullLoad: a delivery costs at most 0.1 statements and 1.2 row
// writes when each of twenty webhooks has as many attempts under way as it may.
func TestCostsLittleAtFullLoad(t *testing.T) {
	t.Parallel()
	const webhooks, bound = 20, 10
	events := testkit.Scale(150, 300)
	b := setup(t, policy.Settings{Timeout: time.Minute})
	receiver := newRounds(webhooks*bound, webhooks*events)
	s := httptest.NewUnstartedServer(receiver)
	s.Config.ErrorLog = discardLog()
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	for i := range webhooks {
		ws := fmt.Sprintf("w%d", i)
		b.webhookIn(ws, s.URL)
		b.appendTo(ws, "invoice.reversed", events)
	}
	registry := prometheus.NewRegistry()
	counted := &holdRecords{settled: func() bool {
		_, held := receiver.counts()
		return int(gauge(t, registry, "ledgerfeed_webhook_under_way")) == held
	}}
	pool := testkit.Must(pg.Open(t.Context(), b.pool.Config().ConnString(), pg.Options{MaxConns: 8, Settings: dispatch.PoolSettings(), Tracer: counted}))(t)
	t.Cleanup(pool.Close)
	before := b.rowWrites()
	_, stop := b.dispatcher(func(c *dispatch.Config) { c.Pool, c.Bound, c.Metrics = pool, bound, registry })
	testkit.Eventually(t, func() error {
		if came, held := receiver.counts(); came < webhooks*events {
			return fmt.Errorf("%d delivered, %d of them held, want %d", came, held, webhooks*events)
		}
		return nil
	})
	stop()
	pool.Close() // its sessions report their statistics when they end
	b.recordedIn(webhooks * events)
	var writes int64
	testkit.Eventually(t, func() error {
		if writes = b.rowWrites() - before; writes < int64(webhooks*events) {
			return fmt.Errorf("%d rows written are less than there must be", writes)
		}
		return nil
	})
	each := func(n int64) float64 { return float64(n) / float64(webhooks*events) }
	t.Logf("for each delivery %.3f statements, %.3f row writes", each(counted.n.Load()), each(writes))
	if each(counted.n.Load()) > 0.1 || each(writes) > 1.2 {
		t.Errorf("for each delivery %.3f statements (at most 0.1) and %.3f row writes (at most 1.2)", each(counted.n.Load()), each(writes))
	}
	if came, _ := receiver.counts(); came != webhooks*events {
		t.Errorf("%d messages, want %d", came, webhooks*events)
	}
}

// recordedIn waits until n deliveries are recorded as succeeded, in all workspaces.
func (b *bench) recordedIn(n int) {
	b.t.Helper()
	testkit.Eventually(b.t, func() error {
		var rows int
		err := b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM webhook_delivery WHERE state = 'succeeded'`).Scan(&rows)
		if err == nil && rows != n {
			err = fmt.Errorf("%d rows, want %d", rows, n)
		}
		return err
	})
}
