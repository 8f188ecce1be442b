package service

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// Notifications are the metrics of the notifications between processes.
func Notifications(n *eventlog.Notifier) []prometheus.Collector {
	counter := func(name, help string, of func(eventlog.NotifierStats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "ledgerfeed_notifications_" + name, Help: help}, func() float64 { return float64(of(n.Stats())) })
	}
	return []prometheus.Collector{
		ways{n, prometheus.NewDesc("ledgerfeed_notifications_connected", "1 while notifications of other processes are received, 0 otherwise, by each way.", []string{"by"}, nil)},
		counter("sent_total", "Notifications to other processes, of any number of workspaces each.", func(s eventlog.NotifierStats) uint64 { return s.Sent }),
		counter("received_total", "Notifications from other processes.", func(s eventlog.NotifierStats) uint64 { return s.Received }),
		counter("interrupted_total", "How often receiving them was interrupted; changes are found by sweeps meanwhile.", func(s eventlog.NotifierStats) uint64 { return s.Interrupted }),
	}
}

// ways are the metrics of the ways by which a process hears of the changes of others.
type ways struct {
	notifier  *eventlog.Notifier
	connected *prometheus.Desc
}

// Describe is of prometheus.Collector.
func (w ways) Describe(to chan<- *prometheus.Desc) { to <- w.connected }

// Collect is of prometheus.Collector.
func (w ways) Collect(to chan<- prometheus.Metric) {
	for _, one := range w.notifier.Ways() {
		value := 0.0
		if one.Connected {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(w.connected, prometheus.GaugeValue, value, one.By)
	}
}
