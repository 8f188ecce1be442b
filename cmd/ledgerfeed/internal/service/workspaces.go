package service

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// workspaces are the metrics of those workspaces that were named for it; others have
// none, because there can be any number of them.
type workspaces struct {
	ids []string

	exists, entries, visible, lag *prometheus.GaugeVec
}

func newWorkspaces(ids []string, add func(prometheus.Collector)) *workspaces {
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ledgerfeed_workspace_" + name, Help: help}, []string{"workspace"})
		if len(ids) > 0 {
			add(g)
		}
		return g
	}
	return &workspaces{
		ids:     ids,
		exists:  gauge("exists", "1 where there is the workspace of LEDGERFEED_METRICS_WORKSPACES, 0 where not, which has no other metrics then."),
		entries: gauge("log_entries", "Entries in the workspace's log: its head."),
		visible: gauge("log_visible_entries", "Entries of the workspace whose effect the read models have: its visible position."),
		lag:     gauge("projection_lag_seconds", "Time since the oldest entry of the workspace was appended that the read models do not have, also while it is quarantined; 0: there is none."),
	}
}

func (w *workspaces) read(ctx context.Context, pool *pgxpool.Pool) error {
	for _, id := range w.ids {
		progress, err := eventlog.ReadProgress(ctx, pool, eventlog.ReadModels, id)
		if err != nil {
			return fmt.Errorf("read the state of workspace %s: %w", id, err)
		}
		w.exists.WithLabelValues(id).Set(float64(len(progress)))
		for i := range progress { // one, or none
			w.entries.WithLabelValues(id).Set(float64(progress[i].Head))
			w.visible.WithLabelValues(id).Set(float64(progress[i].Position))
			w.lag.WithLabelValues(id).Set(progress[i].Waiting.Seconds())
		}
	}
	return nil
}
