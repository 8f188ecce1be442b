// This file has the metrics that tell the state of the whole service, as its
// database has it, and the metrics of connection pools. Every serving process offers the
// state, with the same values: take the maximum over the processes.

package service

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
)

// How often the state is read: every interval, and so seldom that reading it takes no
// more than one hundredth of the time; but after longest at the latest, however long one
// reading took, because alerts take a state that is older than 5 minutes for unknown, and
// a lock that held up one reading must not hide those after it.
const (
	interval    = 15 * time.Second
	pauseFactor = 100
	longest     = time.Minute
)

// readTimeout bounds one reading.
const readTimeout = 10 * time.Second

// State reads the state of the service from its database.
type State struct {
	pool   pg.DB
	logger *slog.Logger
	store  *anomaly.Store

	entries, visible, lagEntries     prometheus.Gauge
	lag                              lags
	workspaces, quarantined, skipped prometheus.Gauge
	anomalies, differing             prometheus.Gauge
	webhooks                         *prometheus.GaugeVec
	waiting                          prometheus.Gauge
	mails, failedMails, read         prometheus.Gauge
	relays                           relays
}

// lags are times since the oldest entry was appended that something does not have yet, in
// seconds.
type lags struct{ projection, delivery, trees prometheus.Gauge }

// NewState registers the metrics.
func NewState(pool pg.DB, logger *slog.Logger, register prometheus.Registerer) (*State, error) {
	var failed error
	add := func(c prometheus.Collector) {
		if err := register.Register(c); err != nil && failed == nil {
			failed = fmt.Errorf("register a metric: %w", err)
		}
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "ledgerfeed_" + name, Help: help})
		add(g)
		return g
	}
	s := &State{
		pool: pool, logger: logger, store: anomaly.NewStore(pool, time.Now),
		entries:     gauge("log_entries", "Entries in the log, over all workspaces; its rate is that of appends."),
		visible:     gauge("log_visible_entries", "Entries whose effect the read models have, over all workspaces."),
		lagEntries:  gauge("projection_lag_entries", "Entries in the log that the read models do not have yet."),
		workspaces:  gauge("workspaces", "Workspaces."),
		quarantined: gauge("quarantined_workspaces", "Workspaces that wait before an entry that cannot be projected."),
		skipped:     gauge("skipped_entries", "Entries that an operator made the projector skip."),
		anomalies:   gauge("anomalies_waiting", fmt.Sprintf("Entries without their whole effect that nobody has acknowledged; %d stands for so many or more.", anomaly.MostWaiting)),
		differing:   gauge("differing_workspaces", "Workspaces in which the last background verification found a difference."),
		waiting:     gauge("webhook_deliveries_waiting", "Deliveries that will be tried again."),
		lag: lags{
			projection: gauge("projection_lag_seconds", "Time since the oldest entry was appended that the read models do not have and that does not wait in a quarantine; 0: there is none."),
			delivery:   gauge("delivery_lag_seconds", "Time since the oldest entry was appended that a webhook, which is on, has not come to; 0: there is none."),
			trees:      gauge("tree_lag_seconds", "Time since the oldest visible entry was appended that the trees of its workspace do not have yet; 0: there is none."),
		},
		mails:       gauge("mails_waiting", "Mails that are not sent yet."),
		failedMails: gauge("mails_failing", "Mails whose last attempt failed."),
		read:        gauge("state_read_timestamp_seconds", "When the state that these metrics tell was last read from the database."),
		webhooks: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ledgerfeed_webhooks", Help: "Webhooks by state: on, failing (on, without a success since its failures began), paused, off.",
		}, []string{"state"}),
	}
	add(s.webhooks)
	s.relays = newRelays(add)
	for _, state := range []string{"on", "failing", "paused", "off"} {
		s.webhooks.WithLabelValues(state)
	}
	return s, failed
}

// Run reads the state from time to time until ctx ends.
func (s *State) Run(ctx context.Context) error {
	outage := flow.Outage{
		Logger: s.logger, Failing: "cannot read the state of the service for its metrics; trying again until it works", Working: "the state of the service is read again for its metrics",
	}
	for {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, readTimeout)
		err := s.Read(limited)
		cancel()
		if ctx.Err() == nil {
			outage.LogTransition(ctx, err)
		}
		if !flow.Sleep(ctx, min(max(interval, pauseFactor*time.Since(began)), longest)) {
			return nil
		}
	}
}

// Read reads the state once.
func (s *State) Read(ctx context.Context) error {
	for _, q := range []struct {
		sql  string
		into []prometheus.Gauge
	}{
		{`SELECT count(*), coalesce(sum(h.position), 0), coalesce(sum(c.position), 0), coalesce(sum(h.position - c.position), 0), count(*) FILTER (WHERE c.quarantined)
		    FROM log_head h JOIN log_checkpoint c ON c.workspace_id = h.workspace_id AND c.consumer = '` + eventlog.ReadModels + `'`,
			[]prometheus.Gauge{s.workspaces, s.entries, s.visible, s.lagEntries, s.quarantined}},
		{`SELECT coalesce(extract(epoch FROM clock_timestamp() - min(coalesce(e.appended_at, e.created_at))), 0)
		    FROM log_checkpoint c
		    JOIN log_head h ON h.workspace_id = c.workspace_id AND h.position > c.position
		    JOIN event_log e ON e.workspace_id = c.workspace_id AND e.position = c.position + 1
		   WHERE c.consumer = '` + eventlog.ReadModels + `' AND NOT c.quarantined`,
			[]prometheus.Gauge{s.lag.projection}},
		{`SELECT coalesce(extract(epoch FROM clock_timestamp() - min(coalesce(e.appended_at, e.created_at))), 0)
		    FROM webhook w
		    JOIN webhook_cursor k ON k.workspace_id = w.workspace_id AND k.webhook_id = w.webhook_id
		    JOIN log_checkpoint c ON c.workspace_id = w.workspace_id AND c.consumer = '` + eventlog.ReadModels + `' AND c.position > k.position
		    JOIN event_log e ON e.workspace_id = w.workspace_id AND e.position = k.position + 1
		   WHERE w.state = 'on'`,
			[]prometheus.Gauge{s.lag.delivery}},
		{`SELECT coalesce(extract(epoch FROM clock_timestamp() - min(coalesce(e.appended_at, e.created_at))), 0)
		    FROM log_checkpoint c
		    LEFT JOIN log_checkpoint t ON t.workspace_id = c.workspace_id AND t.consumer = '` + eventtree.Consumer + `'
		    JOIN event_log e ON e.workspace_id = c.workspace_id AND e.position = coalesce(t.position, 0) + 1
		   WHERE c.consumer = '` + eventlog.ReadModels + `' AND c.position > coalesce(t.position, 0)`,
			[]prometheus.Gauge{s.lag.trees}},
		{`SELECT (SELECT count(*) FROM log_skip WHERE consumer = '` + eventlog.ReadModels + `'),
		         (SELECT count(*) FROM replay_audit WHERE differences > 0),
		         (SELECT count(*) FROM webhook_waiting), (SELECT count(*) FROM webhook_mail), (SELECT count(*) FROM webhook_mail WHERE error IS NOT NULL)`,
			[]prometheus.Gauge{s.skipped, s.differing, s.waiting, s.mails, s.failedMails}},
		{`SELECT count(*) FILTER (WHERE state = 'on' AND failing_since IS NULL), count(*) FILTER (WHERE state = 'on' AND failing_since IS NOT NULL), count(*) FILTER (WHERE state = 'paused'), count(*) FILTER (WHERE state = 'off')
		    FROM webhook`,
			[]prometheus.Gauge{s.webhooks.WithLabelValues("on"), s.webhooks.WithLabelValues("failing"), s.webhooks.WithLabelValues("paused"), s.webhooks.WithLabelValues("off")}},
	} {
		values := make([]float64, len(q.into))
		targets := make([]any, len(q.into))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := s.pool.QueryRow(ctx, q.sql).Scan(targets...); err != nil {
			return fmt.Errorf("read the state of the service: %w", err)
		}
		for i, g := range q.into {
			g.Set(values[i])
		}
	}
	waiting, err := s.store.Waiting(ctx)
	if err != nil {
		return fmt.Errorf("read the state of the service: %w", err)
	}
	s.anomalies.Set(float64(waiting))
	if err := s.relays.read(ctx, s.pool); err != nil {
		return err
	}
	s.read.SetToCurrentTime()
	return nil
}

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

func (r relays) read(ctx context.Context, pool pg.DB) error {
	list, err := relay.ReadStatus(ctx, pool, "")
	if err != nil {
		return fmt.Errorf("read the state of relays: %w", err)
	}
	for _, g := range []*prometheus.GaugeVec{r.lagEntries, r.lagSeconds, r.failing} {
		g.Reset() // relays that were removed have no figures
	}
	for i := range list {
		r.lagEntries.WithLabelValues(list[i].Name).Set(float64(list[i].LagEntries))
		r.lagSeconds.WithLabelValues(list[i].Name).Set(list[i].LagSeconds)
		r.failing.WithLabelValues(list[i].Name).Set(float64(list[i].Failing))
	}
	return nil
}

// Notifications are the metrics of the notifications between processes.
func Notifications(n *eventlog.Notifier) []prometheus.Collector {
	counter := func(name, help string, of func(eventlog.NotifierStats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "ledgerfeed_notifications_" + name, Help: help}, func() float64 { return float64(of(n.Stats())) })
	}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ledgerfeed_notifications_connected", Help: "1 while notifications of other processes are received, 0 otherwise.",
		}, func() float64 {
			if l := n.Listening(); l != nil && l.Connected {
				return 1
			}
			return 0
		}),
		counter("sent_total", "Notifications to other processes, of any number of workspaces each.", func(s eventlog.NotifierStats) uint64 { return s.Sent }),
		counter("received_total", "Notifications from other processes.", func(s eventlog.NotifierStats) uint64 { return s.Received }),
		counter("interrupted_total", "How often receiving them was interrupted; changes are found by sweeps meanwhile.", func(s eventlog.NotifierStats) uint64 { return s.Interrupted }),
	}
}
