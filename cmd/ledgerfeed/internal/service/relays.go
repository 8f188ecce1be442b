package service

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/relay"
)

// relays are the metrics of relays to message brokers, by their names.
type relays struct{ lagEntries, lagSeconds, failing *prometheus.GaugeVec }

func newRelays(add func(prometheus.Collector)) relays {
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ledgerfeed_relay_" + name, Help: help}, []string{"relay"})
		add(g)
		return g
	}
	return relays{
		lagEntries: gauge("lag_entries", "Visible entries that the relay has not sent yet."),
		lagSeconds: gauge("lag_seconds", "Time since the oldest visible entry was appended that the relay has not sent; 0: there is none."),
		failing:    gauge("failing_workspaces", "Workspaces that the relay could not send when it last tried."),
	}
}

func (r relays) read(ctx context.Context, pool *pgxpool.Pool) error {
	list, err := relay.ReadStatus(ctx, pool, "")
	if err != nil {
		return fmt.Errorf("read the state of relays: %w", err)
	}
	for _, g := range []*prometheus.GaugeVec{r.lagEntries, r.lagSeconds, r.failing} {
		g.Reset() // of those that were removed
	}
	for i := range list {
		r.lagEntries.WithLabelValues(list[i].Name).Set(float64(list[i].LagEntries))
		r.lagSeconds.WithLabelValues(list[i].Name).Set(list[i].LagSeconds)
		r.failing.WithLabelValues(list[i].Name).Set(float64(list[i].Failing))
	}
	return nil
}
