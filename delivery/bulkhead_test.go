package delivery_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// gate is a receiver's handler that holds every request until it is opened, and
// counts those that are open at once.
type gate struct {
	mu        sync.Mutex
	now, most int
	first     []string // event ids, in order of arrival
	opened    chan struct{}
}

func (g *gate) hold(r *http.Request) {
	g.mu.Lock()
	g.now++
	g.most = max(g.most, g.now)
	g.first = append(g.first, r.Header.Get("Service-Event-Id"))
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
	case <-r.Context().Done():
	}
	g.mu.Lock()
	g.now--
	g.mu.Unlock()
}

// full waits until as many requests are held as may be.
func (g *gate) full(t *testing.T, bound int) {
	t.Helper()
	testkit.Eventually(t, func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.now != bound {
			return fmt.Errorf("%d messages are under way, want %d", g.now, bound)
		}
		return nil
	})
}

// TestBoundOfMessagesUnderWay counts the requests that are open at once, of a
// backlog and of retries that are all due together after an outage.
func TestBoundOfMessagesUnderWay(t *testing.T) {
	t.Parallel()
	const bound, events = 10, 300
	b := setup(t, policy.Settings{})
	var down atomic.Bool
	g := &gate{opened: make(chan struct{})}
	rc := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		g.hold(r)
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	ids := b.append("invoice.reversed", events)
	b.dispatcher()
	g.full(t, bound)
	down.Store(true)
	close(g.opened)
	rc.Wait(t, events)
	g.mu.Lock()
	if want := slices.Sorted(slices.Values(ids[:bound])); !slices.Equal(slices.Sorted(slices.Values(g.first[:bound])), want) {
		t.Errorf("the first messages were not the first in the log")
	}
	g.mu.Unlock()
	testkit.Eventually(t, func() error { // all failed, and wait
		lag := b.status()
		if lag[0].Waiting != events {
			return fmt.Errorf("%d wait, want %d", lag[0].Waiting, events)
		}
		return nil
	})
	down.Store(false)
	g.mu.Lock()
	g.opened = make(chan struct{})
	g.mu.Unlock()
	b.clock.Advance(2 * time.Minute)
	b.project(workspace)
	g.full(t, bound)
	close(g.opened)
	want := make([]policy.State, events)
	for i := range want {
		want[i] = policy.Succeeded
	}
	b.states(w.ID, want...)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.most != bound {
		t.Errorf("%d messages were under way at once, want %d", g.most, bound)
	}
}

// TestHangingReceiversDelayNobody: most receivers hang, each with as many attempts
// as its bound allows. The others get all their messages before any of those ends.
func TestHangingReceiversDelayNobody(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Timeout: 10 * time.Minute}) // a busy machine takes minutes
	const good, hanging, bound, messages = 5, 45, 10, 500
	release := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	var ended atomic.Int64
	hang := testkit.NewReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		defer ended.Add(1)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	fine := testkit.NewReceiver(t, nil)
	webhook := func(i int, url string) string {
		ws := fmt.Sprintf("w%d", i)
		b.webhookIn(ws, url)
		return ws
	}
	var healthy []string
	for i := range good {
		healthy = append(healthy, webhook(i, fine.URL))
	}
	registry := prometheus.NewRegistry()
	b.dispatcher(func(c *dispatch.Config) { c.Limit, c.Metrics = (good+hanging)*bound, registry })
	t.Cleanup(letGo) // before the dispatcher stops, which waits for them
	for i := range hanging {
		b.appendTo(webhook(100+i, hang.URL), "invoice.reversed", 4*bound)
	}
	hang.Wait(t, hanging*bound)
	for i := range messages {
		b.appendTo(healthy[i%good], "invoice.reversed", 1)
		if i%20 == 0 {
			fine.Wait(t, i+1) // now one at a time, now many
		}
	}
	fine.Wait(t, messages)
	if n := ended.Load(); n != 0 {
		t.Errorf("%d attempts that hang ended meanwhile: the others may have waited for them", n)
	}
	if n := hang.Count(); n != hanging*bound {
		t.Errorf("%d attempts hang, want %d", n, hanging*bound)
	}
	testkit.Eventually(t, func() error {
		if n := gauge(t, registry, "ledgerfeed_webhook_under_way"); n != hanging*bound {
			return fmt.Errorf("%v attempts are under way, want those %d that hang", n, hanging*bound)
		}
		return nil
	})
}

// TestInstancesShare runs one dispatcher, then two, then four: each gets an even
// share. When all but one stop, that one delivers everything.
func TestInstancesShare(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Timeout: 2 * time.Second})
	rc := testkit.NewReceiver(t, nil)
	const spaces = 12
	all, sent := b.oneForEach(rc, spaces)
	var (
		metrics []*prometheus.Registry
		stops   []func()
	)
	for _, n := range []int{1, 2, 4} {
		for len(metrics) < n {
			registry := prometheus.NewRegistry()
			_, stop := b.dispatcher(func(c *dispatch.Config) {
				// Long, because a process that a busy machine stops for longer loses its lease, and messages are sent again.
				c.Lease, c.Renew = 16*time.Second, 500*time.Millisecond
				c.Sweep, c.Metrics = 50*time.Millisecond, registry
			})
			metrics, stops = append(metrics, registry), append(stops, stop)
		}
		testkit.Eventually(t, func() error {
			all()
			held, least := 0, spaces
			for _, registry := range metrics {
				own := int(gauge(t, registry, "ledgerfeed_webhooks_held"))
				held += own
				least = min(least, own)
			}
			if held != spaces || least < spaces/n-1 {
				return fmt.Errorf("%d dispatchers hold %d webhooks, one of them %d, want even shares of %d", n, held, least, spaces)
			}
			return nil
		})
	}
	for _, stop := range stops[1:] {
		stop()
	}
	all()
	if extra := rc.Count() - *sent; extra != 0 {
		t.Errorf("%d messages more than events", extra)
	}
}
