package service

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/connlimit"
)

// The most connections of the listeners beside the API's, which is a setting.
const (
	maxConsoleConnections = 512
	maxAdminConnections   = 64
)

// unprovenIdle is how long a connection to a listener may be idle before a valid key
// came over it. Those of the console and of operators never have one. It must not be
// shorter than what the listener's server allows for a request, which it bounds, too.
func unprovenIdle(name string) time.Duration {
	if name == RoleAPI {
		return 10 * time.Second
	}
	return 30 * time.Second
}

// connectionsOf is how many connections a listener may have, with so many
// descriptors for the process. All listeners together get one half of them: the
// other half stays for PostgreSQL, webhooks and files.
func connectionsOf(name string, descriptors, maxAPI int) int {
	half := descriptors / 2
	switch name {
	case RoleAPI:
		return max(1, min(maxAPI, half/4*3))
	case RoleConsole:
		return max(1, min(maxConsoleConnections, half/16*3))
	default:
		return max(1, min(maxAdminConnections, half/16))
	}
}

// limitConnections bounds the connections of a listener, whose server it prepares.
func (s *Service) limitConnections(ctx context.Context, b *binding, bound net.Listener) *connlimit.Listener {
	refused := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ledgerfeed_connections_refused_total", Help: "Connections for which a listener had no place.",
		ConstLabels: prometheus.Labels{"listener": b.name},
	})
	evicted := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ledgerfeed_connections_evicted_total", Help: "Idle connections that a listener closed to make room for others.",
		ConstLabels: prometheus.Labels{"listener": b.name},
	})
	most := connectionsOf(b.name, connlimit.Descriptors(), s.env.Settings.MaxConnections)
	var logged atomic.Int64 // the minute
	cfg := connlimit.Config{
		Max: most, MaxPerAddress: (most + 1) / 2, Proxies: s.env.Settings.TrustedProxies, UnprovenIdle: unprovenIdle(b.name), Refusal: b.refusal,
		Evicted: evicted.Inc,
		Refused: func() {
			refused.Inc()
			if minute := s.env.Clock().Unix() / 60; logged.Swap(minute) != minute {
				s.env.Logger.WarnContext(ctx, "connections are refused: there are as many as the listener may have, in all or from one address; more of them are not logged in this minute",
					"listener", b.name, "most", most, "most_from_one_address", (most+1)/2)
			}
		},
	}
	if cfg.Refusal == nil {
		cfg.Refusal = refuseInWords
	}
	limited := connlimit.Wrap(bound, cfg)
	b.server.ConnState = limited.ConnState
	s.metrics.MustRegister(refused, evicted, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledgerfeed_connections", Help: "Connections that a listener has.",
		ConstLabels: prometheus.Labels{"listener": b.name},
	}, func() float64 { return float64(limited.Open()) }))
	return limited
}

// refuseInWords is the answer of listeners for people and operators to a connection
// for which they have no place.
func refuseInWords(string) []byte {
	const text = "There are as many connections as this address of the service may have. Try again in a few seconds.\n"
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 10\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable), len(text), text)
}
