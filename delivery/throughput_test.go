package delivery_test

import (
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// BenchmarkBareLoop sends signed bodies with the same client and as many
// connections as BenchmarkDispatcher, and does nothing else: its limit.
func BenchmarkBareLoop(b *testing.B) {
	s, n := sink(b)
	sender := testkit.Must(attempt.NewSender(attempt.SenderConfig{Settings: policy.Settings{Allow: testkit.Loopback(), CAFile: testkit.CAFile(b)}, Clock: time.Now}))(b)
	defer sender.Close()
	u := testkit.Must(url.Parse(s.URL))(b)
	body := []byte(`{"id":"evt_01a1fdcb-b30b-712a-9616-b265a779828b","type":"invoice.reversed","created_at":"2026-10-02T09:15:00.120Z","data":{"object_type":"invoice","object_id":"inv_1","invoice_id":"inv_1"}}`)
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	b.ResetTimer()
	for range 10 * benchSpaces * delivery.MaxWebhooks {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if a := sender.Send(b.Context(), &attempt.Message{URL: u, EventID: "evt_1", DeliveryID: "evt_1_wh_1", Body: body, Secrets: []string{"whsec_x"}}); !a.Success() {
					b.Errorf("%+v", a)
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "deliveries/s")
}

// benchSpaces is how many workspaces have their five webhooks each.
const benchSpaces = 4

// BenchmarkDispatcher delivers a backlog to twenty webhooks.
func BenchmarkDispatcher(b *testing.B) {
	h := setup(b, policy.Settings{})
	s, n := sink(b)
	events := max(b.N/benchSpaces/delivery.MaxWebhooks, 1)
	for i := range benchSpaces {
		ws := fmt.Sprintf("w%d", i)
		if _, err := h.pool.Exec(b.Context(), `SELECT workspace_create($1, $1, now())`, ws); err != nil {
			b.Fatal(err)
		}
		for k := range delivery.MaxWebhooks {
			testkit.Must(h.store.Create(b.Context(), ws, delivery.Definition{URL: fmt.Sprintf("%s/%d", s.URL, k), Events: []string{"all"}}))(b)
		}
		h.appendTo(ws, "invoice.reversed", events)
	}
	pool, _ := h.counting()
	b.ResetTimer()
	_, stop := h.dispatcher(func(c *dispatch.Config) { c.Pool = pool })
	testkit.Eventually(b, func() error {
		if got, want := n.Load(), int64(events*benchSpaces*delivery.MaxWebhooks); got < want {
			return fmt.Errorf("%d delivered, want %d", got, want)
		}
		return nil
	})
	b.StopTimer()
	b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "deliveries/s")
	stop()
	pool.Close()
}
