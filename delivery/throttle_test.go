package delivery_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestThrottleIsForCostlyFailures: receivers that close the connection after each
// message, or hang, are throttled until they accept one. One that answers with an
// error over a connection that stays open is not.
func TestThrottleIsForCostlyFailures(t *testing.T) {
	t.Parallel()
	const perSecond, messages, bound = 1, 200, 10
	const costlyAfter, burst = 3, 10 // see package scheduler
	b := setup(t, policy.Settings{Timeout: time.Second})
	var came atomic.Int64
	back := make(chan struct{})
	hangsUp := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // HTTP/1.1 alone
		came.Add(1)
		select {
		case <-back:
		default:
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(hangsUp.Close)
	hangs := testkit.NewReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) { // over one connection, in HTTP/2
		came.Add(1)
		select {
		case <-back:
		case <-r.Context().Done():
		}
	})
	fails := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	began := b.clock.Now()
	registry := prometheus.NewRegistry()
	b.dispatcher(func(c *dispatch.Config) { c.CostlyPerSecond, c.Bound, c.Metrics = perSecond, bound, registry })
	for ws, url := range map[string]string{"w1": hangsUp.URL, "w2": hangs.URL, "w3": fails.URL} {
		b.webhookIn(ws, url)
		b.appendTo(ws, "invoice.reversed", messages)
	}
	fails.Wait(t, messages)
	testkit.Eventually(t, func() error {
		if n := gauge(t, registry, "ledgerfeed_webhooks_waiting_for_a_turn"); n != 2 {
			return fmt.Errorf("%v webhooks are throttled, want 2", n)
		}
		return nil
	})
	n := int(came.Load())
	// By the dispatcher's own clock, read after the messages were counted.
	most := 2*(costlyAfter+bound) + perSecond*(burst+1+int(b.clock.Now().Unix()-began.Unix()))
	if n < 2*costlyAfter || n > most {
		t.Errorf("%d messages came, want %d to %d", n, 2*costlyAfter, most)
	}
	close(back)
	testkit.Eventually(t, func() error { // throttled it would take minutes
		if n := came.Load(); n < 2*messages {
			return fmt.Errorf("%d messages came, want %d", n, 2*messages)
		}
		return nil
	})
}
